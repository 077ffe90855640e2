"""The command line: what people type, what they read, what machines parse."""

from __future__ import annotations

import csv
import json
import shlex
import subprocess
import sys
import time
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import graphveil as gv
from graphveil import cli
from graphveil.cli import app
from graphveil.cli.options import known_methods
from graphveil.methods import FLAGSHIPS
from graphveil.methods.method import METHODS
from graphveil.methods.settings import settings

COMMANDS = (
    "methods", "datasets", "account", "advise", "train", "extend", "release-graph", "infer", "demo", "data",
    "data pack", "data get",
    "ledger", "ledger open", "ledger show", "bench", "bench run", "bench list", "bench show", "audit", "attack",
    "court", "report", "verify",
)  # fmt: skip


def run(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def parsed(*words: str) -> Any:
    result = run(*words)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def tables(tmp_path: Path) -> tuple[str, str]:
    """A user's own graph: a ring of twelve nodes with two features and two classes."""
    edges, nodes = tmp_path / "edges.csv", tmp_path / "nodes.csv"
    edges.write_text("source,target\n" + "".join(f"n{i},n{(i + 1) % 12}\n" for i in range(12)))
    nodes.write_text("id,label,a,b\n" + "".join(f"n{i},{'xy'[i % 2]},{i}.5,{-i}\n" for i in range(12)))
    return str(edges), str(nodes)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    result = run(*command.split(), "--help")
    assert result.exit_code == 0
    assert "Usage" in result.output


def test_help_is_quick() -> None:
    """Nothing heavy is imported for --help; the best of three, because machines stutter."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "graphveil", "--help"], check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    names = ("torch", "scipy", "sklearn", "pandas", "dp_accounting")
    heavy = f"import graphveil.cli, sys; sys.exit(any(name in sys.modules for name in {names}))"
    assert subprocess.run([sys.executable, "-c", heavy], check=False).returncode == 0
    assert min(times) < 1.0  # about 0.3 s; the limit is generous for loaded machines


def test_account_prints_the_fixed_form() -> None:
    words = "account gap --hops 2 --epsilon 1 --delta 1e-5 --unit edge --json"
    answer = parsed(*shlex.split(words))
    assert {"method", "unit", "reading", "epsilon", "delta", "noise", "steps"} <= set(answer)
    assert answer["noise"] == pytest.approx(7.4613, rel=5e-3)
    assert 0.995 <= answer["epsilon"] <= 1
    assert answer["steps"][0]["times"] == 2


def test_account_goes_from_noise_to_epsilon_too() -> None:
    answer = parsed(*shlex.split("account gap --hops 1 --noise 5.2759 --delta 1e-5 --unit edge --json"))
    assert answer["epsilon"] == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize("unit", ["--unit label", "--unit=node"])
def test_without_a_method_the_flagship_of_the_unit_is_taken(unit: str) -> None:
    answer = parsed(*shlex.split(f"account {unit} --epsilon 2 --delta 1e-5 --json"))
    assert answer["method"] == {"label": "probe", "node": "whisper"}[answer["unit"]]
    assert parsed(*shlex.split("account --unit label --worth 0 --noise 1 --json"))["steps"][1]["name"] == "answers"


def test_help_names_the_flagships_with_their_subtitles() -> None:
    for command in ("train", "account"):
        shown = " ".join(run(command, "--help").stdout.split())
        for name in FLAGSHIPS.values():
            assert f"{name} ({METHODS.find(name).subtitle})" in shown


def test_a_subtitle_stands_beside_a_name() -> None:
    hearsay = METHODS.find("hearsay")
    assert hearsay.title() == f"hearsay: {hearsay.subtitle}"
    (line,) = (line for line in run("methods").stdout.splitlines() if line.startswith("hearsay "))
    assert hearsay.subtitle in line
    assert run("methods", "hearsay").stdout.startswith(hearsay.title())
    assert hearsay.title() in run(*shlex.split("account hearsay --unit edge --epsilon 1 --delta 1e-5")).stdout
    trained = run(*shlex.split("train hearsay chain-s --unit edge --epsilon 1 --seed 0 --quiet")).stdout
    assert hearsay.title() in trained.splitlines()[0]


def test_a_dataset_may_stand_where_no_method_is_named() -> None:
    answer = parsed(*shlex.split("train social --unit node --noise 5 --seed 0 --json -q"))
    assert answer["method"]["kind"] == "Whisper"


def test_a_name_that_is_none_is_not_taken_for_a_wish_for_the_flagship() -> None:
    for words in ("account whispr --epsilon 1 --unit node", "account --epsilon 1 --unit node whispr"):
        assert run(*shlex.split(words)).exit_code != 0


def test_account_says_when_a_published_proof_is_false() -> None:
    result = run(*shlex.split("account gap --epsilon 1 --delta 1e-5 --unit edge --reading published"))
    assert result.exit_code == 0
    assert "REFUTED" in result.stdout


def test_infinity_is_valid_json() -> None:
    answer = parsed(*shlex.split("account gcn --epsilon inf --delta 1e-5 --unit edge --json"))
    assert answer["epsilon"] == "inf"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("account gap --epsilon 0 --unit edge", "epsilon"),
        ("account gap --epsilon 1 --unit node", "does not protect"),
        ("account gapp --epsilon 1 --unit edge", "did you mean: gap"),
        ("account gap --hopps 2 --epsilon 1 --unit edge", "--hops"),
        ("account gap --hops two --epsilon 1 --unit edge", "takes a whole number"),
        ("account gap --hops 0 --epsilon 1 --unit edge", "at least 1"),
        ("account gap --unit edge", "exactly one of epsilon"),
        ("account gcn --epsilon 1 --unit edge", "exposes private data"),
        ("train gap nowhere --unit edge --epsilon 1", "nowhere"),
        ("train gap --unit edge --epsilon 1", "name one dataset"),
        ("train gap social --unit edge --epsilon 1 --split public", "split"),
        ("infer nowhere", "not a complete release folder"),
        ("release-graph gap social --epsilon 1 --out OUT", "these methods do: eclipse, edgerand, lapgraph"),
        ("release-graph eclipse social --epsilon 1 --out OUT", 'pass use="graph"'),
        ("release-graph lapgraph social --epsilon 1 --out OUT --format xlsx", "parquet, csv"),
        ("release-graph lapgraph social --epsilon 1 --out OUT --hopps 2", "--count-share"),
        ("release-graph lapgraph social --epsilon 1 --unit node --out OUT", "does not protect"),
        ("bench run nowhere", "nowhere"),
    ],
)
def test_errors_are_one_sentence_and_exit_code_2(
    words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["graphveil", *words.replace("OUT", str(tmp_path / "out")).split()])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert "Traceback" not in captured.err


def test_a_model_is_kept_although_it_cannot_be_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr("graphveil.release.record.record_of", fails)
    words = ("train", "hearsay", "chain-s", "--unit", "edge", "--epsilon", "1", "--seed", "0")
    done = run(*words, "--out", str(tmp_path / "model"), "--quiet")
    assert done.exit_code == 2
    assert "Traceback" not in done.output
    assert gv.load(tmp_path / "model").certificate.epsilon <= 1


def test_a_graph_that_the_model_did_not_see_has_no_training_nodes(tables: tuple[str, str], tmp_path: Path) -> None:
    mine, model = ("--edges", tables[0], "--nodes", tables[1]), str(tmp_path / "model")
    words = ("train", "ndp", *mine, "--unit", "node", "--noise", "4", "--delta", "1e-2", "--steps", "1", "--seed", "0")
    assert run(*words, "--every-id-present", "--out", model, "--quiet").exit_code == 0
    assert "9 training nodes are predicted from their own features alone" in run("infer", model, *mine).stdout
    assert "alone" not in run("infer", model, *mine, "--split", "none").stdout


def test_infer_refuses_before_it_reads(tmp_path: Path) -> None:
    for words, said in (
        (("--out", str(tmp_path)), "is a folder"),
        (("--out", str(tmp_path / "file" / "labels.csv")), "cannot be written"),
    ):
        (tmp_path / "file").touch()
        done = run("infer", str(tmp_path / "model"), *words)
        assert isinstance(done.exception, gv.InvalidInput)
        assert said in str(done.exception)


def test_train_save_infer_and_ledger_on_your_own_tables(tables: tuple[str, str], tmp_path: Path) -> None:
    edges, nodes = tables
    mine = ("--edges", edges, "--nodes", nodes)
    book, model, record = (str(tmp_path / name) for name in ("ledger.db", "model", "records/run.json"))
    opened = run("ledger", "open", book, *mine, "--unit", "edge", "--epsilon", "3", "--delta", "1e-5")
    assert opened.exit_code == 0, opened.output
    budget = ("--unit", "edge", "--epsilon", "2", "--delta", "1e-5", "--ledger", book)
    words = ("train", "gap", *mine, *budget, "--epochs", "2", "--out", model, "--record", record, "--quiet")
    trained = run(*words)
    assert trained.exit_code == 0, trained.output
    assert "one undirected edge added or removed" in trained.stdout
    assert "cryptographic" in trained.stdout
    kept = json.loads(Path(record).read_text())
    assert kept["epsilon"] <= 2
    assert not kept["scores_are_private"]
    shown = parsed("ledger", "show", book, "--json")
    assert shown[0]["spent"] == pytest.approx(2, rel=5e-3)
    assert [row["committed"] for row in parsed("ledger", "show", book, "--entries", "--json")] == [True]
    out = tmp_path / "predictions.csv"
    free = run("infer", model, "--out", str(out))
    assert free.exit_code == 0, free.output
    assert "epsilon 0 beyond the certificate" in free.stdout
    assert len(out.read_text().splitlines()) == 13
    assert run("infer", model, *mine, "--out", str(out)).exit_code == 0
    assert [line.split(",")[0] for line in out.read_text().splitlines()] == ["id", *(f"n{i}" for i in range(12))]
    paid = parsed("infer", model, *mine, "--epsilon", "1", "--delta", "1e-5", "--json")
    assert "epsilon 0.99" in paid["cost"] or "epsilon 1.0" in paid["cost"]
    # The weights that come with the predictions were trained on the same edges.
    assert paid["certificate"]["parents"][0]["epsilon"] <= 2
    assert 2 < paid["certificate"]["epsilon"] < 3.2


def test_columns_are_named_on_the_command_line(tmp_path: Path) -> None:
    """A bank's file: semicolons, Latin-1, other names, a free text, categories, weights."""
    count = 24
    rows = [f"{i};{'fraud' if i % 3 else 'ok'};{'Zürich' if i % 2 else 'Bern'};note {i};{i}" for i in range(count)]
    (tmp_path / "accounts.csv").write_bytes("\n".join(["Konto;Urteil;Ort;Notiz;Saldo", *rows]).encode("latin-1"))
    pays = [f"{i};{(i + 1) % count};{i}" for i in range(count)]
    (tmp_path / "payments.csv").write_text("\n".join(["von;nach;Betrag", *pays]))
    mine = (
        "--edges",
        str(tmp_path / "payments.csv"),
        "--nodes",
        str(tmp_path / "accounts.csv"),
        "--encoding",
        "latin-1",
    )
    named = ("--id", "Konto", "--label", "Urteil", "--source", "von", "--target", "nach", "--drop", "Notiz")
    words = ("train", "mlp", *mine, *named, "--weight", "Betrag", "--clean", "--unit", "edge", "--epsilon", "1")
    refused = run(*words, "--epochs", "2", "--seed", "0")
    assert "feature 'Ort' is Bern, not a number" in str(refused.exception)
    trained = run(*words, "--encode", "auto", "--epochs", "2", "--seed", "0", "--out", str(tmp_path / "model"))
    assert trained.exit_code == 0, trained.output
    schema = gv.load(tmp_path / "model").schema
    assert schema is not None
    assert schema.columns[0].categories == ("Bern", "Zürich")
    assert (schema.id, schema.label, schema.names) == ("Konto", "Urteil", ("Ort", "Saldo"))
    # The release knows what the columns are called.
    again = run("infer", str(tmp_path / "model"), *mine, "--source", "von", "--target", "nach", "--drop", "Notiz")
    assert again.exit_code == 0, again.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("account gap --epsilon 1 --epsilon 2 --unit edge", "--epsilon is given twice"),
        ("account gap --epsilon=1 --epsilon=2 --unit edge", "--epsilon is given twice"),
        ("account gap --epsilon 1 --unit edge --hops 1 --hops 2", "--hops is given twice"),
        ("train gap social --unit edge --unit node --epsilon 1", "--unit is given twice"),
        ("ledger open book social --unit edge --epsilon 1 --epsilon 9 --delta 1e-5", "--epsilon is given twice"),
        ("verify model social --split-seed 1 --split-seed 2", "--split-seed is given twice"),
    ],
)
def test_an_option_is_given_once(words: str, said: str) -> None:
    """The last one was taken, and the budget of the first was meant."""
    done = run(*words.split())
    assert isinstance(done.exception, gv.InvalidInput)
    assert said in str(done.exception)


