"""Mistakes that people make on the command line: each gets a sentence that says what to do, and none costs budget."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bank import accounts, payments, written
from graphveil import cli
from graphveil.cli import app

COUNT = 24
OWN = "--edges edges.csv --nodes nodes.csv"
COSTS = "--unit edge --epsilon 1 --delta 1e-6 --ledger book --quiet"

MISTAKES = [
    # Files
    ("train hearsay --edges edge.csv --nodes nodes.csv COSTS", "there is no file edge.csv"),
    ("train hearsay --edges nodes.csv --nodes edges.csv COSTS", "it looks like the edge table: are the two swapped?"),
    ("train hearsay --edges edges.csv COSTS", "--edges needs --nodes"),
    ("train hearsay --nodes nodes.csv COSTS", "--nodes needs --edges"),
    ("train hearsay --edges notes.txt --nodes nodes.csv COSTS", "use a .csv or a .parquet file"),
    ("train hearsay --edges edges.csv --nodes sheet.xlsx COSTS", "use a .csv or a .parquet file"),
    ("train hearsay --edges edges.csv --nodes empty.csv COSTS", "empty.csv is empty"),
    ("train hearsay --edges edges.csv --nodes latin.csv COSTS", "--encoding latin-1"),
    ("train hearsay --edges model --nodes nodes.csv COSTS", "cannot read model"),
    ("train hearsay --packed model COSTS", "`graphveil data pack` writes one"),
    ("train hearsay model COSTS", "model is a file or a folder, not the name of a dataset"),
    ("train hearsay edges.csv COSTS", "give your own graph with --edges and --nodes"),
    ("train hearsay OWN social COSTS", "social and edges.csv are 2 graphs"),
    ("train hearsay COSTS", "name one dataset"),
    ("train hearsay soccial COSTS", "did you mean social?"),
    ("train hearsay zzz COSTS", "`graphveil datasets` lists them"),
    # Columns
    ("train hearsay OWN --label fraud COSTS", "no column 'fraud' with the labels; the columns are id, label"),
    ("train hearsay OWN --id konto COSTS", "no column 'konto' with the ids"),
    ("train hearsay OWN --source von COSTS", "the columns von and target are needed; got source, target"),
    ("train hearsay OWN --drop balanse COSTS", "no column 'balanse' to drop"),
    ("train hearsay --edges edges.csv --nodes unlabelled.csv COSTS", "no column 'label' with the labels"),
    ("train hearsay --edges edges.csv --nodes blank.csv COSTS", "nodes: no label at all"),
    ("train hearsay --edges edges.csv --nodes text.csv COSTS", "feature 'branch' is Bern, not a number"),
    ("train hearsay --edges edges.csv --nodes gaps.csv COSTS", "row 3: feature 'age' is empty"),
    ("train hearsay --edges edges.csv --nodes twice.csv COSTS", "id acc0-0 occurs before"),
    ("train hearsay --edges edges.csv --nodes bare.csv COSTS", "the nodes have no features"),
    ("train hearsay --edges edges.csv --nodes roles.csv COSTS", "split is training; use train, val, test"),
    ("train hearsay --edges loops.csv --nodes nodes.csv COSTS", "self-loop; remove it, or clean the table (--clean"),
    ("train hearsay --edges strange.csv --nodes nodes.csv COSTS", "target stranger is not in the node table"),
    ("train hearsay --edges both.csv --nodes nodes.csv COSTS", "list it once, or clean the table (--clean"),
    ("train hearsay --edges weights.csv --nodes nodes.csv --weight amount COSTS", "edges carry no weights"),
    ("train hearsay --edges edges.csv --nodes text.csv --encode yes COSTS", "use auto"),
    ("train hearsay --edges edges.csv --nodes text.csv --categories no.json COSTS", "no.json cannot be read"),
    (
        "train dpsgd --edges edges.csv --nodes text.csv --encode auto --unit node --epsilon 1 --ledger book",
        "declare what these columns hold (--categories FILE",
    ),
    ("train hearsay OWN --encoding klingon COSTS", "use utf-8, latin-1"),
    ("train hearsay OWN --split stratified COSTS", "use one of: random"),
    # Budgets
    ("train hearsay OWN --unit edge --epsilon 0 --ledger book", "epsilon must be a finite number above 0"),
    ("train hearsay OWN --unit edge --epsilon -1 --ledger book", "epsilon must be a finite number above 0"),
    ("train hearsay OWN --unit edge --epsilon 1,5 --ledger book", "Invalid value for '--epsilon'"),
    ("train hearsay OWN --unit edge --ledger book", "give exactly one of epsilon"),
    ("train hearsay OWN --noise 2 COSTS", "give exactly one of epsilon"),
    ("train hearsay OWN --unit edge --epsilon 1 --delta 0 --ledger book", "strictly between 0 and 1"),
    ("train hearsay OWN --unit edge --epsilon 1 --delta 5 --ledger book", "strictly between 0 and 1"),
    ("train hearsay OWN --epsilon 2 COSTS", "--epsilon is given twice"),
    ("train hearsay OWN --epsilon 1 --ledger book", "Missing option '--unit'"),
    ("train hearsay OWN --unit person --epsilon 1 --ledger book", "use one of: edge, node, features, label"),
    ("train hearsay OWN --unit node --epsilon 1 --ledger book", "hearsay does not protect 'node'"),
    ("train dpsgd OWN --unit edge --epsilon 1 --ledger book", "dpsgd does not protect 'edge'"),
    ("train hearsay OWN --unit edge --epsilon 9 --delta 1e-6 --ledger book", "Nothing was read or reserved"),
    ("train hearsay OWN --unit edge --epsilon 1 --ledger nobook", "make it with `graphveil ledger open`"),
    ("train hearsay OWN --unit edge --epsilon 1 --ledger nodes.csv", "not a usable ledger"),
    ("train hearsay social --unit edge --epsilon 1 --ledger book", "open one with `graphveil ledger open`"),
    ("train dpsgd OWN --unit label --epsilon 1 --delta 1e-6 --ledger book", "different adjacencies do not add up"),
    # Methods and their settings
    ("train hearsey OWN COSTS", "did you mean: hearsay?"),
    ("train hearsay OWN --hop 2 COSTS", "did you mean --hops"),
    ("train hearsay OWN --leger book COSTS", "did you mean --ledger"),
    ("train hearsay OWN --hops two COSTS", "--hops takes a whole number, got 'two'"),
    ("train hearsay OWN --hops -1 COSTS", "of at least 1"),
    ("train privgnn OWN --unit node --epsilon 1 --delta 1e-6 --ledger book", "--public-edges and --public-nodes"),
    ("train hearsay OWN --reading optimistic COSTS", "use one of: published, sound"),
    ("train hearsay OWN --seed -1 COSTS", "a seed must be a whole number"),
    ("train hearsay OWN --threshold fraud COSTS", "fraud=0.2"),
    ("train hearsay OWN --threshold frod=0.2 COSTS", "none of the classes fraud, ok"),
    # Where results go
    ("train hearsay OWN --out model COSTS", "paid for; choose another folder, or --force"),
    ("train hearsay OWN --out nodes.csv COSTS", "not a release folder"),
    ("train hearsay OWN --out new --record new/record.json COSTS", "which may be given away; write it elsewhere"),
    ("train mlp OWN --keep-ids COSTS", "mlp needs no --keep-ids"),
    # Predictions
    ("infer modell", "not a complete release folder"),
    ("infer noisy", "holds a released graph and no model"),
    ("infer model --nodes edges.csv", "no column 'id'"),
    ("infer plain --nodes wider.csv", "'balance2'; drop them (--drop"),
    ("infer plain OWN --epsilon 1 --ledger book", "without --epsilon and --noise, which is free"),
    ("infer model --epsilon 1 --ledger book", "name a dataset or give --edges"),
    ("infer model --nodes nodes.csv --epsilon 1 --ledger book", "--nodes needs --edges"),
    ("infer model OWN --epsilon 0 --ledger book", "epsilon must be a finite number above 0"),
    # Officers
    ("verify nodes.csv", "not a complete release folder"),
    ("verify model --edges edges.csv --nodes wider.csv", "Give the graph and the split of the run"),
    ("ledger open book OWN --unit edge --epsilon 3 --delta 1e-6", "`graphveil ledger show` says what is left"),
    ("ledger open book OWN --unit edge --epsilon 3", "Missing option '--delta'"),
    ("ledger open nodes.csv OWN --unit edge --epsilon 3 --delta 1e-6", "not a usable ledger"),
    ("ledger show nobook", "there is no ledger at nobook"),
    ("release-graph hearsay OWN --epsilon 1 --out g --ledger book", "these methods do: eclipse"),
    ("account hearsay --unit edge", "give exactly one of epsilon"),
    ("audit modell OWN", "neither a release folder nor a method"),
    ("report model", "is part of a release"),
    ("bench run smok", "did you mean smoke?"),
    ("data get coraa", "did you mean cora"),
    ("check --edges nodes.csv --nodes edges.csv", "are the two swapped?"),
    ("tran hearsay", "Did you mean 'train'?"),
    # Rare classes
    ("train hearsay OWN --class-weight balance COSTS", "unknown class_weight 'balance'; use one of: equal, balanced"),
    ("train hearsay OWN --class-weight fraud=10 COSTS", "use one of: equal, balanced"),
    ("train hearsay OWN --class_weight balanced COSTS", "did you mean --class-weight"),
    (
        "train whisper OWN --class-weight balanced --unit node --epsilon 1 --ledger book",
        "whisper has no class weights: it learns from private labels through noise alone",
    ),
    (
        "release-graph lapgraph OWN --epsilon 1 --class-weight balanced --out graph",
        "changes nothing without a training",
    ),
    ("infer model --threshold Fraud=0.2", "a threshold is for a class, 'fraud', 'ok'; got 'Fraud'"),
    ("infer model --threshold fraud=20%", "a chance above 0 and at most 1: fraud=0.2"),
    ("advise OWN --unit edge --metric f1 --quiet", "use one of: auto, accuracy, auc, balanced_accuracy"),
]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with good tables, bad ones, a ledger, two models and a released graph."""
    folder = tmp_path_factory.mktemp("desk")
    nodes, edges = accounts(0, COUNT), payments(0, COUNT)
    told = {
        "nodes.csv": nodes,
        "unlabelled.csv": {name: column for name, column in nodes.items() if name != "label"},
        "blank.csv": {**nodes, "label": [""] * COUNT},
        "text.csv": {**nodes, "branch": ["Bern"] * COUNT},
        "gaps.csv": {**nodes, "age": [*nodes["age"][:3], "", *nodes["age"][4:]]},
        "wider.csv": {**nodes, "balance2": nodes["balance"]},
        "bare.csv": {"id": nodes["id"], "label": nodes["label"]},
        "roles.csv": {**nodes, "split": ["training"] * COUNT},
        "edges.csv": edges,
        "weights.csv": {**edges, "amount": [5] * len(edges["source"])},
    }
    for name, table in told.items():
        (folder / name).write_text(written(table))
    for name, row in {"loops": "acc0-1,acc0-1", "strange": "acc0-1,stranger", "both": "acc0-1,acc0-0"}.items():
        (folder / f"{name}.csv").write_text(f"{written(edges)}{row}\n")
    (folder / "twice.csv").write_text(written(nodes) + written(nodes).splitlines()[1] + "\n")
    (folder / "latin.csv").write_bytes(written({**nodes, "label": ["Zürich"] * COUNT}).encode("latin-1"))
    (folder / "empty.csv").write_text("")
    (folder / "notes.txt").write_text("to do")
    (folder / "sheet.xlsx").write_bytes(b"PK")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in (
            f"ledger open book {OWN} --unit edge --epsilon 3 --delta 1e-6",
            f"train hearsay {OWN} {COSTS} --folds 2 --hidden 8 --head 8 --seed 0 --out model",
            f"train mlp {OWN} --epochs 5 --unit edge --epsilon 1 --seed 0 --quiet --out plain",
            f"release-graph lapgraph {OWN} --epsilon 1 --seed 0 --quiet --out noisy",
        ):
            done = CliRunner().invoke(app, shlex.split(line))
            assert done.exit_code == 0, f"{line}: {done.output}{done.exception!r}"
        yield folder


def test_there_are_sixty_mistakes_and_no_two_are_the_same() -> None:
    assert len({line for line, _ in MISTAKES}) == len(MISTAKES) >= 60


@pytest.mark.parametrize(("line", "said"), MISTAKES, ids=[line for line, _ in MISTAKES])
def test_a_mistake_gets_a_sentence_and_costs_nothing(
    line: str, said: str, desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(desk)
    monkeypatch.setenv("COLUMNS", "200")
    before = {path: path.read_bytes() for path in desk.rglob("*") if path.is_file()}
    words = shlex.split(line.replace("OWN", OWN).replace("COSTS", COSTS))
    monkeypatch.setattr(sys, "argv", ["graphveil", *words])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    shown = "".join(capsys.readouterr())
    assert stopped.value.code == 2, shown
    assert said in re.sub(r"[\s│]+", " ", shown)
    assert "Traceback" not in shown
    assert {path: path.read_bytes() for path in desk.rglob("*") if path.is_file()} == before, "something was written"
