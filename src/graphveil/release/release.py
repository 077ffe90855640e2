"""A trained model with its certificate, saved together or not at all."""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor
from torch.nn.modules.module import register_module_parameter_registration_hook

from graphveil import plugins
from graphveil.checks import is_number, parse, quoted
from graphveil.codec import rounded
from graphveil.data.arcs import Csr
from graphveil.data.graph import Graph
from graphveil.data.identity import ids_digest, names_digest
from graphveil.data.schema import Schema, listed
from graphveil.errors import InvalidInput, MissingExtra, Tampered, Unsupported
from graphveil.methods.described import foreign, rebuild_method
from graphveil.methods.method import Method
from graphveil.nn.own_network import Make, OwnNetwork, registered_network
from graphveil.release import serving
from graphveil.release.audit_result import AuditResult
from graphveil.release.card import require_card
from graphveil.release.certificate import SCHEMA, Certificate
from graphveil.release.predictions import Predictions
from graphveil.release.statement import power
from graphveil.runtime.folders import CARD, MANIFEST, Body, read_public, require_only, write_public
from graphveil.runtime.html import facts
from graphveil.runtime.safe_json import parse_json, plain_json, require_agreement
from graphveil.tasks.task import Threshold
from graphveil.vocabulary import ROLES, Plan, State

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from graphveil.data.tables import Table
    from graphveil.release.export import TorchRelease

_FILES = ("release.json", "weights.safetensors", CARD)
_AUDIT = "audit.json"
"""There if the release was audited."""
_IDS = "ids.jsonl"
"""There if the ids of the nodes were kept: one of them in every line, as JSON."""
_OPTIONAL = (_AUDIT, _IDS)

_SMALL = 1 << 28
"""Bytes of numbers that may be copied to be saved."""