def test_options_that_may_be_repeated_still_may(tables: tuple[str, str]) -> None:
    words = ("train", "mlp", "--edges", tables[0], "--nodes", tables[1], "--unit", "edge", "--epsilon", "1", "--json")
    assert run(*words, "--drop", "a", "--drop", "b").exit_code == 1, "no feature is left"
    assert parsed(*words, "--drop", "a", "--epochs", "2", "--seed", "0")["epsilon"] == 0


def test_a_release_is_not_overwritten_unless_one_says_so(tables: tuple[str, str], tmp_path: Path) -> None:
    mine, book, model = ("--edges", tables[0], "--nodes", tables[1]), str(tmp_path / "book"), tmp_path / "model"
    run("ledger", "open", book, *mine, "--unit", "edge", "--epsilon", "9", "--delta", "1e-5")
    budget = ("--unit", "edge", "--epsilon", "1", "--delta", "1e-5", "--ledger", book, "--epochs", "2")
    words = ("train", "gap", *mine, *budget, "--out", str(model), "--quiet")
    assert run(*words).exit_code == 0
    before = (model / "manifest.json").read_bytes()
    refused = run(*words)
    assert isinstance(refused.exception, gv.InvalidInput)
    assert "holds a release already, which was paid for; choose another folder, or --force" in str(refused.exception)
    assert len(gv.Ledger(book).entries()) == 1
    assert (model / "manifest.json").read_bytes() == before
    assert run(*words, "--force").exit_code == 0
    assert (model / "manifest.json").read_bytes() != before


