"""What each layer may import: training needs no accountant, the command line needs nothing heavy."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "graphveil"


def test_core_imports_nothing_of_ours_at_run_time() -> None:
    tree = ast.parse((SOURCE / "core.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            assert not (node.module or "").startswith("graphveil")


def test_only_accounting_composes() -> None:
    """dp-accounting appears in one file: there is no second place where privacy costs are added up."""
    users = [path.name for path in SOURCE.rglob("*.py") if "dp_accounting" in path.read_text()]
    assert users == ["accounting.py"]


def test_a_plan_with_known_noise_trains_without_accountant_and_cipher() -> None:
    """Accelerator machines may lack them: the training core needs torch, numpy, scipy and numba only."""
    script = """
import sys
for name in ("dp_accounting", "cryptography", "pydantic", "torch_geometric", "jinja2", "pyarrow"):
    sys.modules[name] = None
import graphveil as gv
graph = gv.datasets.load("chain-s")
release = gv.train(graph, gv.methods.Gap(epochs=1), noise=3.0, delta=1e-5, unit="edge", seed=0)
assert len(release.predict()) == graph.num_nodes
gv.train(graph, gv.methods.DpSgd(steps=2, sampling_rate=0.5), noise=3.0, delta=1e-5, unit="node", seed=0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("asked", ["1", "0"], ids=["one", "no-number-of-threads"])
def test_the_number_of_threads_is_what_the_user_set(asked: str) -> None:
    script = """
import graphveil as gv, torch, numba
gv.train(gv.datasets.load("chain-s"), gv.methods.Gap(epochs=1), noise=3.0, delta=1e-5, unit="edge", seed=0)
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
    for folder in ("src", "tests", "docs", "benchmarks"):
        for path in (root / folder).rglob("*"):
            if path.suffix in {".py", ".md", ".toml", ".html"}:
                text = path.read_text()
                assert not [word for word in words if word in text], path