@dataclass(frozen=True, repr=False)
class Release:
    """A trained model with its certificate. An uncertified model has no type."""

    method: Method
    state: State
    certificate: Certificate
    _graph: Graph | None = field(default=None, repr=False, compare=False)
    audit: AuditResult | None = None
    """What an audit of the same plan found; see `graphveil.audit`."""
    threshold: Threshold | None = None
    """From which chance on a class is named; see `with_threshold`."""
    ids: tuple[str, ...] | None = None
    """The ids of the nodes in their order, where they were kept; see `with_ids`."""

    def __post_init__(self) -> None:
        self._check_names()
        if self.audit is None:
            return
        same = math.isclose(self.audit.claimed, self.certificate.plan_epsilon, rel_tol=1e-6)
        if not same or self.audit.delta != self.certificate.delta:
            raise InvalidInput("the audit is of another claim than the certificate's")
        if self.audit.subject != audited(self.method, self.certificate.plan):
            raise InvalidInput(
                "the audit is of another method or plan than the release's, or was made on the graph itself; "
                "graphveil.audit(folder, graph) makes one that may go into a release"
            )

    def _check_names(self) -> None:
        if self.ids is not None and names_digest(self.ids) != self.certificate.provenance.ids_digest:
            raise InvalidInput("the ids are not those of the run, in their order")
        if self.threshold is None:
            return
        if not 0 <= self.threshold.answer < len(self.classes):
            raise InvalidInput(f"the threshold is of class {self.threshold.answer}, and there are {len(self.classes)}")
        if not (is_number(self.threshold.chance) and 0 < self.threshold.chance <= 1):
            raise InvalidInput(f"a threshold is a chance above 0 and at most 1, got {quoted(self.threshold.chance)}")

    def __getstate__(self) -> dict[str, Any]:
        """For pickles and copies: the private graph stays behind, and so does memory that a tensor is a view of."""
        kept = {**self.__dict__, "_graph": None}
        return {**kept, "state": {name: part.detach().clone() for name, part in self.state.items()}}

    def __repr__(self) -> str:
        spent = rounded(self.certificate.epsilon, places=4)
        weights = sum(part.numel() for part in self.state.values())
        return (
            f"Release({self.method.name()} on {self.certificate.provenance.dataset!r}, epsilon {spent} at delta "
            f"{self.certificate.delta:.3g}, {self.certificate.plan.adjacency}, {weights:,} numbers)"
        )

    def _repr_html_(self) -> str:
        rows = [*self.certificate.facts(), ("method", self.method), ("classes", ", ".join(self.classes))]
        return facts(
            f"Release of {self.method.name()}",
            [*rows, ("predictions", self.prediction_cost)],
            self.certificate.statement,
        )

    def plot(self, axes: Axes | None = None) -> Axes:
        """What the best attacker can reach: TPR against FPR, beside a guess. Needs matplotlib; gives its axes."""
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise MissingExtra(
                "matplotlib is not installed; install it, or use `graphveil card --format html`, which draws the same"
            ) from None
        drawn = plt.subplots(figsize=(4.5, 4.5))[1] if axes is None else axes
        stated = self.certificate.statements[0]
        wrongly, rightly = zip(*power(stated.epsilon, stated.delta), strict=True)
        drawn.fill_between(wrongly, rightly, alpha=0.15)
        drawn.plot(wrongly, rightly, label=f"at most, epsilon {rounded(stated.epsilon)}")
        drawn.plot([0, 1], [0, 1], linestyle=":", color="grey", label="a guess")
        drawn.set(xlabel="share accused wrongly", ylabel="share accused rightly")
        drawn.set(xlim=(0, 1), ylim=(0, 1), title=f"{self.method.name()}: {stated.secret}?")
        drawn.legend(loc="lower right")
        return drawn

    def card(self) -> str:
        """The certificate in words, and what an audit found."""
        if self.audit is None:
            return self.certificate.card()
        found = self.audit
        share = f"{100 * found.confidence:.6g} % confidence over {found.runs} runs"
        above = rounded(found.lower, up=False, places=4, infinite="every number")
        lines = (
            f"  audited     epsilon is above {above} with {share}: {found.verdict}",
            f"  by          {found.attack}",
            "  of          the same plan, run again with other noise on a stand-in for the graph, made of public parts",
        )
        return "\n".join([self.certificate.card(), *lines])

    @property
    def schema(self) -> Schema | None:
        """The names of columns and classes, and how cells became numbers; None where the training knew none."""
        return self.certificate.schema

    @property
    def classes(self) -> tuple[str, ...]:
        """What classes are called, in the order of their ids: by their numbers where the training knew no names."""
        if self.schema is not None:
            return self.schema.classes
        return tuple(map(str, range(self.certificate.provenance.sizes[2])))

    def with_threshold(self, label: str, chance: float) -> Release:
        """The same release, which names the class `label` where its chance is at least `chance`.

        Elsewhere it names the likeliest of the other classes. A threshold that was chosen by looking at private labels
        tells something about them that no certificate covers.
        """
        if label not in self.classes:
            raise InvalidInput(f"a threshold is for a class, {listed(self.classes)}; got {label!r}")
        return replace(self, threshold=Threshold(self.classes.index(label), float(chance)))

    def with_ids(self) -> Release:
        """The same release with the ids of its nodes, which the folder then shows to whoever gets it."""
        if not self.method.reads.stored:
            raise Unsupported(
                f"predictions of {self.method.name()} read {self.method.reads.value}: the ids come with the node table "
                "that is given to predict, and need not be kept"
            )
        if self._graph is None or self._graph.ids is None:
            raise InvalidInput("ids are kept of a graph that was read from tables, before the release is saved")
        return replace(self, ids=tuple(self._graph.ids.to_pylist()))

    @property
    def prediction_cost(self) -> str:
        """What `predict` reads and what that costs."""
        return serving.cost(self.method, self.certificate)

    def predict_proba(self, graph: Graph | None = None) -> Tensor:
        """Class probabilities [n, c]; see `predict`."""
        return self.method.task.probabilities(self._scores(graph))

    def predict(self, graph: Graph | None = None) -> Tensor:
        """Predicted class of every node, int64 [n]. Free: see `prediction_cost`.

        Without `graph`, the training graph's nodes. A method whose predictions read private edges released them
        for the training graph; another graph needs `graphveil.infer`, which charges that graph's budget. A method that
        learns from a public graph labels the nodes of the public graph beside `graph`, or of a public `graph`.
        """
        return self._decided(self._scores(graph))

    def predictions(self, nodes: Graph | str | os.PathLike[str] | Table | Any | None = None) -> Predictions:
        """The same with ids and names of classes, for people: as CSV, JSON or a data frame.

        nodes: a graph as in `predict`, or a node table alone, by a file or as a data frame: whoever has no edges gets
        predictions too. Without, those of the training's nodes; a release from disk knows their ids if they were kept.
        """
        if nodes is None or isinstance(nodes, Graph):
            known = self._matched(nodes)
            scores = serving.scores(self.method, self.state, self.certificate, known, self._graph)
            whole = known if known is not None else self._graph
            subject = (
                None if whole is None else serving.predicted_graph(self.method, self.certificate, whole, self._graph)
            )
            ids = self.ids if subject is None or subject.ids is None else subject.ids.to_pylist()
        else:
            ids, scores = serving.scored_table(self.method, self.state, self.certificate, nodes)
        classes = self.classes
        labels = [classes[answer] for answer in self._decided(scores).tolist()]
        return Predictions(ids, labels, self.method.task.probabilities(scores), classes)

    def _decided(self, scores: Tensor) -> Tensor:
        """The predicted classes, int64 [n]."""
        task = self.method.task
        return task.predictions(scores) if self.threshold is None else task.predictions(scores, self.threshold)

    def _scores(self, graph: Graph | None) -> Tensor:
        return serving.scores(self.method, self.state, self.certificate, self._matched(graph), self._graph)

    def _matched(self, graph: Graph | None) -> Graph | None:
        """`graph` by the names of this release; the graph of the training as it is."""
        if graph is None or graph is self._graph:
            return graph
        origin, known = self.certificate.provenance, serving.matched(self.certificate, graph)
        # By another name training nodes would pass for nodes outside training, which are read for free.
        same = self.method.reads.outside_training and origin.ids_digest == ids_digest(known) != ""
        return replace(known, name=origin.dataset) if same else known

    def evaluate(self, part: str = "test", graph: Graph | None = None) -> dict[str, Any]:
        """What the task measures, say accuracy and macro F1, on "train", "val" or "test". For the data holder's eyes.

        Of classes also balanced accuracy, AUC, average precision, the share of the largest class, precision and recall
        of every class in the order of `classes`, and the confusion matrix.

        Under NODE, FEATURES and LABEL the scores are statistics of private labels that no certificate covers, unless
        the nodes are those of a public graph.
        """
        subject = self._matched(graph) if graph is not None else self._graph
        if subject is None:
            raise InvalidInput("this release was loaded from disk; call evaluate(part, graph)")
        if part not in ROLES:
            raise InvalidInput(f"unknown part {part!r}; use one of: {', '.join(ROLES)}")
        whole = subject
        subject = serving.predicted_graph(self.method, self.certificate, subject, self._graph)
        mask = subject.labelled(part)
        if not bool(mask.any()):
            raise InvalidInput(f"the graph has no {part} nodes with a label; split it first, e.g. graph.random_split()")
        scores = serving.scores(self.method, self.state, self.certificate, whole, self._graph)
        given = () if self.threshold is None else (self.threshold,)
        return self.method.task.judge(scores[mask.cpu()], subject.y[mask].cpu(), subject.sizes, *given)

    def to_torch(self) -> TorchRelease:
        """The model as a module of torch: (labels, probabilities) = module(inputs), bit for bit as `predict`.

        `.certificate` goes with it, and with its `state_dict`. inputs: features [k, d], or rows of the node table where
        predictions were released. Training it further on private data is covered by no certificate.
        """
        from graphveil.release.export import TorchRelease

        return TorchRelease(self)

    def export(self, form: str, path: str | os.PathLike[str]) -> Path:
        """Write the model to a file, "torch" (.pt2) or "onnx", that runs without graphveil; the certificate is inside.

        For predictions that were released, or that read a node's own features; others read a graph, and are refused.
        """
        from graphveil.release.export import ExportForm, export

        return export(self, parse(ExportForm, form, "form"), Path(path))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the release folder: weights, method and certificate, sealed by content hashes.

        A save that fails leaves what was there, and this release as it is: save it elsewhere.
        """
        target = Path(path)
        require_finite(self.method, self.state)
        contents: dict[str, bytes | Body] = {
            "release.json": json.dumps(self._describe(), indent=2).encode(),
            "weights.safetensors": _saved({name: part.cpu().contiguous() for name, part in self.state.items()}),
            CARD: (self.card() + "\n").encode(),
        }
        if self.audit is not None:
            contents[_AUDIT] = json.dumps({"schema": SCHEMA, **self.audit.describe()}, indent=2).encode()
        if self.ids is not None:
            contents[_IDS] = "".join(json.dumps(each) + "\n" for each in self.ids).encode()
        write_public(target, contents, SCHEMA, require_replaceable)
        return target

    def _describe(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "method": self.method.describe(),
            "certificate": self.certificate.describe(),
            **self._stated(),
        }

    def _stated(self) -> dict[str, Any]:
        """What was chosen for predictions."""
        return {} if self.threshold is None else {"threshold": asdict(self.threshold)}


def _saved(state: State) -> Body:
    """What safetensors would save, in pieces: numbers of which there are many are not copied together."""
    if sum(part.nbytes for part in state.values()) <= _SMALL:
        return (save_tensors(dict(state)),)
    # Entries of the same shape without numbers give the library's own header, but for where parts begin and end.
    header = json.loads(save_tensors({name: part.new_empty(0) for name, part in state.items()})[8:])
    at, pieces = 0, []
    for name, said in header.items():
        part = state[name]
        said["shape"], said["data_offsets"] = list(part.shape), [at, at + part.nbytes]
        at += part.nbytes
        pieces.append(part.flatten().view(torch.uint8).numpy().data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, *pieces


def require_finite(method: Method, state: State) -> None:
    """Refuse to certify what is no model: its predictions would be NaN, and nobody would know why."""
    if broken := nonfinite(state):
        raise Unsupported(
            f"{method.name()} ended in numbers that are not finite ({', '.join(broken)}): training diverged, so there "
            "is no model to release. Take a smaller learning rate or less noise, or scale the features"
        )


def nonfinite(state: State) -> list[str]:
    """The names of the parts that hold NaN or infinity."""
    return [name for name, part in state.items() if part.is_floating_point() and not bool(part.isfinite().all())]


def audited(method: Method, plan: Plan) -> str:
    """SHA-256 of what an audit is about."""
    said = json.dumps({"method": method.describe(), "plan": plan.describe()}, sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


def load(path: str | os.PathLike[str], network: Make | Mapping[str, Make] | None = None) -> Release:
    """Read a release folder, checking every hash and the certificate's arithmetic. Executes no code from it.

    network: the class, or function, of a release that was trained with a module of somebody's own (`OwnNetwork`); where
    `best` chose among several such modules, {name: class}. One that an installed distribution registers (entry points
    `graphveil.networks`) is found by itself; without either the card can be read and nothing predicted.
    """
    folder = Path(path)
    try:
        contents = read_public(folder, _FILES, SCHEMA, optional=_OPTIONAL)
    except Tampered as error:
        if not os.path.lexists(folder / "graph.json"):
            raise
        raise Tampered(f"{folder} holds a released graph and no model; read it with gv.ReleasedEdges.load") from error
    described = parse_json(contents["release.json"], SCHEMA)
    try:
        method = rebuild_method(described["method"])
        certificate = Certificate.rebuild(described["certificate"])
    except (KeyError, TypeError) as error:
        raise Tampered(f"{folder} is incomplete: {error!r}") from error
    _note_other_code(method, certificate)
    if rebuild_method(plain_json(certificate.provenance.method)) != method:
        raise Tampered(f"{folder} is of {method.name()}, and its certificate of another method or other settings")
    require_assumed(method, certificate)
    method = _with_networks(method, network)
    state = _weights(contents["weights.safetensors"])
    if broken := nonfinite(state):
        raise Tampered(f"{folder} holds weights that are not finite: {', '.join(broken)}")
    _require_speaking(method, state, certificate.provenance.sizes)
    try:
        made = Release(
            method,
            state,
            certificate,
            audit=_finding(contents.get(_AUDIT)),
            threshold=_threshold(described.get("threshold")),
            ids=_ids(contents.get(_IDS)),
        )
    except (InvalidInput, ValueError, TypeError, KeyError, RecursionError) as error:
        raise Tampered(f"{folder} was altered, its audit, ids or threshold: {error}") from error
    require_agreement(described, made._describe(), f"{folder / 'release.json'}")
    require_card(contents[CARD], made.card())
    return made


def _note_other_code(method: Method, certificate: Certificate) -> None:
    """Say so where a method of others is read by another class than made it, which may have moved or be a namesake."""
    told = certificate.provenance.others
    strange = [name for name in map(plugins.reference_to, foreign((method,))) if name not in told]
    if strange:
        warnings.warn(
            f"this release was made by {told} and is read by {', '.join(strange)}, of that name", stacklevel=4
        )


def has_code(method: Method) -> bool:
    """Whether the method can compute: a network of somebody's own is known by name alone until its class is given."""
    return all(own.make is not None for own in method.networks())