def test_weak_numbers_are_told_in_words_before_anything_is_spent(tables: tuple[str, str], tmp_path: Path) -> None:
    assert (
        parsed(*["account", "gap", "--epsilon", "9", "--delta", "1e-5", "--unit", "edge", "--json"])["warnings"] == []
    )
    weak = run(*["account", "gap", "--epsilon", "12", "--delta", "1e-2", "--nodes", "500", "--unit", "edge"])
    assert "epsilon 12 is hardly a protection: it lets even odds about one unit become 162," in weak.stdout
    assert "delta 0.01 is above 1/n = 0.002" in weak.stdout
    mine = ("--edges", tables[0], "--nodes", tables[1], "--out", str(tmp_path / "model"))
    done = run("train", "hearsay", *mine, "--unit", "edge", "--epsilon", "12", "--delta", "0.5", "--seed", "0")
    told = done.stdout.index("WARNING: epsilon 12 is hardly a protection")
    assert told < done.stdout.index("graphveil certificate")
    card = (tmp_path / "model" / "card.txt").read_text()
    assert "WARNING     epsilon 12 is hardly a protection" in card
    assert "WARNING     delta 0.5 is above 1/n = 0.0833: to publish somebody's whole record at random" in card
    assert gv.load(tmp_path / "model").certificate.epsilon <= 12


