"""A bank's way from messy tables to a colleague's file and to next month, as it is typed; and the same in Python."""

from __future__ import annotations

import csv
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

import graphveil as gv
from bank import accounts, payments
from graphveil.cli import app

COUNT = 200
COLUMNS = "--encoding latin-1 --id Konto --label Urteil --source von --target nach"


def write_month(seed: int, labelled: bool) -> None:
    """Accounts in Latin-1 with semicolons, a branch, a date and a remark; payments with loops and repeats."""
    rng, table, pays = np.random.default_rng(seed), accounts(seed, COUNT), payments(seed, COUNT)
    branch, opened = rng.choice(["Zürich", "Genève", ""], COUNT), rng.choice(["2019-05-01", "2021-07-31", ""], COUNT)
    names = ["Konto", "Saldo", "Alter", "Filiale", "Seit", "Notiz"] + ["Urteil"] * labelled
    cells = [table["id"], table["balance"], table["age"], branch, opened, [f"note {k}" for k in range(COUNT)]]
    rows = zip(*cells, *([table["label"]] if labelled else []), strict=True)
    body = "\n".join(";".join(map(str, row)) for row in [names, *rows])
    Path(f"month{seed}-accounts.csv").write_bytes(body.encode("latin-1"))
    pairs = [*zip(pays["source"], pays["target"], strict=True)]
    lines = [f"{a};{b};{rng.integers(1, 99)}" for a, b in [*pairs, *pairs[:7], (pairs[0][0], pairs[0][0])]]
    Path(f"month{seed}-payments.csv").write_text("\n".join(["von;nach;Betrag", *lines]))


def typed(line: str) -> Any:
    done = CliRunner().invoke(app, shlex.split(line.removeprefix("graphveil ")))
    assert done.exit_code == 0, f"{line}: {done.output}{done.exception!r}"
    return done


def frauds_found(file: str, seed: int) -> float:
    """The share of frauds that a file of predictions names."""
    truth = dict(zip(accounts(seed, COUNT)["id"], accounts(seed, COUNT)["label"], strict=True))
    rows = list(csv.DictReader(Path(file).read_text().splitlines()))
    return float(np.mean([row["label"] == "fraud" for row in rows if truth[row["id"]] == "fraud"]))