def _with_networks(method: Method, given: Make | Mapping[str, Make] | None) -> Method:
    """The method with the code of its own networks: what the caller gives, or what is installed under their names.

    A file chooses among what was installed to be found, and no more: whatever else it names is not imported.
    """
    names = sorted({own.name for own in method.networks()})
    if given is not None and not names:
        raise InvalidInput(f"this release of {method.name()} has no network of somebody's own; leave `network` out")
    if given is not None and not isinstance(given, Mapping):
        if len(names) > 1:
            raise InvalidInput(f"this release has the networks {', '.join(names)}: give network={{name: class, ...}}")
        given = {names[0]: given}
    if strange := sorted(set(given or ()) - set(names)):
        raise InvalidInput(f"this release has no network {strange[0]!r}; it has: {', '.join(names)}")

    def known(own: OwnNetwork) -> OwnNetwork:
        make = (given or {}).get(own.name) or registered_network(own.name)
        return own if make is None else own.given(make)

    return method.with_networks(known)


def require_assumed(method: Method, certificate: Certificate) -> None:
    """The certificate says what every plan of the method assumes, and so do those that it descends from."""
    earlier = ((rebuild_method(plain_json(one.provenance.method)), one) for one in certificate.ancestry[1:])
    for made, one in ((method, certificate), *earlier):
        for plan in filter(None, (one.plan, one.sound)):
            if plan.steps and (missing := [item for item in made.standing() if item not in plan.assumes]):
                raise Tampered(f"the certificate of {made.name()} was altered, it does not say: {missing[0]}")


