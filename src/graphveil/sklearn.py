"""A node classifier with scikit-learn's interface; scikit-learn's estimator checks run in tests/test_sklearn.py."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from graphveil.checks import parse
from graphveil.data.graph import Graph
from graphveil.data.identity import digest
from graphveil.errors import InvalidInput, Unsupported
from graphveil.methods import flagship
from graphveil.methods.method import METHODS, Method, PredictionReads
from graphveil.methods.node.dpsgd import DpSgd
from graphveil.methods.node.whisper import Whisper
from graphveil.privacy.ledger import Ledger
from graphveil.run import train
from graphveil.vocabulary import UNLABELLED, Adjacency, Unit

if TYPE_CHECKING:
    from graphveil.release.release import Release

T = TypeVar("T")

_MIN = 2
"""Classes at least, and so rows."""
_READ_AS: dict[str, Any] = {"dtype": np.float32, "order": "C"}
"""What X is read as."""


class PrivateGraphClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is not typed
    """Predicts the classes of nodes, from a training that is (epsilon, delta)-differentially private for `unit`.

    X: [n, d], finite numbers, one row for each node. y: [n], a class for each node; None, NaN and -1 are none, since
    graphs are rarely labelled throughout. Every row of X is a training id. edges: [m, 2], each an undirected edge (or
    an arc, if `directed`) between two rows of X, listed once; None: no edges.

    Edges are an argument of `fit` and not of the constructor: they are private data, and what a constructor gets is
    copied by `clone`, shown by `repr` and kept in `get_params`.

    **Every fit is a release and spends epsilon again**, the fits of a cross-validation too, and so is every refit. Give
    a `ledger`, whose budget for `graph(X, y, edges)` is open, and a fit beyond it is refused before anything is read.

    method: a name, a method, or None for the flagship of the unit; at node level `dpsgd`, because every row trains and
    `whisper` classifies nodes outside training. Its predictions read the release alone, and then
    `predict` is for the rows of the training, or the queried node's own features, and then for any. seed: fixes
    everything, noise included: not for release. class_weight: "balanced" lets rare classes count as much as frequent
    ones in training; refused where the method has none.

    After a fit: `release_` (save it, look at its `certificate`), `classes_`, `n_features_in_`, `n_fits_`, and
    `feature_names_in_` where X has names: columns of other names, or in another order, are then refused.
    """

    def __init__(
        self,
        method: str | Method | None = None,
        *,
        unit: str = "edge",
        epsilon: float | None = 1.0,
        delta: float | None = None,
        noise: float | None = None,
        directed: bool = False,
        class_weight: str | None = None,
        ledger: str | os.PathLike[str] | None = None,
        seed: int | None = None,
    ) -> None:
        self.method = method
        self.unit = unit
        self.epsilon = epsilon
        self.delta = delta
        self.noise = noise
        self.directed = directed
        self.class_weight = class_weight
        self.ledger = ledger
        self.seed = seed

    def __sklearn_tags__(self) -> Any:
        """Tags that scikit-learn reads."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.seed is None
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "release_")

    # Training and predictions

    def graph(self, X: Any, y: Any, edges: Any = None) -> Graph:
        """The graph that `fit` trains on: open a budget for it with `gv.Ledger(path).open(graph, unit, ...)`."""
        return self._read(X, y, edges)[0]

    def fit(self, X: Any, y: Any, edges: Any = None) -> Self:
        """Train, and spend epsilon; a second fit spends it again, with a warning. X: [n, d]; y: [n]; edges: [m, 2]."""
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
        # How many columns there are, and what they are called.
        validate_data(self, X, skip_check_array=True)
        self._rows = "" if "x" in self._adjacency().private else digest(graph.x.numpy())
        return self

    def predict_proba(self, X: Any = None) -> NDArray[np.float64]:
        """The probability of each of `classes_`, [n, c]. Free. Without X: of the nodes of the training."""
        check_is_fitted(self)
        release = self.release_
        if X is None or release.method.reads.stored:
            if X is not None:
                self._require_same_rows(X)
            found = release.predict_proba()
        else:
            x = self._known_columns(X)
            found = release.predictions({"id": np.arange(len(x)), "x": x}).probabilities
        made: NDArray[np.float64] = found.double().numpy()
        return made

    def predict(self, X: Any = None) -> NDArray[Any]:
        """The likeliest of `classes_` for each node, [n]. Free. Without X: of the nodes of the training."""
        # First: an estimator that was not fitted has no classes.
        probabilities = self.predict_proba(X)
        made: NDArray[Any] = self.classes_[probabilities.argmax(axis=1)]
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
        made = self._named_method()
        if self.class_weight is None:
            return made
        if "class_weight" not in {item.name for item in fields(made)}:
            raise Unsupported(
                f"{made.name()} has no class weights: it learns from private labels through noise alone, and counting "
                "classes would read them once more; choose by predict_proba, say from a class's share on"
            )
        return replace(made, **{"class_weight": self.class_weight})

    def _named_method(self) -> Method:
        if isinstance(self.method, Method):
            return self.method
        unit = parse(Unit, self.unit, "unit")
        if self.method is None and unit is Unit.NODE:
            return DpSgd()
        made: Method = (flagship(unit) if self.method is None else METHODS.find(self.method))()
        return made

    def _adjacency(self) -> Adjacency:
        return Adjacency.of(self.unit, not self.directed)

    def _read(self, X: Any, y: Any, edges: Any) -> tuple[Graph, NDArray[Any]]:
        """The graph, all rows of which train, and the classes in the order of their numbers."""
        if y is None:
            raise InvalidInput(f"{type(self).__name__} requires y to be passed, but the target y is None")
        x, (labels, known) = _features(X), _labels(y)
        if len(x) < _MIN:
            raise InvalidInput(f"n_samples={len(x)}: at least {_MIN} rows are needed")
        if len(labels) != len(x):
            raise InvalidInput(f"X has {len(x)} rows and y {len(labels)}; they must agree")
        classes, codes = np.unique(labels[known], return_inverse=True)
        if len(classes) < _MIN:
            raise InvalidInput(
                f"y shows {len(classes)} class; a classifier needs at least {_MIN} classes (-1 means no label: call "
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
        x = self._known_columns(X)
        if not self._rows:
            raise Unsupported("features are private here: predict() without X is for the nodes of the training")
        if digest(x) != self._rows:
            raise Unsupported(
                f"predictions of {self.release_.method.name()} are for the rows of the training, in their order: "
                "predict() without X gives them all. For another graph use gv.infer(estimator.release_, graph, "
                "epsilon=...), which spends that graph's budget, or a method that reads a node's own features"
            )

    def _known_columns(self, X: Any) -> NDArray[np.float32]:
        """X [n, d], if its columns are those of the fit, by number, name and order."""
        made: NDArray[np.float32] = _typed(validate_data, self, X, reset=False, **_READ_AS)
        return made


def _typed(check: Callable[..., T], *given: Any, **named: Any) -> T:
    """The result of a check of scikit-learn; its errors become `InvalidInput`."""
    try:
        return check(*given, **named)
    except (TypeError, ValueError) as error:
        raise InvalidInput(str(error)) from None


def _features(X: Any) -> NDArray[np.float32]:
    """Finite numbers [n, d]."""
    made: NDArray[np.float32] = _typed(check_array, X, input_name="X", **_READ_AS)
    return made


def _labels(y: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Labels [n], and which rows have one, bool [n]."""
    array: NDArray[Any] = _typed(column_or_1d, y, warn=True)
    if array.dtype.kind == "c":
        raise InvalidInput("Complex data not supported: y must hold labels")
    if array.dtype.kind == "f":
        known = ~np.isnan(array) & (array != UNLABELLED)
        if not np.array_equal(array[known], np.round(array[known])):
            raise InvalidInput("Unknown label type: continuous numbers; labels name classes")
        return array, known
    if array.dtype.kind in "iu":
        return array, array != UNLABELLED
    if array.dtype.kind == "O":
        # First, for pandas' NA: it is equal to nothing and unequal to nothing.
        none = [type(each).__name__ == "NAType" or each is None or each != each or each == UNLABELLED for each in array]
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
