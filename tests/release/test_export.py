"""Models taken elsewhere answer as the release does, in processes without graphveil, and carry their certificate."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor

import graphveil as gv
from graphveil.errors import InvalidInput, Unsupported
from graphveil.release import export as exporting
from graphveil.release.export import StoredScores, TorchRelease

PLAIN = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "graphveil":
            raise ImportError(name)
sys.meta_path.insert(0, Blocked())
import json, onnxruntime, torch
for folder in sys.argv[1:]:
    inputs, labels, chances, threshold = torch.load(folder + "/asked")
    extra = {"graphveil.certificate": "", "graphveil.classes": ""}
    model = torch.export.load(folder + "/model.pt2", extra_files=extra).module()
    for rows in (len(inputs), 1, 0):
        told, told_chances = model(inputs[:rows])
        assert torch.equal(told, labels[:rows])
        assert rows != len(inputs) or torch.equal(told_chances, chances), (told_chances - chances).abs().max()
    session = onnxruntime.InferenceSession(folder + "/model.onnx", providers=["CPUExecutionProvider"])
    told, told_chances = map(torch.from_numpy, session.run(["labels", "probabilities"], {"inputs": inputs.numpy()}))
    assert (told_chances - chances).abs().max() < 1e-4
    top = chances.topk(2).values
    clear = top[:, 0] - top[:, 1] > 1e-3
    if not threshold:
        assert torch.equal(told[clear], labels[clear])
    assert len(session.run(None, {"inputs": inputs[:1].numpy()})[0]) == 1
    kept = session.get_modelmeta().custom_metadata_map
    assert kept["graphveil.certificate"] == extra["graphveil.certificate"]
    print(json.dumps({"epsilon": json.loads(kept["graphveil.certificate"])["epsilon"], "card": kept["graphveil.card"],
                      "classes": json.loads(extra["graphveil.classes"])}))
assert "graphveil" not in {name for name, module in sys.modules.items() if module}
"""


@pytest.fixture(scope="module")
def graph() -> gv.Graph:
    return gv.datasets.load("social")


METHODS = [
    (gv.methods.Gap(epochs=3), "edge"),
    (gv.methods.DpSgd(steps=3), "label"),
    (gv.methods.DpSgd(steps=3, hidden=4, scale="rows", learning_rate=1.0), "node"),
    (gv.methods.Mlp(epochs=2), "edge"),
    (gv.methods.Mlp(epochs=2, scale="columns", layers=3), "edge"),
    (gv.methods.Best((gv.methods.DpSgd(steps=2), gv.methods.DpSgd(steps=3))), "node"),
]


@cache
def trained(graph: gv.Graph, method: gv.Method, unit: str) -> gv.Release:
    return gv.train(graph, method, epsilon=4, delta=1e-5, unit=unit, seed=0)


def inputs_of(release: gv.Release, graph: gv.Graph) -> Tensor:
    return torch.arange(graph.num_nodes) if release.method.reads.stored else graph.x


@pytest.mark.parametrize(("method", "unit"), METHODS, ids=lambda one: str(one)[:24])
def test_a_module_answers_bit_for_bit(graph: gv.Graph, method: gv.Method, unit: str) -> None:
    release = trained(graph, method, unit)
    for one in (release, release.with_threshold(release.classes[1], 0.3)):
        module = one.to_torch()
        with torch.no_grad():
            labels, chances = module(inputs_of(one, graph))
        assert torch.equal(labels, one.predict())
        assert torch.equal(chances, one.predict_proba())
        assert module.certificate == one.certificate.describe()
        assert module.classes == one.classes


