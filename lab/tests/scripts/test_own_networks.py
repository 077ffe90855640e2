"""The table of own networks: cells leave records, and the table is made of them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

import own_networks
from graphveil.runtime.folders import write_whole
from graphveil_lab import kept_files
from graphveil_lab.bench import kept


def asked(records: Path, **given: Any) -> argparse.Namespace:
    small = {"units": ["edge"], "datasets": ["chain-s"], "methods": ["hearsay"], "networks": None, "seeds": [0, 1]}
    return argparse.Namespace(records=records, **{**small, **given})


def test_what_has_a_record_is_not_run_again_and_the_table_is_made_of_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own_networks.accuracy(asked(tmp_path, networks=["built in"]))
    with pytest.raises(SystemExit, match="own_mixer-0"):
        own_networks.merged(asked(tmp_path))
    own_networks.accuracy(asked(tmp_path))
    assert capsys.readouterr().out.count("\n") == 4
    monkeypatch.setattr(own_networks.Cell, "run", None)
    own_networks.accuracy(asked(tmp_path))
    kept_files.write(tmp_path / "table.json", own_networks.merged(asked(tmp_path)), "lines")
    lines = kept.load(tmp_path / "table.json")
    assert [(line.method, line.seeds) for line in lines] == [("hearsay, built in", 2), ("hearsay, own mixer", 2)]
    assert all(line.proven and line.epsilon == own_networks.EPSILON for line in lines)


def test_a_record_of_another_method_does_not_count(tmp_path: Path) -> None:
    (cell,) = own_networks.cells(asked(tmp_path, networks=["own mixer"], seeds=[0]))
    write_whole(cell.file(tmp_path), {"method": {"kind": "Hearsay"}, "test": 1.0})
    assert cell.record(tmp_path) is None


@pytest.mark.parametrize("unit", own_networks.UNITS)
def test_every_unit_has_built_in_networks_and_own_ones(unit: str) -> None:
    for method in own_networks.methods_of(unit):
        names = list(own_networks.contenders(method))
        assert names[0].startswith("built")
        assert names[-1] == "own mixer"
        assert unit in {each.value for each in method.units}