def test_clean_says_what_it_dropped(tables: tuple[str, str], tmp_path: Path) -> None:
    edges = tmp_path / "edges.csv"
    edges.write_text(edges.read_text() + "n1,n1\nn1,n0\nn0,n1\n")
    words = ("train", "mlp", "--edges", str(edges), "--nodes", tables[1], "--unit", "edge", "--epsilon", "1")
    done = run(*words, "--epochs", "2", "--seed", "0", "--clean")
    assert done.exit_code == 0, done.output
    assert "--clean dropped 1 self-loops and 2 repeated edges of 15 rows" in done.stderr


def test_the_same_graph_is_never_a_reason_to_spend_again(tables: tuple[str, str], tmp_path: Path) -> None:
    model, other = str(tmp_path / "model"), tmp_path / "payments.csv"
    words = (
        "train",
        "hearsay",
        "--nodes",
        tables[1],
        "--unit",
        "edge",
        "--epsilon",
        "1",
        "--seed",
        "0",
        "--out",
        model,
    )
    assert run(*words, "--edges", tables[0]).exit_code == 0
    other.write_text(Path(tables[0]).read_text())
    for more in ((), ("--split-seed", "3")):
        said = str(run("infer", model, "--edges", str(other), "--nodes", tables[1], *more).exception)
        assert "'payments' differs in name" in said
        assert "it is the same graph, whose predictions are in the release: call predict() without a graph" in said
        assert "epsilon=" not in said
    assert run("infer", model).exit_code == 0


