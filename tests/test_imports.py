"""What each layer may import: training needs no accountant, the command line needs nothing heavy."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "graphveil"


ROOMS = (
    "errors",
    "checks",
    "codec",
    "vocabulary",
    "runtime",
    "plugins",
    "data",
    "nn",
    "mechanisms",
    "privacy",
    "streams",
    "tasks",
    "methods",
    "planning",
    "admission",
    "release",
    "run",
    "advice",
    "sklearn",
    "auditing",
    "report",
    "cli",
)
"""From the ground floor up: a room imports from itself and from those below."""


def imports(source: str) -> list[tuple[int, str]]:
    """(line, module below graphveil) of every import of ours, those inside functions and for types included."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "graphveil":
            found += [(node.lineno, home_of(node.module or "", name.name)) for name in node.names]
        elif isinstance(node, ast.Import):
            found += [(node.lineno, n.name.partition(".")[2]) for n in node.names if n.name.startswith("graphveil.")]
    return found


def home_of(module: str, name: str) -> str:
    """The module below graphveil that `from module import name` reads."""
    inner = ".".join([*module.split(".")[1:], name])
    place = SOURCE / inner.replace(".", "/")
    return inner if place.with_suffix(".py").exists() or place.is_dir() else module.partition(".")[2] or name


def upward(home: str, source: str) -> list[str]:
    """What a module of the room `home` imports from rooms above it."""
    known = {room: floor for floor, room in enumerate(ROOMS)}
    rooms = [(line, module.split(".")[0]) for line, module in imports(source)]
    assert not [room for _, room in rooms if room not in known], "give the room a floor"
    return [f"line {line}: {home} imports {room}" for line, room in rooms if known[room] > known[home]]


def test_no_room_imports_from_above() -> None:
    for path in SOURCE.rglob("*.py"):
        home = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if home not in ("__init__", "__main__"):
            assert upward(home, path.read_text()) == [], path


@pytest.mark.parametrize(
    "planted",
    [
        "from graphveil.mechanisms.geometric_count import Marks",
        "def late():\n    from graphveil.methods.method import Method",
        "if TYPE_CHECKING:\n    from graphveil.privacy.session import Session",
        "import graphveil.run",
        "from graphveil import planning",
    ],
)
def test_a_planted_upward_import_is_seen(planted: str) -> None:
    assert upward("nn", f"from graphveil.data.arcs import Csr\n{planted}")
    assert not upward("cli", planted)


def test_modules_of_a_room_do_not_import_one_another_in_a_ring() -> None:
    """For types they may: `sealing` names the graph that it seals."""
    waiting = {}
    for path in SOURCE.rglob("*.py"):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        tree = ast.parse(path.read_text())
        typed = [node for node in tree.body if isinstance(node, ast.If)]
        tree.body = [node for node in tree.body if node not in typed]
        waiting[module] = {inner for _, inner in imports(ast.unparse(tree))}
    waiting.pop("__init__")
    while free := {module for module, needs in waiting.items() if not needs & waiting.keys()}:
        waiting = {module: needs for module, needs in waiting.items() if module not in free}
    assert not waiting


def test_one_class_name_is_one_class() -> None:
    """A method may have its paper's name, and so may its sampling: that one has a word of its own."""
    named = Counter(
        node.name
        for path in SOURCE.rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, times in named.items() if times > 1] == []


def test_only_accounting_composes() -> None:
    """dp-accounting appears in one file: there is no second place where privacy costs are added up."""
    users = [path.name for path in SOURCE.rglob("*.py") if "dp_accounting" in path.read_text()]
    assert users == ["accounting.py"]


def test_a_plan_with_known_noise_trains_without_accountant_and_cipher() -> None:
    """Accelerator machines may lack them: the training core needs torch, numpy, scipy and numba only."""
    script = """
import sys
for name in ("dp_accounting", "cryptography", "pydantic", "torch_geometric", "jinja2", "pyarrow", "sklearn"):
    sys.modules[name] = None
import graphveil as gv
graph = gv.datasets.load("chain-s")
release = gv.train(graph, gv.methods.Gap(epochs=1), noise=3.0, delta=1e-5, unit="edge", seed=0)
assert len(release.predict()) == graph.num_nodes
gv.train(graph, gv.methods.DpSgd(steps=2, sampling_rate=0.5), noise=3.0, delta=1e-5, unit="node", seed=0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("before", ["", "import torch_geometric"], ids=["first", "after-pyg"])
@pytest.mark.parametrize("asked", ["1", pytest.param("0", marks=pytest.mark.slow)], ids=["one", "no-number-of-threads"])
def test_the_number_of_threads_is_what_the_user_set(asked: str, before: str) -> None:
    script = f"""
{before}
import graphveil as gv, torch, numba
gv.train(gv.datasets.load("chain-s"), gv.methods.Gap(epochs=1), noise=3.0, delta=1e-5, unit="edge", seed=0)
numba.njit(lambda x: x + 1)(1)  # what is compiled reads the environment again
print(torch.get_num_threads(), numba.get_num_threads(), numba.config.NUMBA_DEFAULT_NUM_THREADS)
"""
    limited = {key: value for key, value in os.environ.items() if key != "NUMBA_NUM_THREADS"}
    limited["OMP_NUM_THREADS"] = asked
    done = subprocess.run([sys.executable, "-c", script], env=limited, capture_output=True, text=True, check=True)
    threads, kernels, cores = done.stdout.split()
    # What OpenMP ignores is ignored here too.
    assert kernels == ("1" if asked == "1" else cores)
    assert threads == kernels


def test_no_file_names_a_machine_or_a_registry() -> None:
    root = SOURCE.parents[1]
    words = ("/" + "work/", "/" + "root/", "index-" + "url", "find-" + "links")
    for folder in ("src", "tests", "docs", "lab"):
        for path in (root / folder).rglob("*"):
            if path.suffix in {".py", ".md", ".toml", ".html"}:
                text = path.read_text()
                assert not [word for word in words if word in text], path
