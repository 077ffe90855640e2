"""What officers file: every form says what the certificate says, in the schema that is written down."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

import graphveil as gv
from graphveil.cli import app
from graphveil.codec import rounded
from graphveil.release.release import Release
from graphveil.report.filings import SCHEMA, Filing, entry, filed, unprotected
from graphveil.vocabulary import Adjacency, Unit

ROOT = Path(__file__).parents[2]


def schema(name: str) -> Any:
    return json.loads((ROOT / "docs" / "filings" / f"{name}.schema.json").read_text())


def front(card: str) -> Any:
    """The metadata of a model card."""
    found = re.match(r"---\n(.*?)\n---\n", card, flags=re.DOTALL)
    assert found is not None
    return yaml.safe_load(found[1])


@pytest.fixture(scope="module")
def hearsay() -> Release:
    graph = gv.datasets.load("chain-s")
    return gv.train(graph, gv.methods.Hearsay(folds=2, hidden=8, head=8), epsilon=1, delta=1e-6, unit="edge")


@pytest.fixture(scope="module", params=["dpsgd", "edges", "gap-published", "hearsay"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models and a graph, of several units, by both readings."""
    chain, social = (gv.datasets.load(name) for name in ("chain-s", "social"))
    small = gv.methods.Hearsay(folds=2, hidden=8, head=8)
    made: gv.Release | gv.ReleasedEdges
    match request.param:
        case "dpsgd":
            made = gv.train(social, gv.methods.DpSgd(steps=1), epsilon=1, delta=1e-5, unit="node", seed=0)
        case "edges":
            made = gv.release_graph(chain, gv.methods.EdgeRand(), epsilon=2)
        case "gap-published":
            gap = gv.methods.Gap(epochs=2)
            made = gv.train(chain, gap, epsilon=2, delta=1e-5, unit="edge", reading="published")
        case _:
            made = gv.train(chain, small, epsilon=1, delta=1e-6, unit="edge")
    return made.save(tmp_path_factory.mktemp("filed") / "folder")


class TestReleases:
    def test_the_entry_is_valid_and_says_what_the_certificate_says(self, folder: Path) -> None:
        release = gv.verify(folder)
        told, certificate = entry(release), release.certificate
        jsonschema.validate(told, schema("registry"))
        json.dumps(told, allow_nan=False)
        first = told["privacy"]["guarantees"][0]
        assert float(first["epsilon"]) == certificate.epsilon
        assert float(first["proven_epsilon"]) == certificate.sound_epsilon
        assert first["delta"] == certificate.delta
        assert told["privacy"]["unit"] == certificate.plan.adjacency.unit.value
        assert told["warnings"] == certificate.warnings()
        assert told["implementation"]["secret_noise"] == certificate.provenance.secure
        assert told["schema"] == SCHEMA == schema("registry")["properties"]["schema"]["const"]

    def test_pages_show_the_proven_epsilon_and_every_warning(self, folder: Path) -> None:
        release = gv.verify(folder)
        card = filed(release, Filing.HUGGINGFACE)
        jsonschema.validate(front(card), schema("huggingface"))
        page = filed(release, Filing.MARKDOWN)
        assert page in card
        bare = page.replace("\\", "")
        proven = release.certificate.sound_epsilon
        assert (f"epsilon {rounded(proven, places=4)}" if proven < math.inf else "nothing is proven") in bare
        for words in (*release.certificate.warnings(), *release.certificate.plan.refuted):
            assert words.replace("\\", "") in bare

    def test_what_only_the_user_knows_is_left_to_the_user(self, folder: Path) -> None:
        told = entry(gv.verify(folder))
        assert set(told["deployment"].values()) == {None}
        assert "deployment.justification" in told["to_be_filled"]
        open_questions = [each["question"] for each in told["nist_sp_800_226"] if each["answer"] is None]
        assert all(f"nist_sp_800_226: {question}" in told["to_be_filled"] for question in open_questions)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("privacy.unit", "person"),
        ("privacy.unprotected", []),
        ("implementation.timing", None),
        ("deployment.owner", "x"),
    ],
)
def test_the_schema_refuses_an_entry_that_says_less_or_more(place: str, value: Any, hearsay: Release) -> None:
    told, (part, name) = entry(hearsay), place.split(".")
    told[part][name] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(told, schema("registry"))


@pytest.mark.parametrize("unit", list(Unit))
def test_every_part_is_either_protected_or_said_not_to_be(unit: Unit) -> None:
    near = Adjacency.of(unit)
    words = " ".join(unprotected(near, gv.methods.Mlp(), ""))
    for part, name in {"x": "features of nodes", "y": "labels of nodes", "edges": "the edges"}.items():
        assert (name in words) == (part not in near.private)


def test_odds_are_rounded_up(hearsay: Release) -> None:
    """e / (1 + e) = 73.1058... %."""
    assert "even odds about one unit become at most 74 : 26." in filed(hearsay, Filing.MARKDOWN)
    weaker = replace(hearsay.certificate, delta=1e-5)
    assert weaker.sound_epsilon <= 1


def test_names_that_users_give_are_no_markup(hearsay: Release) -> None:
    origin = replace(hearsay.certificate.provenance, dataset="`[x](y)` <b>*me*</b>")
    page = filed(replace(hearsay, certificate=replace(hearsay.certificate, provenance=origin)), Filing.MARKDOWN)
    assert not re.search(r"(?<!\\)\[x|(?<!\\)\*me|(?<!\\)<b>", re.sub(r"`[^`]*`", "", page))


def test_a_model_without_protection_does_not_boast() -> None:
    graph = gv.datasets.load("chain-s")
    release = gv.train(graph, gv.methods.Gcn(epochs=1), epsilon=math.inf, unit="edge", seed=0)
    told = entry(release)
    jsonschema.validate(told, schema("registry"))
    assert told["privacy"]["guarantees"][0]["proven_epsilon"] == "inf"
    assert told["implementation"]["floating_point"] == "not applicable: nothing is protected"
    assert "no protection" in filed(release, Filing.MARKDOWN)


def test_the_command_prints_or_writes_every_form(hearsay: Release, tmp_path: Path) -> None:
    folder, file = hearsay.save(tmp_path / "model"), tmp_path / "entry.json"
    for form in Filing:
        done = CliRunner().invoke(app, ["card", str(folder), "--format", form.value])
        assert done.exit_code == 0, done.output
        assert done.stdout == filed(gv.load(folder), form) + "\n"
    assert CliRunner().invoke(app, ["card", str(folder), "--format", "registry", "--out", str(file)]).exit_code == 0
    jsonschema.validate(json.loads(file.read_text()), schema("registry"))
    inside = CliRunner().invoke(app, ["card", str(folder), "--format", "markdown", "--out", str(folder / "README.md")])
    assert "release folder" in str(inside.exception)
    assert "use one of" in str(CliRunner().invoke(app, ["card", str(folder), "--format", "pdf"]).exception)