def test_predictions_hold_no_formulas(tmp_path: Path) -> None:
    """A spreadsheet runs a cell that begins with one of = + - @; commas and line ends stay within their cell."""
    ids = ["=1+1", "+2", "-5", "-5a", "@x", "a,b", "two\nlines", 'say "x"', "\uff1d1", "plain", "-", "7"]
    with (tmp_path / "nodes.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["id", "label", "f"], *([each, "xy"[i % 2], i] for i, each in enumerate(ids))])
    (tmp_path / "edges.csv").write_text("source,target\n+2,-5\n-5,plain\n")
    mine = ("--edges", str(tmp_path / "edges.csv"), "--nodes", str(tmp_path / "nodes.csv"))
    model, out = str(tmp_path / "model"), tmp_path / "out.csv"
    trained = run(
        "train", "mlp", *mine, "--unit", "edge", "--epsilon", "1", "--delta", "1e-5", "--seed", "0", "--out", model
    )
    assert trained.exit_code == 0, trained.output
    assert run("infer", model, *mine, "--out", str(out)).exit_code == 0
    with out.open(newline="") as file:
        found = [row[0] for row in csv.reader(file)][1:]
    assert found == ["'=1+1", "'+2", "-5", "'-5a", "'@x", *ids[5:8], "'\uff1d1", "plain", "'-", "7"]


def test_an_unusable_out_folder_spends_nothing(tables: tuple[str, str], tmp_path: Path) -> None:
    edges, nodes = tables
    mine = ("--edges", edges, "--nodes", nodes)
    book, foreign = tmp_path / "ledger.db", tmp_path / "photos"
    foreign.mkdir()
    (foreign / "cat.jpg").write_text("meow")
    run("ledger", "open", str(book), *mine, "--unit", "edge", "--epsilon", "3", "--delta", "1e-5")
    budget = ("--unit", "edge", "--epsilon", "2", "--delta", "1e-5", "--ledger", str(book))
    result = run("train", "gap", *mine, *budget, "--out", str(foreign))
    assert isinstance(result.exception, gv.InvalidInput)
    assert gv.Ledger(book).entries() == []


def test_scores_of_private_labels_are_flagged(tables: tuple[str, str]) -> None:
    edges, nodes = tables
    words = ("train", "dpsgd", "--edges", edges, "--nodes", nodes, "--unit", "node", "--epsilon", "1", "--steps", "2")
    result = run(*words, "--seed", "0")
    assert result.exit_code == 0, result.output
    assert "no certificate covers them" in result.stdout
    assert "NOT FOR RELEASE" in result.stdout


def test_methods_and_datasets_list_themselves() -> None:
    rows = parsed("methods", "--json")
    assert {"gap", "mlp", "dpsgd", "gcn", "sage", "gin"} <= {row["name"] for row in rows}
    one = parsed("methods", "gap", "--json")
    assert one["parameters"]["hops"] == 1
    found = parsed("datasets", "--json")
    assert {"social", "cora", "chain-x"} <= {row["name"] for row in found}


def test_no_hyper_parameter_hides_behind_an_option() -> None:
    """A method whose field has the name of an option could not be set from the command line."""
    options = {"unit", "epsilon", "noise", "delta", "reading", "edges", "nodes", "directed", "clean", "split", "seed"}
    options |= {
        "packed",
        "split_seed",
        "secure",
        "format",
        "ledger",
        "out",
        "record",
        "json",
        "quiet",
        "features",
        "classes",
        "train",
        "split_reads_labels",
        "every_id_present",
        "population_degrees",
    }
    for kind in METHODS.ours().values():
        assert not options & {item.name for item in fields(kind)}


@pytest.mark.parametrize("where", ["file/below", "full"])
def test_an_unwritable_out_is_found_before_anything_is_spent(
    where: str, tables: tuple[str, str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "manifest.json").write_text("{}")
    (tmp_path / "full" / "mine.txt").write_text("keep me")
    edges, nodes = tables
    mine = ("--edges", edges, "--nodes", nodes)
    book = tmp_path / "ledger.db"
    run("ledger", "open", str(book), *mine, "--unit", "edge", "--epsilon", "3", "--delta", "1e-5")
    budget = ("--unit", "edge", "--epsilon", "2", "--delta", "1e-5", "--ledger", str(book))
    for flag in ("--out", "--record") if where == "file/below" else ("--out",):
        result = run("train", "gap", *mine, *budget, flag, str(tmp_path / where))
        assert isinstance(result.exception, gv.InvalidInput)
    assert gv.Ledger(book).entries() == []


@pytest.mark.parametrize("left", [None, b"", b"not a ledger"])
def test_a_ledger_that_is_gone_says_what_to_do(left: bytes | None, tmp_path: Path) -> None:
    if left is not None:
        (tmp_path / "ledger.db").write_bytes(left)
    result = run("ledger", "show", str(tmp_path / "ledger.db"))
    assert isinstance(result.exception, gv.InvalidInput)
    assert "restore the latest backup" in str(result.exception)


def test_predictions_say_that_new_edges_were_not_read(tables: tuple[str, str], tmp_path: Path) -> None:
    edges, nodes = tables
    mine = ("--edges", edges, "--nodes", nodes)
    model = str(tmp_path / "model")
    trained = run("train", "gap", *mine, "--unit", "edge", "--epsilon", "2", "--epochs", "2", "--out", model)
    assert trained.exit_code == 0, trained.output
    assert "were not read" in run("infer", model, *mine).stdout


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_a_graph_is_released_from_your_own_tables(tables: tuple[str, str], tmp_path: Path, format: str) -> None:
    mine = ("--edges", tables[0], "--nodes", tables[1])
    book, out = str(tmp_path / "ledger.db"), str(tmp_path / "noisy")
    run("ledger", "open", book, *mine, "--unit", "edge", "--epsilon", "3", "--delta", "1e-5")
    budget = ("--epsilon", "2", "--delta", "1e-5", "--ledger", book)
    words = ("release-graph", "lapgraph", *mine, *budget, "--count-share", "0.1", "--format", format, "--out", out)
    answer = parsed(*words, "--quiet", "--json")
    assert (answer["nodes"], answer["undirected"], answer["file"]) == (12, True, f"edges.{format}")
    assert answer["certificate"]["epsilon"] <= 2
    assert answer["certificate"]["provenance"]["secure"]
    made = gv.ReleasedEdges.load(out)
    assert (made.num_nodes, made.edges.shape[1]) == (12, answer["edges"])
    assert [row["committed"] for row in parsed("ledger", "show", book, "--entries", "--json")] == [True]
    assert "holds a release already, which was paid for" in str(run(*words).exception)
    over = run(*words, "--force")
    assert isinstance(over.exception, gv.Overspent)
    seeded = run(*words[:6], "--epsilon", "2", "--seed", "0", "--format", format, "--out", out, "--force")
    assert "NOT FOR RELEASE" in seeded.stdout
    assert "rows of the node table in their order" in seeded.stdout


def test_a_graph_that_cannot_be_written_spends_nothing(tables: tuple[str, str], tmp_path: Path) -> None:
    mine = ("--edges", tables[0], "--nodes", tables[1])
    book, foreign = tmp_path / "ledger.db", tmp_path / "photos"
    foreign.mkdir()
    (foreign / "cat.jpg").write_text("meow")
    run("ledger", "open", str(book), *mine, "--unit", "edge", "--epsilon", "3", "--delta", "1e-5")
    words = ("release-graph", "lapgraph", *mine, "--epsilon", "2", "--delta", "1e-5", "--ledger", str(book), "--out")
    assert isinstance(run(*words, str(foreign)).exception, gv.InvalidInput)
    assert gv.Ledger(book).entries() == []


# What the data holder states of the population


NDP = ("train", "ndp", "--unit", "node", "--noise", "4", "--delta", "1e-2", "--steps", "1", "--seed", "0", "--quiet")


def test_a_population_is_declared_before_anything_is_spent(tables: tuple[str, str], tmp_path: Path) -> None:
    mine, book = ("--edges", tables[0], "--nodes", tables[1]), str(tmp_path / "ledger.db")
    run("ledger", "open", book, *mine, "--unit", "node", "--epsilon", "1e3", "--delta", "1e-1")
    refused = run(*NDP, *mine, "--ledger", book)
    assert isinstance(refused.exception, gv.InvalidInput)
    assert "--population-degrees" in str(refused.exception)
    assert gv.Ledger(book).entries() == []
    (tmp_path / "degrees.csv").write_text("degree,id\n" + "".join(f"{2 + i % 2},n{i}\n" for i in reversed(range(12))))
    for said, words in (
        ("counted in this graph, in which every id is present", ("--every-id-present",)),
        ("bounds stated by the data holder", ("--population-degrees", "2")),
        ("bounds stated by the data holder", ("--population-degrees", str(tmp_path / "degrees.csv"))),
    ):
        model = str(tmp_path / "model")
        trained = run(*NDP, *mine, *words, "--ledger", book, "--out", model, "--force")
        assert trained.exit_code == 0, trained.output
        assert said in trained.stdout
        assert run("verify", model, *mine, *words).exit_code == 0
        assert isinstance(run("verify", model, *mine).exception, gv.InvalidInput)
    assert run(*NDP, "chain-s").exit_code == 0, "a named dataset has every id present"


def test_stated_degrees_are_told_by_id(tables: tuple[str, str], tmp_path: Path) -> None:
    """Ids of the node table, in whatever order; of a packed graph, the numbers of its rows."""
    told, packed = tmp_path / "degrees.csv", str(tmp_path / "packed")
    told.write_text("id,degree\n" + "".join(f"n{i},{2 + i}\n" for i in reversed(range(12))))
    mine = ("--edges", tables[0], "--nodes", tables[1])
    assert run("data", "pack", *mine, "--population-degrees", str(told), "--out", packed).exit_code == 0
    degrees = gv.open_packed(packed).degrees
    assert degrees is not None
    assert degrees.tolist() == [2 + i for i in range(12)]
    told.write_text("id,degree\n" + "".join(f"{i},{2 + i}\n" for i in reversed(range(12))))
    assert run(*NDP, "--packed", packed, "--population-degrees", str(told)).exit_code == 0
    assert run(*NDP, "--packed", packed).exit_code == 0


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("id,degree\nn0,2\n", "one row for every id"),
        ("id,degree\n" + "".join(f"n{i % 6},2\n" for i in range(12)), "one row for every id"),
        ("id,degree\n" + "".join(f"n{i},2\n" for i in range(13)), "one row for every id"),
        ("id,degree\n" + "".join(f"n{i},2.5\n" for i in range(12)), "whole number"),
        ("id,degree\n" + "".join(f"n{i},0\n" for i in range(12)), "more training ids than the 0 that were stated"),
        ("node,degree\nn0,2\n", "the columns id and degree"),
        (None, "there is no file"),
    ],
)
def test_false_tables_of_degrees_are_refused(
    tables: tuple[str, str], tmp_path: Path, rows: str | None, words: str
) -> None:
    if rows is not None:
        (tmp_path / "degrees.csv").write_text(rows)
    told = ("--population-degrees", str(tmp_path / "degrees.csv"))
    done = run(*NDP, "--edges", tables[0], "--nodes", tables[1], *told)
    assert isinstance(done.exception, gv.InvalidInput)
    assert words in str(done.exception)
    both = run(*NDP, "chain-s", "--every-id-present", *told)
    assert "give --every-id-present or --population-degrees" in str(both.exception)


