"""Every method on a processor and on a GPU: the same chance, the same counts and noise, weights up to rounding."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from neighbours import Sketch, adjacencies
from torch import nn
from torch.overrides import TorchFunctionMode

import graphveil as gv
from graphveil.data.datasets.planted import planted
from graphveil.data.sealing import Public
from graphveil.errors import Unsupported
from graphveil.mechanisms.geometric_count import Tally, geometric
from graphveil.methods.method import METHODS, Method
from graphveil.nn import cross_fit, fit, rows
from graphveil.nn.aggregate import neighbour_counts, neighbour_sum
from graphveil.privacy.noise import Secure, Seeded, Stream
from graphveil.privacy.session import Session
from graphveil.runtime.compute import Compute
from graphveil.runtime.counter_rng import CounterRng
from graphveil.vocabulary import Adjacency, Reading

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU here")
CUDA = torch.device("cuda", 0)


def planned(method: Method, adjacency: Adjacency) -> bool:
    try:
        method.plan(Public.blank(9, 4, 3, adjacency.undirected), adjacency, Reading.SOUND, 1.0)
    except Unsupported:
        return False
    return True


CASES = [
    pytest.param(one, adjacency, id=f"{number}-{one.name()}-{adjacency.unit}-{adjacency.undirected}")
    for number, one in enumerate(one for kind in METHODS.ours().values() for one in kind.specimens())
    for adjacency in adjacencies(one.units)
    if planned(one, adjacency)
]


_FACTORIES = {
    torch.empty, torch.zeros, torch.ones, torch.full, torch.arange, torch.linspace, torch.eye, torch.tensor,
}  # fmt: skip
"""Functions that make a tensor on the CPU unless they are told where."""
_OURS = str(Path(gv.__file__).parent)


class Unplaced(TorchFunctionMode):
    """Notes where our code makes a tensor without a word about its device; modules are built on the CPU and moved."""

    def __init__(self) -> None:
        super().__init__()
        self.places: set[str] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _FACTORIES and (kwargs or {}).get("device") is None:
            caller = sys._getframe(1)
            built = caller.f_code.co_name == "__init__" and isinstance(caller.f_locals.get("self"), nn.Module)
            if caller.f_code.co_filename.startswith(_OURS) and not built:
                self.places.add(f"{Path(caller.f_code.co_filename).relative_to(_OURS)}:{caller.f_lineno}")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(("method", "adjacency"), [case for case in CASES if case.values[0].on_gpu])
def test_what_runs_on_a_gpu_says_where_tensors_are_made(
    method: Method, adjacency: Adjacency, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """many: rows are read block by block, and networks train on them by the words of a counter."""
    if many:
        monkeypatch.setattr(rows, "WHOLE", 3)
        monkeypatch.setattr(cross_fit, "MANY", 3)
        monkeypatch.setattr(fit, "MANY", 3)
        monkeypatch.setattr(fit, "_LARGE", 2)
        monkeypatch.setattr(fit, "_ONE_IN", 2)
    graph = Sketch.random(np.random.default_rng(0), adjacency.undirected, nodes=9).beside_public()
    public, sealed = graph.seal(adjacency)
    session = Session(public, sealed, method.plan(public, adjacency, Reading.SOUND, 2.0), Seeded(0))
    with Unplaced() as seen:
        state = method.fit(session)
        if type(method).serve is not Method.serve:
            session = Session(public, sealed, session.plan, Seeded(0))
            method.serve(session, state)
    assert not seen.places


@gpu
@pytest.mark.parametrize(("method", "adjacency"), CASES)
def test_a_method_gives_the_same_on_both(method: Method, adjacency: Adjacency) -> None:
    """Bit for bit where the method stays on the CPU; elsewhere weights and scores differ by rounding."""
    graph = Sketch.random(np.random.default_rng(0), adjacency.undirected, nodes=9).beside_public()
    given: dict[str, Any] = {"noise": 2.0, "delta": 1e-5, "unit": adjacency.unit, "seed": 3}
    here = gv.train(graph, method, **given)
    there = gv.train(graph, method, **given, compute=Compute(device="cuda"))
    assert there.certificate.plan == here.certificate.plan
    assert there.certificate.provenance.public_digest == here.certificate.provenance.public_digest
    assert here.state.keys() == there.state.keys()
    for name, part in here.state.items():
        assert there.state[name].device.type == "cpu"
        if method.on_gpu and part.is_floating_point():
            assert torch.allclose(part, there.state[name], rtol=1e-2, atol=1e-3), name
        else:
            assert torch.equal(part, there.state[name]), name


@gpu
@pytest.mark.parametrize("make", [lambda: Seeded(7), Secure], ids=["seeded", "secure"])
def test_noise_is_the_same_bit_for_bit(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphveil.privacy.noise.os.urandom", lambda count: bytes(range(count)))
    total = torch.linspace(-50, 50, (1 << 20) + 4321, dtype=torch.float64)

    def drawn(device: torch.device | str) -> list[torch.Tensor]:
        source: Stream = make()
        there = torch.device(device)
        parts = [source.add_gaussian(total.to(there), 1.7, 0.5), source.add_laplace(total[:1000].to(there), 2.0, 1.0)]
        # The first count leaves the stream amid a block; afterwards places are odd, and then even again.
        parts += [geometric(source, count, 3.3, there) for count in (13, 8000, 3, 4096)]
        return [part.cpu() for part in parts]

    assert all(map(torch.equal, drawn("cpu"), drawn("cuda")))


@gpu
def test_counts_are_the_same_bit_for_bit() -> None:
    graph = planted(30_000, 200_000, 5, 8, seed=4)
    said = graph.y * 3 % 5
    indptr, indices = graph.adj.on(CUDA)
    found = neighbour_counts(indptr, indices, said.to(CUDA), 5).cpu()
    assert torch.equal(found, neighbour_counts(*graph.adj.on(torch.device("cpu")), said, 5))
    rows = graph.x.double()
    assert torch.allclose(neighbour_sum(graph.adj, rows.to(CUDA)).cpu(), neighbour_sum(graph.adj, rows), rtol=1e-12)


@gpu
def test_a_made_up_graph_is_the_same_bit_for_bit() -> None:
    here, there = (planted(30_000, 200_000, 5, 8, seed=4, device=device) for device in ("cpu", "cuda"))
    assert there.device.type == "cuda"
    assert here.fingerprint() == there.fingerprint()
    assert here.split_hash() == there.split_hash()
    assert there.adj.is_symmetric()


@gpu
def test_public_chance_is_the_same_bit_for_bit() -> None:
    here, there = CounterRng(5, torch.tensor(3)), CounterRng(5, torch.tensor(3, device="cuda"))
    assert torch.equal(here.words(1000), there.words(1000).cpu())


@gpu
def test_a_graph_of_pyg_goes_in_as_it_is() -> None:
    from torch_geometric.data import Data

    graph = planted(2_000, 8_000, 4, 8)
    data = graph.to_pyg().to("cuda")
    assert isinstance(data, Data)
    found = gv.Graph.from_pyg(data)
    assert found.device.type == "cuda"
    assert found.x.data_ptr() == data.x.data_ptr()
    assert found.fingerprint() == graph.fingerprint()
    release = gv.train(data, gv.methods.Hearsay(folds=2, hidden=8, head=8), epsilon=2, unit="edge", seed=0)
    assert release.evaluate("test")["accuracy"] > 0.5


@gpu
def test_large_graphs_give_the_same_on_both() -> None:
    """Beyond 100,000 rows steps are recorded and replayed, with the same batches and the same silenced units."""
    graph = planted(160_000, 640_000, 4, 16, seed=1)
    given: dict[str, Any] = {"noise": 1.0, "delta": 1e-6, "unit": "edge", "seed": 3}
    here = gv.train(graph, gv.methods.Hearsay(hidden=32), **given)
    there = gv.train(graph, gv.methods.Hearsay(hidden=32), **given, compute=Compute(device="cuda"))
    accuracy = [each.evaluate("test")["accuracy"] for each in (here, there)]
    assert abs(accuracy[0] - accuracy[1]) < 0.003
    assert float((here.predict() == there.predict()).double().mean()) > 0.98


def test_a_tally_counts_nothing_elsewhere_unless_all_marks_count() -> None:
    from graphveil.methods.edge.parts.counts import NeighbourMarks

    graph = gv.datasets.load("chain-s")
    marks = NeighbourMarks(graph.adj, graph.y, graph.num_classes, undirected=True)
    assert marks.counted_there(2) is None
    assert Tally(1.0, marks=2).bounded(*_asked(marks)).sum() == graph.adj.num_arcs


def _asked(marks: Any) -> tuple[Any, Any]:
    return None, lambda _: marks
