"""graphveil: train graph neural networks on sensitive graphs and prove what the result reveals.

Names load on first use, so that `import graphveil` and `graphveil --help` stay quick.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from importlib import metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphveil import methods, sklearn
    from graphveil.advice.advise import Advice, advise
    from graphveil.auditing.audit import audit
    from graphveil.data import datasets
    from graphveil.data.checking import check
    from graphveil.data.graph import Graph
    from graphveil.data.packed import open_packed, pack
    from graphveil.data.schema import Schema
    from graphveil.data.sealing import Public, Sealed
    from graphveil.errors import (
        GraphveilError,
        InvalidInput,
        MissingData,
        MissingExtra,
        Overspent,
        PrivateAccess,
        Tampered,
        Unsupported,
    )
    from graphveil.methods.method import Method
    from graphveil.nn.own_network import OwnNetwork
    from graphveil.privacy import accounting
    from graphveil.privacy.ledger import Ledger
    from graphveil.privacy.session import Session
    from graphveil.release.certificate import Certificate
    from graphveil.release.edges import ReleasedEdges
    from graphveil.release.release import Release, load
    from graphveil.release.verify import verify
    from graphveil.run import extend, infer, release_graph, train
    from graphveil.runtime.compute import Compute
    from graphveil.vocabulary import Adjacency, Plan, Reading, Step, Unit

# numba takes all cores whatever OMP_NUM_THREADS says, and through OpenMP raises torch's number of threads with its own.
if re.fullmatch("[1-9][0-9]*", os.environ.get("OMP_NUM_THREADS", "")):
    if "numba" not in sys.modules:
        os.environ.setdefault("NUMBA_NUM_THREADS", os.environ["OMP_NUM_THREADS"])
    elif "torch" in sys.modules:
        # PyTorch Geometric was imported before: numba has read the environment, and can only be told.
        _asked = int(os.environ["OMP_NUM_THREADS"])
        sys.modules["numba"].set_num_threads(min(_asked, sys.modules["numba"].config.NUMBA_NUM_THREADS))
        sys.modules["torch"].set_num_threads(_asked)

_HOMES = {
    "advice.advise": ("Advice", "advise"),
    "auditing.audit": ("audit",),
    "release.certificate": ("Certificate",),
    "release.release": ("Release", "load"),
    "vocabulary": ("Adjacency", "Plan", "Reading", "Step", "Unit"),
    "errors": (
        "GraphveilError",
        "InvalidInput",
        "MissingData",
        "MissingExtra",
        "Overspent",
        "PrivateAccess",
        "Tampered",
        "Unsupported",
    ),
    "data.checking": ("check",),
    "data.graph": ("Graph",),
    "data.schema": ("Schema",),
    "data.sealing": ("Public", "Sealed"),
    "privacy.ledger": ("Ledger",),
    "methods.method": ("Method",),
    "nn.own_network": ("OwnNetwork",),
    "data.packed": ("open_packed", "pack"),
    "release.edges": ("ReleasedEdges",),
    "privacy.session": ("Session",),
    "run": ("extend", "infer", "release_graph", "train"),
    "release.verify": ("verify",),
    "runtime.compute": ("Compute",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = {
    "accounting": "privacy.accounting",
    "datasets": "data.datasets",
    "methods": "methods",
    "sklearn": "sklearn",
}

__all__ = [
    "Adjacency",
    "Advice",
    "Certificate",
    "Compute",
    "Graph",
    "GraphveilError",
    "InvalidInput",
    "Ledger",
    "Method",
    "MissingData",
    "MissingExtra",
    "Overspent",
    "OwnNetwork",
    "Plan",
    "PrivateAccess",
    "Public",
    "Reading",
    "Release",
    "ReleasedEdges",
    "Schema",
    "Sealed",
    "Session",
    "Step",
    "Tampered",
    "Unit",
    "Unsupported",
    "accounting",
    "advise",
    "audit",
    "check",
    "datasets",
    "extend",
    "infer",
    "load",
    "methods",
    "open_packed",
    "pack",
    "release_graph",
    "sklearn",
    "train",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return metadata.version("graphveil")
    if name == "court":
        return _laboratory("court")
    if name in _MODULES:
        return importlib.import_module(f"graphveil.{_MODULES[name]}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'graphveil' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(f"graphveil.{_HOME_OF[name]}"), name)
    return found


def _laboratory(name: str) -> Any:
    """A module of graphveil-lab."""
    try:
        return importlib.import_module(f"graphveil_lab.{name}.{name}")
    except ModuleNotFoundError as error:
        from graphveil.errors import MissingExtra

        raise MissingExtra(f"gv.{name} is part of graphveil-lab; run `pip install ./lab` in a checkout") from error


def __dir__() -> list[str]:
    return list(__all__)