def test_a_split_column_may_have_looked_at_labels(tables: tuple[str, str], tmp_path: Path) -> None:
    edges, nodes = tables
    mine, packed = ("--edges", edges, "--nodes", nodes), str(tmp_path / "packed")
    done = run("data", "pack", *mine, "--split-reads-labels", "--out", packed)
    assert "it has none" in str(done.exception)
    lines = Path(nodes).read_text().splitlines()
    Path(nodes).write_text("\n".join([f"{lines[0]},split", *(f"{line},train" for line in lines[1:]), ""]))
    for words, said in (((), False), (("--split-reads-labels",), True)):
        assert run("data", "pack", *mine, *words, "--out", packed).exit_code == 0
        assert gv.open_packed(packed).split_reads_labels is said
        trained = run("train", "dpsgd", "--packed", packed, "--unit", "node", "--noise", "4", "--steps", "1")
        assert ("drawn by looking at labels" in trained.stdout) is said


def test_nothing_printed_counts_records(tables: tuple[str, str], tmp_path: Path) -> None:
    """Two node tables that differ in whether there is a record behind n3: the same card, and the same line of cost."""
    edges, nodes = tables
    blank = tmp_path / "blank.csv"
    lines = Path(nodes).read_text().splitlines(keepends=True)
    blank.write_text("".join("n3,,0,0\n" if line.startswith("n3,") else line for line in lines))
    apart = [line for line in Path(edges).read_text().splitlines(keepends=True) if "n3" not in line]
    Path(edges).write_text("".join(apart))
    printed = []
    for table in (nodes, str(blank)):
        mine = ("--edges", edges, "--nodes", table)
        trained = run(*NDP, *mine, "--population-degrees", "2", "--out", str(tmp_path / "model"), "--force")
        assert trained.exit_code == 0, trained.output
        asked = run("infer", str(tmp_path / "model"), *mine)
        lines = [*trained.stdout.splitlines(), *asked.stdout.splitlines()]
        scores = ("accuracy", "made    ", "first ten")
        printed.append([line for line in lines if not any(word in line for word in scores)])
    assert printed[0] == printed[1]
    assert any("9 training nodes" in line for line in printed[0])


