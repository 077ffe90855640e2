"""A release taken elsewhere: a module of torch, a file that torch or ONNX runs without graphveil, a graph for PyG.

What leaves is the released model and nothing else: this is post-processing, and the certificate goes with it.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from graphveil.data.arcs import Csr
from graphveil.errors import GraphveilError, InvalidInput, MissingExtra, Unsupported
from graphveil.methods.method import PredictionReads
from graphveil.runtime.folders import write_file
from graphveil.vocabulary import State

if TYPE_CHECKING:
    from graphveil.release.release import Release

OPSET = 18
"""Of ONNX files: runtimes since 2023 read it."""

_TRIED = 16
"""Rows on which a file is compared with the release before it is left behind."""

_MAX_BYTES = 1 << 31
"""An ONNX file holds no more."""


class ExportForm(StrEnum):
    """Where a model goes. TORCH: `torch.export`'s file, .pt2; ONNX: .onnx."""

    TORCH = "torch"
    ONNX = "onnx"

    @property
    def suffix(self) -> str:
        """How its file ends."""
        return ".pt2" if self is ExportForm.TORCH else ".onnx"


class StoredScores(nn.Module):
    """Scores that were released for every node of the training: rows int64 [k] -> [k, c]."""

    def __init__(self, scores: Tensor) -> None:
        super().__init__()
        self.register_buffer("scores", scores)

    def forward(self, rows: Tensor) -> Tensor:
        """The scores of these rows; a number that is no row is an error, a negative one too."""
        scores = self.get_buffer("scores")
        return nn.functional.embedding(rows.where(rows >= 0, len(scores)), scores)