def _weights(body: bytes) -> State:
    try:
        return load_tensors(body)
    # Whatever breaks, the file did it: the library and torch raise several kinds.
    except Exception as error:
        raise Tampered(f"weights.safetensors was altered: {error!r}") from error


def _require_speaking(method: Method, state: State, sizes: tuple[int, ...]) -> None:
    """The weights are those of the method: it scores nodes with them, with as many numbers as its task needs."""
    if not (method.reads.stored or has_code(method)):
        return
    nodes, features, _ = sizes
    wanted = (nodes if method.reads.stored else 2, method.task.width(sizes))
    try:
        with torch.no_grad(), no_more_weights_than(state):
            scores = method.logits(state, torch.zeros(2, features), Csr.empty(2))
    except Exception as error:  # whatever breaks, the weights did it: the same method spoke when it was saved
        raise Tampered(f"the weights are not those of {method.name()}: {type(error).__name__}: {error}") from None
    if scores.shape != wanted or not scores.is_floating_point():
        raise Tampered(f"the weights of {method.name()} give scores {list(scores.shape)}, not {list(wanted)}")


@contextmanager
def no_more_weights_than(state: State) -> Iterator[None]:
    """Networks that are built inside hold no more than the file does: hyper-parameters from a file may say anything."""
    left, here = sum(part.numel() for part in state.values()), threading.get_ident()

    def count(_: torch.nn.Module, __: str, weights: torch.nn.Parameter | None) -> None:
        nonlocal left
        if weights is not None and threading.get_ident() == here:
            left -= weights.numel()
            if left < 0:
                raise Tampered("the method is larger than its weights")

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


def _threshold(said: Any) -> Threshold | None:
    if said is None:
        return None
    if type(said["answer"]) is not int or type(said["chance"]) is not float:
        raise TypeError(f"the threshold {said!r}")
    return Threshold(**said)


def _ids(body: bytes | None) -> tuple[str, ...] | None:
    """One text in every line; that they are those of the run is checked by `Release`."""
    if body is None:
        return None
    found = tuple(map(json.loads, body.decode().splitlines()))
    for each in found:
        if not isinstance(each, str):
            raise TypeError(f"the id {each!r}")
    return found


def _finding(body: bytes | None) -> AuditResult | None:
    if body is None:
        return None
    described = parse_json(body, SCHEMA)
    found = AuditResult.rebuild(described)
    require_agreement(described, {"schema": SCHEMA, **found.describe()}, _AUDIT)
    return found


def require_replaceable(path: Path) -> None:
    """`path` is free, an empty folder, or holds exactly a release: saving there loses nothing else."""
    require_only(path, (*_FILES, MANIFEST), "a release folder", optional=_OPTIONAL)