@pytest.mark.parametrize("name", sorted(METHODS.ours()))
def test_methods_say_what_every_setting_means(name: str) -> None:
    shown = run("methods", name).stdout
    for one in settings(METHODS.find(name)):
        if one.default is not MISSING:
            assert one.meaning, one.name
            (line,) = (line for line in shown.splitlines() if line.startswith(f"--{one.name.replace('_', '-')} "))
            assert one.meaning.split(".")[0] in line
            assert all(choice in line for choice in one.choices)


def test_machines_can_read_what_verify_ledger_report_and_board_say(tables: tuple[str, str], tmp_path: Path) -> None:
    own, folder, book = ["--edges", tables[0], "--nodes", tables[1]], str(tmp_path / "model"), str(tmp_path / "book")
    budget = ["--unit", "edge", "--epsilon", "2", "--delta", "1e-6"]
    opened = parsed("ledger", "open", book, *own, *budget, "--json")
    assert (opened["dataset"], opened["epsilon"]) == ("edges", 2.0)
    trained = run("train", "hearsay", *own, *budget, "--ledger", book, "--seed", "0", "--quiet", "--out", folder)
    assert trained.exit_code == 0
    alone, whole = parsed("verify", folder, "--json"), parsed("verify", folder, *own, "--json")
    assert alone["verified"] == ["hashes", "card", "arithmetic"]
    assert whole["verified"] == [*alone["verified"], "plan"]
    assert alone["certificate"] == gv.load(folder).certificate.describe()
    assert "NOT FOR RELEASE" in alone["warnings"][0]
    assert parsed("ledger", "show", book, "--json")[0]["entries"] == 1
    assert len(parsed("ledger", "show", book, "--entries", "--json")) == 1
    kept, page = Path(__file__).parents[2] / "lab" / "results" / "gap.json", tmp_path / "page.html"
    told = parsed("report", str(kept), "--out", str(page), "--json")
    assert (told["file"], told["bytes"], len(told["records"])) == (str(page), page.stat().st_size, 1)
    lines = parsed("bench", "board", str(kept), "--epsilon", "1", "--json")
    assert {line["epsilon"] for line in lines} <= {1.0, "inf"}
    assert all(line["label"] in run("bench", "board", str(kept), "--epsilon", "1").stdout for line in lines)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("graphveil tra", {"train"}),
        ("graphveil train hea", {"hearsay"}),
        ("graphveil train hearsay --hops 2 --uni", {"--unit"}),
        ("graphveil train hearsay --unit ", set(gv.Unit)),
        # Half a line may be wrong: the shell gets an answer all the same.
        ("graphveil train --hopps 2 --epsilon 1 --epsilon 2 --unit n", {"node"}),
    ],
)
def test_a_shell_completes_commands_methods_and_units(typed: str, offered: set[str]) -> None:
    asked = {"_GRAPHVEIL_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    done = CliRunner().invoke(app, [], prog_name="graphveil", env=asked)
    assert set(done.stdout.split()) == offered, done.output


def test_every_method_is_offered() -> None:
    assert set(known_methods()) == set(METHODS.ours())


def test_extend_goes_on_with_a_graph_that_has_grown(tables: tuple[str, str], tmp_path: Path) -> None:
    mine = ("--edges", tables[0], "--nodes", tables[1])
    first, second, journal = (str(tmp_path / name) for name in ("march", "april", "journal"))
    small = shlex.split("train hearsay --folds 2 --hidden 4 --head 4 --unit edge --epsilon 2 --delta 1e-5 --quiet")
    inside = run(*small, *mine, "--out", first, "--journal", str(tmp_path / "march" / "journal"))
    assert "may be given away" in str(inside.exception)
    made = run(*small, *mine, "--out", first, "--journal", journal)
    assert made.exit_code == 0, made.output
    Path(tables[0]).write_text(Path(tables[0]).read_text() + "n0,n5\nn0,n12\n")
    Path(tables[1]).write_text(Path(tables[1]).read_text() + "n12,x,12.5,-12\n")
    asked = tmp_path / "asked.txt"
    asked.write_text("n12\nn0\n")
    both = run("extend", first, *mine, "--journal", journal, "--ask", str(asked), "--refresh", "all")
    assert "--refresh or --ask" in str(both.exception)
    later = run("extend", first, *mine, "--journal", journal, "--ask", str(asked), "--out", second, "--quiet")
    assert later.exit_code == 0, later.output
    assert "period 2: if its one journal was kept, an edge is counted once in its life" in later.stdout
    assert run("verify", second, *mine).exit_code == 0
    asked.write_text("nobody\n")
    assert "no id of a node" in str(run("extend", second, *mine, "--journal", journal, "--ask", str(asked)).exception)
    assert "no journal" in str(run("extend", second, *mine, "--journal", str(tmp_path / "lost")).exception)