def test_from_messy_tables_to_next_month(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_month(0, labelled=True)
    write_month(1, labelled=False)
    march = f"--edges month0-payments.csv --nodes month0-accounts.csv {COLUMNS}"
    refused = CliRunner().invoke(app, shlex.split(f"check {march}"))
    assert refused.exit_code == 2
    advised = refused.stdout.rpartition("next: ")[2]
    assert "--encode auto --drop Notiz --clean" in advised
    march += " --encode auto --drop Notiz --clean"
    assert typed(f"graphveil check {march}").stdout.count("problem") == 0
    advice = typed(f"advise {march} --unit edge --method hearsay --epsilons 2 --seeds 1 --limit 100 --quiet")
    assert "largest class" in advice.stdout
    typed(f"ledger open book {march} --unit edge --epsilon 4 --delta 1e-6")
    paid = "--unit edge --epsilon 2 --delta 1e-6 --ledger book"
    kept = "--out model --summary run.html --record run.json"
    said = typed(f"train hearsay {march} {paid} --class-weight balanced --threshold fraud=0.3 --seed 0 {kept}").stdout
    assert re.search(r"fraud +[01]\.\d+ +[01]\.\d+", said), "precision and recall, by the name of the class"
    assert "even odds become at most 89 : 11." in typed("card model").stdout
    assert "verified: hashes, card, arithmetic and plan agree" in typed(f"verify model {march}").stdout
    typed("infer model --nodes month0-accounts.csv --encoding latin-1 --out march.csv")
    assert frauds_found("march.csv", 0) > 0.9
    april = "--edges month1-payments.csv --nodes month1-accounts.csv --encoding latin-1 --source von --target nach"
    april += " --drop Notiz --clean"
    typed(f"check {april} --like model")
    typed(f"ledger open book {april} --like model --unit edge --epsilon 2 --delta 1e-6")
    typed(f"infer model {april} --epsilon 1 --delta 1e-6 --ledger book --seed 1 --out april.csv")
    assert frauds_found("april.csv", 1) > 0.9
    assert [account.entries for account in gv.Ledger("book").accounts()] == [1, 1]
    typed("report run.json -o report.html")
    shown = Path("report.html").read_text()
    for words in ("month0-payments", "test balanced_accuracy", "test auc"):
        assert words in shown


def test_the_same_in_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_month(0, labelled=True)
    write_month(1, labelled=False)
    how: dict[str, Any] = {"encoding": "latin-1", "source": "von", "target": "nach", "drop": ["Notiz"], "clean": True}
    named = {"id": "Konto", "label": "Urteil", "encode": "auto"}
    assert gv.check("month0-payments.csv", "month0-accounts.csv", **named, **how).ready
    march = gv.Graph.from_edges("month0-payments.csv", "month0-accounts.csv", name="march", **named, **how)
    release = gv.train(march.random_split(), gv.methods.Hearsay(), epsilon=2, unit="edge", seed=0)
    release.with_threshold("fraud", 0.3).with_ids().save("model")
    loaded = gv.load("model")
    Path("march.csv").write_text(loaded.predictions().to_csv())
    assert frauds_found("march.csv", 0) > 0.9
    april = gv.Graph.from_edges("month1-payments.csv", "month1-accounts.csv", name="april", schema=loaded.schema, **how)
    Path("april.csv").write_text(gv.infer(loaded, april, epsilon=1, seed=1).predictions().to_csv())
    assert frauds_found("april.csv", 1) > 0.9


def in_pandas(seed: int) -> tuple[Any, Any]:
    """A month's payments and accounts as people have them in pandas: NaN, text, dates, an index that is no row."""
    read: dict[str, Any] = {"sep": ";", "encoding": "latin-1"}
    nodes = pd.read_csv(f"month{seed}-accounts.csv", parse_dates=["Seit"], **read)
    return pd.read_csv(f"month{seed}-payments.csv", **read), nodes.set_index(nodes["Konto"].str[::-1])


def in_polars(seed: int) -> tuple[Any, Any]:
    read: dict[str, Any] = {"separator": ";", "encoding": "latin-1", "try_parse_dates": True}
    return pl.read_csv(f"month{seed}-payments.csv", **read), pl.read_csv(f"month{seed}-accounts.csv", **read)


@pytest.mark.parametrize("frames", [in_pandas, in_polars])
def test_the_same_with_data_frames(frames: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_month(0, labelled=True)
    write_month(1, labelled=False)
    edges, nodes = frames(0)
    how: dict[str, Any] = {"source": "von", "target": "nach", "drop": ["Notiz"], "clean": True}
    named = {"id": "Konto", "label": "Urteil", "encode": "auto", **how}
    assert gv.check(edges, nodes, **named).ready
    march = gv.Graph.from_edges(edges, nodes, name="march", **named).random_split()
    assert march.schema is not None
    assert march.schema.classes == ("fraud", "ok"), "what is blank is no class"
    gv.advise(march, unit="edge", methods=["hearsay"], epsilons=[2.0], seeds=1, limit=100)
    book = gv.Ledger("book")
    book.open(march, "edge", epsilon=4, delta=1e-6)
    method = gv.methods.Hearsay(class_weight="balanced")
    release = gv.train(march, method, epsilon=2, delta=1e-6, unit="edge", seed=0, ledger=book)
    release.with_threshold("fraud", 0.3).with_ids().save("model")
    assert "even odds become at most 89 : 11" in release.card()
    loaded = gv.verify("model", march)
    assert isinstance(loaded, gv.Release)
    month, others = frames(1)
    backwards = others[list(others.columns)[::-1]]
    april = gv.Graph.from_edges(month, backwards, name="april", schema=loaded.schema, **how)
    book.open(april, "edge", epsilon=2, delta=1e-6)
    found = gv.infer(loaded, april, epsilon=1, delta=1e-6, seed=1, ledger=book).predictions()
    frame = found.to_pandas() if frames is in_pandas else found.to_polars()
    assert list(frame.columns) == ["id", "label", "p_fraud", "p_ok"]
    Path("april.csv").write_text(found.to_csv())
    assert frauds_found("april.csv", 1) > 0.9
    assert [account.entries for account in book.accounts()] == [1, 1]
