"""Which tests `make quick` chooses."""

from __future__ import annotations

import pytest

from graphveil.methods.baseline.mlp import Mlp
from graphveil.methods.edge.gap import Gap
from quick import MAX_FILES, MECHANISMS, METHODS, ONE, ROOT, UNIT, chosen, concerned


@pytest.mark.parametrize(
    ("path", "files", "parts"),
    [
        ("src/graphveil/methods/edge/gap.py", {"methods/edge/test_gap.py", *METHODS}, {"gap"}),
        (
            "src/graphveil/mechanisms/geometric_count.py",
            {"mechanisms/test_geometric_count.py", *MECHANISMS},
            {"geometric_count"},
        ),
        ("src/graphveil/privacy/session.py", {"privacy/test_session.py"}, set()),
        ("src/graphveil/checks.py", {"test_checks.py"}, set()),
        ("tests/nn/test_mlp.py", {"nn/test_mlp.py"}, set()),
        ("tests/conformance/test_methods.py", {"conformance/test_methods.py"}, {ONE}),
        ("docs/design.md", {"test_docs.py"}, set()),
    ],
)
def test_a_file_has_its_tests(path: str, files: set[str], parts: set[str]) -> None:
    assert chosen([path]) == (files, parts)


@pytest.mark.parametrize(
    ("path", "file", "parts"),
    [
        ("src/graphveil/methods/method.py", *METHODS, {ONE}),
        ("src/graphveil/data/arcs.py", "data/test_graph.py", set()),
        ("tests/gaussian_mixture.py", "privacy/test_gaussian_mixture.py", set()),
    ],
)
def test_without_a_mirror_tests_that_import_a_file_are_its_own(path: str, file: str, parts: set[str]) -> None:
    files, names = chosen([path])
    assert file in files
    assert names == parts


@pytest.mark.parametrize("paths", [[], ["LICENSE"], ["src/graphveil/templates/base.html"]])
def test_without_a_change_that_has_tests_there_are_unit_tests_and_one_specimen(paths: list[str]) -> None:
    assert chosen(paths) == ({*UNIT, *METHODS}, {ONE})


def test_a_change_of_everything_is_left_to_the_whole_suite() -> None:
    everything = [str(file.relative_to(ROOT)) for file in (ROOT / "src").rglob("*.py")]
    assert len(everything) > MAX_FILES
    assert chosen(everything) == ({*UNIT, *METHODS}, {ONE})


def test_all_that_is_chosen_is_there() -> None:
    every = [file.relative_to(ROOT) for folder in ("src", "tests") for file in (ROOT / folder).rglob("*")]
    for path in every:
        files, _ = chosen([str(path)])
        assert all((ROOT / "tests" / file).is_file() for file in files), path


CONTRACT = "tests/conformance/test_methods.py::test_tripwire[1]"


def test_contracts_are_tested_for_the_parts_named() -> None:
    gap, mlp = Gap(), Mlp()
    assert concerned(CONTRACT, {"method": gap, "adjacency": None}, {"gap"}, set())
    assert not concerned(CONTRACT, {"method": mlp, "adjacency": None}, {"gap"}, set())
    assert concerned(CONTRACT, {"unit": "edge"}, {"gap"}, set())
    assert concerned("tests/methods/test_best.py::test_sorts[1]", {"method": mlp}, {"gap"}, set())


def test_one_specimen_of_each_part() -> None:
    heard: set[tuple[str, str]] = set()
    turns = [concerned(CONTRACT, {"method": method}, {ONE}, heard) for method in (Gap(), Gap(hops=1), Mlp(), Mlp())]
    assert turns == [True, False, True, False]
    assert concerned(CONTRACT.replace("tripwire", "plan"), {"method": Gap()}, {ONE}, heard)