def test_files_answer_in_a_process_without_graphveil(graph: gv.Graph, tmp_path: Path) -> None:
    """What was released, a softmax, a perceptron, and one with a threshold."""
    releases = [trained(graph, *METHODS[place]) for place in (0, 1, 3)]
    releases.append(releases[-1].with_threshold(releases[-1].classes[1], 0.3))
    folders = []
    for place, release in enumerate(releases):
        folders.append(tmp_path / str(place))
        loaded = gv.load(release.save(folders[-1] / "release"))
        for form, file in (("torch", "model.pt2"), ("onnx", "model.onnx")):
            loaded.export(form, folders[-1] / file)
        asked = (inputs_of(release, graph), release.predict(), release.predict_proba(), release.threshold is not None)
        torch.save(asked, folders[-1] / "asked")
    script = [sys.executable, "-c", PLAIN, *map(str, folders)]
    done = subprocess.run(script, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for release, line in zip(releases, done.stdout.splitlines(), strict=True):
        told = json.loads(line)
        assert told["epsilon"] == release.certificate.epsilon
        assert told["card"] == release.card()
        assert tuple(told["classes"]) == release.classes


def test_files_say_nothing_of_this_machine(graph: gv.Graph, tmp_path: Path) -> None:
    release = trained(graph, *METHODS[1])
    home = str(Path(gv.__file__).parent).encode()
    assert home not in release.export("onnx", tmp_path / "model.onnx").read_bytes()
    with zipfile.ZipFile(release.export("torch", tmp_path / "model.pt2")) as file:
        assert not [name for name in file.namelist() if home in file.read(name)]


def test_the_weights_carry_the_certificate_and_keep_the_release_s_names(graph: gv.Graph, tmp_path: Path) -> None:
    release = trained(graph, *METHODS[3])
    torch.save(release.to_torch().state_dict(), tmp_path / "weights.pt")
    read = torch.load(tmp_path / "weights.pt", weights_only=True)
    assert {name.removeprefix("scorer.") for name in read} == {"_extra_state", *release.state}
    assert json.loads(read["_extra_state"]["graphveil.certificate"])["epsilon"] == release.certificate.epsilon
    release.to_torch().load_state_dict(read)
    other = trained(graph, gv.methods.Mlp(epochs=3), "edge").to_torch()
    with pytest.raises(InvalidInput, match="of another release"):
        other.load_state_dict(read)


def test_changing_the_module_leaves_the_release(graph: gv.Graph) -> None:
    release = trained(graph, *METHODS[3])
    before, module = release.predict_proba(graph), release.to_torch()
    with torch.no_grad():
        for part in module.parameters():
            part.zero_()
    assert torch.equal(release.predict_proba(graph), before)


@pytest.mark.parametrize("row", [-1, 3])
def test_what_is_no_row_is_an_error(row: int) -> None:
    with pytest.raises(IndexError):
        StoredScores(torch.zeros(3, 2))(torch.tensor([0, row]))


@pytest.mark.parametrize(
    "method", [gv.methods.HeterPoisson(network="sage", hidden=4, batch=3, epochs=1.0), gv.methods.PairCounts()], ids=str
)
def test_predictions_that_read_a_graph_are_refused(graph: gv.Graph, tmp_path: Path, method: gv.Method) -> None:
    release = gv.train(graph, method, noise=2.0, delta=1e-5, unit="node", seed=0)
    with pytest.raises(Unsupported, match="no module of features alone"):
        release.to_torch()
    with pytest.raises(Unsupported, match="the edges among them"):
        release.export("onnx", tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_mistakes(graph: gv.Graph, tmp_path: Path) -> None:
    release = trained(graph, *METHODS[3])
    with pytest.raises(InvalidInput, match="unknown form 'tf'; use one of: torch, onnx"):
        release.export("tf", tmp_path / "model.tf")
    with pytest.raises(InvalidInput, match=r"must end in \.onnx"):
        release.export("onnx", tmp_path / "model.pt2")


@pytest.mark.parametrize("form", ["torch", "onnx"])
def test_a_file_that_would_answer_otherwise_is_not_written(
    graph: gv.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    release, traced = trained(graph, *METHODS[3]), exporting._traced

    def shifted(_: TorchRelease, asked: Tensor) -> torch.export.ExportedProgram:
        other = release.to_torch()
        with torch.no_grad():
            other.scorer.net.layers[-1].bias[0] += 0.1  # type: ignore[index]
        return traced(other, asked)

    monkeypatch.setattr(exporting, "_traced", shifted)
    path = tmp_path / f"model{exporting.ExportForm(form).suffix}"
    with pytest.raises(gv.GraphveilError, match="would answer otherwise"):
        release.export(form, path)
    assert not path.exists()


class TestReleasedGraphs:
    NODES = "id,label,a\n" + "".join(f"n{i},{i % 2},{i}\n" for i in range(8))
    EDGES = "source,target\n" + "".join(f"n{i},n{(i + 1) % 8}\n" for i in range(8))

    @pytest.fixture
    def own(self, tmp_path: Path) -> gv.Graph:
        (tmp_path / "nodes.csv").write_text(self.NODES)
        (tmp_path / "edges.csv").write_text(self.EDGES)
        return gv.Graph.from_edges(tmp_path / "edges.csv", tmp_path / "nodes.csv").random_split()

    def test_the_ids_of_the_nodes_go_with_them(self, own: gv.Graph) -> None:
        released = gv.release_graph(own, gv.methods.EdgeRand(), epsilon=4, delta=1e-5, seed=0)
        data = released.to_pyg(own.ids)
        assert data.ids == [f"n{i}" for i in range(8)]
        assert torch.equal(data.edge_index, released.to_pyg().edge_index)

    def test_other_ids_are_refused(self, own: gv.Graph) -> None:
        released = gv.release_graph(own, gv.methods.EdgeRand(), epsilon=4, delta=1e-5, seed=0)
        for ids in (own.ids.to_pylist()[::-1], own.ids.to_pylist()[:-1], list(range(8))):
            with pytest.raises(InvalidInput, match="not those of the run, in their order"):
                released.to_pyg(ids)
