"""A classifier of nodes in the manner of scikit-learn, which is not imported: it is no dependency of graphveil.

The contract (`get_params`, `set_params`, `fit`, `predict`, `predict_proba`, `score`, attributes that end in `_`) is
scikit-learn's; its own checks of estimators run in tests/test_sklearn.py where it is installed.
"""

from __future__ import annotations

import inspect
import os
import warnings
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from graphveil import discover
from graphveil.core import UNLABELLED, Adjacency, InvalidInput, Unit, Unsupported, parse
from graphveil.graph.graph import Graph
from graphveil.graph.lineage import digest
from graphveil.methods.bases.method import Method, PredictionReads
from graphveil.methods.dpsgd import DpSgd
from graphveil.methods.whisper import Whisper
from graphveil.privacy.ledger import Ledger
from graphveil.training import train

if TYPE_CHECKING:
    from graphveil.release.release import Release

_FEWEST = 2
"""Rows to fit at least: one alone cannot have two classes."""


class PrivateGraphClassifier:
    """Predicts the classes of nodes, from a training that is (epsilon, delta)-differentially private for `unit`.

    X: [n, d], finite numbers, one row for each node. y: [n], a class for each node; None, NaN and -1 are none, since
    graphs are rarely labelled throughout. Every row of X is a training id. edges: [m, 2], each an undirected edge (or
    an arc, if `directed`) between two rows of X, listed once; None: no edges.

    Edges are an argument of `fit` and not of the constructor: they are private data, and what a constructor gets is
    copied by `clone`, shown by `repr` and kept in `get_params`.

    **Every fit is a release and spends epsilon again**, the fits of a cross-validation too, and so is every refit. Give
    a `ledger`, whose budget for `graph(X, y, edges)` is open, and a fit beyond it is refused before anything is read.

    method: a name, a method, or None for the flagship of the unit; at node level `dpsgd`, because every row trains and
    `whisper` has something to say of nodes outside training alone. Its predictions read the release alone, and then
    `predict` is for the rows of the training, or the queried node's own features, and then for any. seed: fixes
    everything, noise included: not for release.

    After a fit: `release_` (save it, look at its `certificate`), `classes_`, `n_features_in_`, `n_fits_`.
    """

    _estimator_type = "classifier"

    def __init__(
        self,
        method: str | Method | None = None,
        *,
        unit: str = "edge",
        epsilon: float | None = 1.0,
        delta: float | None = None,
        noise: float | None = None,
        directed: bool = False,
        ledger: str | os.PathLike[str] | None = None,
        seed: int | None = None,
    ) -> None:
        self.method = method
        self.unit = unit
        self.epsilon = epsilon
        self.delta = delta
        self.noise = noise
        self.directed = directed
        self.ledger = ledger
        self.seed = seed

    # Parameters

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002  # no parameter is an estimator
        """What the constructor was given, or the defaults."""
        return {name: getattr(self, name) for name in _parameters()}

    def set_params(self, **params: Any) -> Self:
        """The same estimator with other parameters."""
        for name, value in params.items():
            if name not in _parameters():
                raise InvalidInput(f"invalid parameter {name!r}; valid parameters are: {', '.join(_parameters())}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        changed = {name: value for name, value in self.get_params().items() if value != _parameters()[name]}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn, which asks, is to know."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(),
            non_deterministic=self.seed is None,
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "release_")

    # Training and predictions

    def graph(self, X: Any, y: Any, edges: Any = None) -> Graph:
        """The graph that `fit` trains on: open a budget for it with `gv.Ledger(path).open(graph, unit, ...)`."""
        return self._read(X, y, edges)[0]

    def fit(self, X: Any, y: Any, edges: Any = None) -> Self:
        """Train, and spend epsilon; a second fit spends it again, and says so. X: [n, d]; y: [n]; edges: [m, 2]."""
        method = self._made_method()
        if isinstance(method, Whisper):
            raise Unsupported(
                "every row of X trains, and whisper names the largest class for all of them; use gv.train"
            )
        if method.reads not in (PredictionReads.RELEASED, PredictionReads.OWN_FEATURES):
            raise Unsupported(
                f"predictions of {method.name()} read {method.reads.value}, which predict(X) has not; use gv.train"
            )
        graph, classes = self._read(X, y, edges)
        fits = getattr(self, "n_fits_", 0) + 1
        if fits > 1:
            counted = "the ledger counts it" if self.ledger is not None else "no ledger counts it: give ledger="
            warnings.warn(
                f"fit number {fits} of this estimator: every fit is a release and spends its epsilon in addition to "
                f"the earlier ones; {counted}",
                stacklevel=2,
            )
        # Counted before it is spent: a fit that fails midway may have spent.
        self.n_fits_ = fits
        self.release_: Release = train(
            graph,
            method,
            unit=self.unit,
            epsilon=self.epsilon if self.noise is None else None,
            delta=self.delta,
            noise=self.noise,
            seed=self.seed,
            ledger=None if self.ledger is None else Ledger(self.ledger),
        )
        self.classes_ = classes
        self.n_features_in_ = graph.num_features
        self._rows = "" if "x" in self._adjacency().private else digest(graph.x.numpy())
        return self

    def predict_proba(self, X: Any = None) -> NDArray[np.float64]:
        """The chance of each of `classes_`, [n, c]. Free. Without X: of the nodes of the training."""
        if not hasattr(self, "release_"):
            raise _unfitted(self)
        release = self.release_
        if X is None or release.method.reads.stored:
            if X is not None:
                self._require_same_rows(X)
            found = release.predict_proba()
        else:
            x = self._require_width(_features(X))
            found = release.predictions({"id": np.arange(len(x)), "x": x}).probabilities
        made: NDArray[np.float64] = found.double().numpy()
        return made

    def predict(self, X: Any = None) -> NDArray[Any]:
        """The likeliest of `classes_` for each node, [n]. Free. Without X: of the nodes of the training."""
        # First: an estimator that was not fitted has no classes.
        chances = self.predict_proba(X)
        made: NDArray[Any] = self.classes_[chances.argmax(axis=1)]
        return made

    def score(self, X: Any, y: Any) -> float:
        """Accuracy over the nodes that have a label.

        Under node, features and label it is a statistic of private labels that no certificate covers.
        """
        found, (labels, known) = self.predict(X), _labels(y)
        if len(labels) != len(found) or not known.any():
            raise InvalidInput(f"y has {len(labels)} entries, {known.sum()} of them labels, for {len(found)} nodes")
        return float(np.mean(found[known] == labels[known]))

    def _made_method(self) -> Method:
        if isinstance(self.method, Method):
            return self.method
        unit = parse(Unit, self.unit, "unit")
        if self.method is None and unit is Unit.NODE:
            return DpSgd()
        made: Method = (discover.flagship(unit) if self.method is None else discover.method(self.method))()
        return made

    def _adjacency(self) -> Adjacency:
        return Adjacency.of(self.unit, not self.directed)

    def _read(self, X: Any, y: Any, edges: Any) -> tuple[Graph, NDArray[Any]]:
        """The graph, all rows of which train, and the classes in the order of their numbers."""
        if y is None:
            raise InvalidInput(f"{type(self).__name__} requires y to be passed, but the target y is None")
        x, (labels, known) = _features(X), _labels(y)
        if len(x) < _FEWEST:
            raise InvalidInput(f"n_samples={len(x)}: at least {_FEWEST} rows are needed")
        if len(labels) != len(x):
            raise InvalidInput(f"X has {len(x)} rows and y {len(labels)}; they must agree")
        classes, codes = np.unique(labels[known], return_inverse=True)
        if len(classes) < _FEWEST:
            raise InvalidInput(
                f"y shows {len(classes)} class; a classifier needs at least {_FEWEST} classes (-1 means no label: call "
                "the classes 0 and 1)"
            )
        numbers = np.full(len(x), UNLABELLED)
        numbers[known] = codes
        graph = Graph.from_edges(
            None if edges is None else _pairs(edges),
            {"id": np.arange(len(x)), "label": numbers, "x": x},
            undirected=not self.directed,
            classes=range(len(classes)),
        )
        everybody, nobody = graph.y >= UNLABELLED, graph.y < UNLABELLED
        return graph.with_split(everybody, nobody, nobody, "all train"), classes

    def _require_same_rows(self, X: Any) -> None:
        """Predictions that were released for the training's nodes are for no others, nor in another order."""
        x = self._require_width(_features(X))
        if not self._rows:
            raise Unsupported("features are private here: predict() without X is for the nodes of the training")
        if digest(x) != self._rows:
            raise Unsupported(
                f"predictions of {self.release_.method.name()} are for the rows of the training, in their order: "
                "predict() without X gives them all. For another graph use gv.infer(estimator.release_, graph, "
                "epsilon=...), which spends that graph's budget, or a method that reads a node's own features"
            )

    def _require_width(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        if x.shape[1] != self.n_features_in_:
            raise InvalidInput(
                f"X has {x.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features "
                "as input"
            )
        return x


def _parameters() -> dict[str, Any]:
    """The constructor's parameters and their defaults."""
    shown = inspect.signature(PrivateGraphClassifier).parameters
    return {name: parameter.default for name, parameter in shown.items()}


def _features(X: Any) -> NDArray[np.float32]:
    """Finite numbers [n, d]."""
    if hasattr(X, "toarray") or hasattr(X, "todense"):
        raise InvalidInput("sparse X is not read; give X.toarray()")
    array = np.asarray(X)
    if array.dtype.kind == "c":
        raise InvalidInput("Complex data not supported: X must hold real numbers")
    if array.ndim != 2:
        raise InvalidInput(f"Expected 2D array, got {array.ndim}D array instead: Reshape your data to [n, d]")
    for what, size in zip(("sample", "feature"), array.shape, strict=True):
        if not size:
            raise InvalidInput(f"X has 0 {what}(s) (shape={array.shape}) while a minimum of 1 is required.")
    try:
        made = np.ascontiguousarray(array, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"X must hold numbers: {error}") from None
    if not np.isfinite(made).all():
        raise InvalidInput("X holds NaN or infinity (inf), or numbers beyond single precision; fill or scale them")
    return made


def _labels(y: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Labels [n], and which of them are there, bool [n]."""
    array = np.asarray(y)
    if array.ndim == 2 and array.shape[1] == 1:
        warnings.warn("y is a column-vector; a vector [n] was expected", stacklevel=4)
        array = array[:, 0]
    if array.ndim != 1 or array.dtype.kind == "c":
        raise InvalidInput(f"y must be a vector of labels [n], got {array.dtype} of shape {array.shape}")
    if array.dtype.kind == "f":
        known = ~np.isnan(array) & (array != UNLABELLED)
        if not np.array_equal(array[known], np.round(array[known])):
            raise InvalidInput("Unknown label type: continuous numbers; labels name classes")
        return array, known
    if array.dtype.kind in "iu":
        return array, array != UNLABELLED
    if array.dtype.kind == "O":
        none = [each is None or each != each or each == UNLABELLED or type(each).__name__ == "NAType" for each in array]
        return array, ~np.array(none, dtype=bool)
    return array, np.ones(len(array), dtype=bool)


def _pairs(edges: Any) -> NDArray[np.int64]:
    """Pairs of rows, int64 [m, 2]."""
    array = np.asarray(edges)
    if array.dtype.kind not in "iu" or array.ndim != 2 or array.shape[1] != 2:
        raise InvalidInput(
            f"edges must be whole numbers [m, 2], pairs of rows of X; got {array.dtype} of shape {array.shape}; of "
            "PyG's edge_index give the transpose, each edge once"
        )
    return array.astype(np.int64)


def _unfitted(estimator: Any) -> Exception:
    """scikit-learn's own error where it is installed."""
    said = f"This {type(estimator).__name__} instance is not fitted yet; call fit first"
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        return InvalidInput(said)
    made: Exception = NotFittedError(said)
    return made
