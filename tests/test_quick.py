"""Which tests `make quick` chooses, and in which order."""

from __future__ import annotations

import pytest

from graphveil.methods.baseline.mlp import Mlp
from graphveil.methods.edge.gap import Gap
from quick import LONG, MECHANISMS, METHODS, ROOT, UNIT, Choice, chosen, concerned


@pytest.mark.parametrize(
    ("path", "first"),
    [
        ("src/graphveil/methods/edge/gap.py", "tests/methods/edge/test_gap.py"),
        ("src/graphveil/privacy/session.py", "tests/privacy/test_session.py"),
        ("src/graphveil/checks.py", "tests/test_checks.py"),
        ("lab/src/graphveil_lab/bench/spec.py", "lab/tests/bench/test_spec.py"),
        ("lab/benchmarks/contribute.py", "lab/tests/scripts/test_contribute.py"),
        ("tests/nn/test_mlp.py", "tests/nn/test_mlp.py"),
        ("tests/gaussian_mixture.py", "tests/privacy/test_gaussian_mixture.py"),
        ("docs/design.md", "tests/test_docs.py"),
    ],
)
def test_the_mirror_of_a_file_comes_first(path: str, first: str) -> None:
    assert chosen([path]).ranks[first] == 0


def test_tests_of_callers_in_other_rooms_are_near() -> None:
    """What uses nn/rows.py breaks with it: the sensitivity of methods in blocks, and the methods that read rows."""
    ranks = chosen(["src/graphveil/nn/rows.py"]).ranks
    assert ranks["tests/nn/test_rows.py"] == 0
    assert ranks["tests/conformance/test_methods.py"] == 1
    assert ranks["tests/methods/label/test_probe.py"] == 2
    assert "tests/cli/test_cli.py" not in ranks


def test_parts_have_their_contract_with_all_specimens() -> None:
    gap = chosen(["src/graphveil/methods/edge/gap.py"])
    count = chosen(["src/graphveil/mechanisms/geometric_count.py"])
    assert (gap.parts, count.parts) == (["gap"], ["geometric_count"])
    assert {*METHODS, *MECHANISMS} <= gap.ranks.keys() & count.ranks.keys()


def test_what_is_no_module_has_the_tests_of_its_room() -> None:
    assert "tests/report/test_filings.py" in chosen(["src/graphveil/report/templates/run.html"]).ranks


@pytest.mark.parametrize("paths", [[], ["LICENSE"]])
def test_without_a_change_that_has_tests_there_are_unit_tests(paths: list[str]) -> None:
    assert chosen(paths).ranks == dict.fromkeys((*UNIT, *METHODS), 0)


def test_every_change_has_tests_that_are_there() -> None:
    every = [str(file.relative_to(ROOT)) for folder in ("src", "tests", "lab") for file in (ROOT / folder).rglob("*.*")]
    ranks = chosen(every[::9]).ranks
    assert all((ROOT / file).is_file() for file in ranks)
    assert set(ranks.values()) <= set(range(5))


def test_the_nearest_and_the_cheapest_files_come_first_and_long_tests_last() -> None:
    seconds = {"near.py::a": 0.5, "near.py::long": LONG, "near.py::b": 0.5, "cheap.py::a": 0.1, "far.py::a": 0.1}
    choice = Choice({"near.py": 0, "cheap.py": 0, "far.py": 1}, seconds=5.0)
    assert choice.affordable(seconds, seconds) == [
        "cheap.py::a",
        "near.py::a",
        "near.py::b",
        "near.py::long",
        "far.py::a",
    ]
    shorter = Choice(choice.ranks, seconds=1.5)
    assert shorter.affordable(seconds, seconds) == ["cheap.py::a", "near.py::a", "near.py::b"]


CONTRACT = "tests/conformance/test_methods.py::test_tripwire[1]"


def test_contracts_are_tested_with_all_specimens_of_a_part_and_the_first_of_others() -> None:
    seen: set[tuple[str, str]] = set()
    methods = (Gap(), Gap(hops=1), Mlp(), Mlp(), Gap())
    assert [concerned(CONTRACT, {"method": one}, ["gap"], seen) for one in methods] == [True, True, True, False, True]
    assert concerned(CONTRACT.replace("tripwire", "plan"), {"method": Mlp()}, [], seen)
    assert concerned(CONTRACT, {"unit": "edge"}, [], seen)
    assert concerned("tests/methods/test_best.py::test_sorts[1]", {"method": Mlp()}, [], seen)
