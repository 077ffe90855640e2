"""Without graphveil-lab its commands are listed, and each says how to get it."""

from __future__ import annotations

import subprocess
import sys

import pytest

ALONE = """
import sys
from importlib import metadata
found = metadata.entry_points
metadata.entry_points = lambda **given: () if given.get("group") == "graphveil.commands" else found(**given)
from graphveil import cli
sys.argv[0] = "graphveil"
try:
    cli.main()
finally:
    assert not any(name.split(".")[0] == "graphveil_lab" for name in sys.modules)
"""


def alone(*words: str) -> subprocess.CompletedProcess[str]:
    """A command of a process in which graphveil-lab is not installed."""
    return subprocess.run([sys.executable, "-c", ALONE, *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("line", ["bench run smoke --quick", "court --seed 1", "report run.json -o page.html"])
def test_a_command_of_the_laboratory_says_how_to_get_it(line: str) -> None:
    done = alone(*line.split())
    assert done.returncode == 2
    command = line.split()[0]
    assert f"`graphveil {command}` is part of graphveil-lab; run `pip install ./lab`" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_lists_the_commands_of_the_laboratory() -> None:
    shown = alone("--help").stdout
    assert shown.count("Part of graphveil-lab, which is not installed.") == 3