class TorchRelease(nn.Module):
    """The released model: (labels int64 [k], probabilities [k, c]) = module(inputs), with its certificate.

    inputs: features, float32 [k, d], or, where predictions were released, rows of the node table, int64 [k]. A label is
    the number of a class, `classes` says which; a threshold that was chosen is kept.
    """

    def __init__(self, release: Release) -> None:
        super().__init__()
        self.scorer = _scorer(release)
        self.task, self.threshold = release.method.task, release.threshold
        self.classes = release.classes
        self.ids = release.ids
        self.certificate: dict[str, Any] = release.certificate.describe()
        self.metadata = metadata(release)
        self.eval()

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Labels and probabilities."""
        scores = self.scorer(inputs)
        given = () if self.threshold is None else (self.threshold,)
        return self.task.predictions(scores, *given), self.task.probabilities(scores)

    def get_extra_state(self) -> dict[str, str]:
        """What goes with the weights in a `state_dict`: the certificate, the card, the names."""
        return self.metadata

    def set_extra_state(self, state: dict[str, str]) -> None:
        """Weights of another release are refused: their certificate is another."""
        if state != self.metadata:
            raise InvalidInput("these weights are of another release, or their certificate was altered")


def _scorer(release: Release) -> nn.Module:
    """From what a prediction reads to scores [k, c], on a copy of the weights."""
    method, reads = release.method, release.method.reads
    state: State = {name: part.detach().clone() for name, part in release.state.items()}
    if reads.stored:
        return StoredScores(method.logits(state, Tensor(), Csr.empty(0)))
    if reads is not PredictionReads.OWN_FEATURES:
        raise Unsupported(
            f"predictions of {method.name()} read {reads.value}: no module of features alone gives them. Predict here, "
            "release.predict(graph), or take a method that releases predictions or reads a node's own features"
        )
    return method.scorer(state)


def metadata(release: Release) -> dict[str, str]:
    """What travels inside every file, as text: the certificate and what is needed to read predictions."""
    said = {
        "graphveil.certificate": release.certificate.to_json(),
        "graphveil.card": release.card(),
        "graphveil.classes": json.dumps(release.classes),
        "graphveil.prediction_cost": release.prediction_cost,
        "graphveil.inputs": _inputs_in_words(release),
    }
    if release.certificate.provenance.schema:
        said["graphveil.schema"] = release.certificate.provenance.schema
    if release.threshold is not None:
        said["graphveil.threshold"] = json.dumps(asdict(release.threshold))
    if release.ids is not None:
        said["graphveil.ids"] = json.dumps(release.ids)
    return said


def _inputs_in_words(release: Release) -> str:
    if release.method.reads.stored:
        return "rows of the training's node table, counted from 0, int64 [k]"
    return "features of nodes as the training had them, after encoding, in the order of its columns, float32 [k, d]"


def _example(release: Release, count: int) -> Tensor:
    """Inputs to try a module on: made up, or rows that exist."""
    nodes, features, _ = release.certificate.provenance.sizes
    if release.method.reads.stored:
        return torch.arange(count) % nodes
    return torch.randn(count, features, generator=torch.Generator().manual_seed(0))


def export(release: Release, form: ExportForm, path: Path) -> Path:
    """Write a file that torch, or an ONNX runtime, runs without graphveil; it is tried first."""
    if path.suffix != form.suffix:
        raise InvalidInput(f"{path} must end in {form.suffix}")
    module = TorchRelease(release)
    with TemporaryDirectory() as made:
        place = Path(made) / path.name
        (_save_torch if form is ExportForm.TORCH else _save_onnx)(release, module, place)
        write_file(path, place.read_bytes())
    return path


def _save_torch(release: Release, module: TorchRelease, place: Path) -> None:
    asked = _example(release, _TRIED)
    torch.export.save(_traced(module, asked), place, extra_files=module.metadata)
    with torch.no_grad():
        _require_same(module, asked, torch.export.load(place).module()(asked), tolerance=0.0)


def _save_onnx(release: Release, module: TorchRelease, place: Path) -> None:
    try:
        import onnxruntime
        import onnxscript  # noqa: F401  # torch needs it
    except ImportError:
        raise MissingExtra("ONNX files need the extra: pip install 'graphveil[onnx]'") from None
    if sum(part.nbytes for part in module.state_dict().values() if isinstance(part, Tensor)) >= _MAX_BYTES:
        raise Unsupported("an ONNX file holds less than 2 GB of weights; export to torch")
    asked = _example(release, _TRIED)
    with _quiet():
        program = torch.onnx.export(
            _traced(module, asked),
            (asked,),
            dynamo=True,
            verbose=False,
            opset_version=OPSET,
            input_names=["inputs"],
            output_names=["labels", "probabilities"],
        )
    assert program is not None
    for node in program.model.graph.all_nodes():
        node.metadata_props.clear()
    program.model.metadata_props.update(module.metadata)
    program.save(place)
    runner = onnxruntime.InferenceSession(place.read_bytes(), providers=["CPUExecutionProvider"])
    labels, chances = map(torch.from_numpy, runner.run(None, {"inputs": asked.numpy()}))
    _require_same(module, asked, (labels, chances), tolerance=1e-4)


def _traced(module: nn.Module, asked: Tensor) -> torch.export.ExportedProgram:
    """What the module computes, for any number of rows, without a word of where its code lies on this machine."""
    with torch.no_grad():
        program = torch.export.export(module, (asked,), dynamic_shapes={"inputs": {0: torch.export.Dim("rows")}})
    for node in program.graph.nodes:
        for told in ("stack_trace", "from_node"):
            node.meta.pop(told, None)
    return program


@contextmanager
def _quiet() -> Iterator[None]:
    """Without torch's remarks on packages that are not needed."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def _require_same(module: TorchRelease, asked: Tensor, answers: tuple[Tensor, Tensor], tolerance: float) -> None:
    """What a file answers is what the release does; another label only where two chances tie within the tolerance."""
    told, told_chances = answers
    with torch.no_grad():
        labels, chances = module(asked)
    apart = (chances.gather(1, labels[:, None]) - chances.gather(1, told[:, None])).abs().flatten()
    if module.threshold is not None:
        apart = apart.minimum((chances[:, module.threshold.answer] - module.threshold.chance).abs())
    near = bool(((chances - told_chances).abs() <= tolerance).all())
    if not near or bool((apart[labels != told] > tolerance).any()):
        raise GraphveilError("the file would answer otherwise than the release, and was not written")
