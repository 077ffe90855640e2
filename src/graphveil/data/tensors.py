"""Arguments from PyG, numpy, scipy and networkx as plain tensors and arcs, or a clear error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphveil.data.arcs import Arcs, arcs_of
from graphveil.errors import InvalidInput, MissingExtra
from graphveil.vocabulary import UNLABELLED

if TYPE_CHECKING:
    import networkx


SHORT = (torch.bfloat16, torch.float16)
"""Types of features beside float32, with half the memory."""


def check_tensor(tensor: Tensor, what: str, dtype: torch.dtype, dims: int) -> None:
    if not isinstance(tensor, Tensor):
        raise InvalidInput(f"{what} must be a torch tensor, got {type(tensor).__name__}")
    if tensor.dtype != dtype or tensor.dim() != dims:
        raise InvalidInput(f"{what} must be {dtype} with {dims} dimension(s), got {tensor.dtype} {list(tensor.shape)}")
    if tensor.device.type not in ("cpu", "cuda") or tensor.requires_grad or not tensor.is_contiguous():
        raise InvalidInput(f"{what} must be contiguous, on a CPU or CUDA, and without gradient; detach and copy it")


def as_tensor(value: Any, what: str) -> Tensor:
    """The values as a plain tensor on their device: dense, without gradient or lazy signs."""
    try:
        given = value if isinstance(value, Tensor) else torch.from_numpy(_native(value))
        kinds = {
            "quantised": given.is_quantized,
            "without values (device meta)": given.is_meta,
            "sparse or nested": given.is_nested or given.layout != torch.strided,
        }
        unsupported = [kind for kind, found in kinds.items() if found]
        if not unsupported:
            here = given if given.device.type in ("cpu", "cuda") else given.cpu()
            return here.detach().as_subclass(Tensor).resolve_conj().resolve_neg()
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidInput(f"{what} must be numeric: {error}") from None
    raise InvalidInput(f"{what} is {unsupported[0]}; make it a plain dense tensor, with dequantize() or to_dense() say")


def _native(value: Any) -> NDArray[Any]:
    """A copy in the machine's own byte order."""
    if np.ma.isMaskedArray(value):
        raise InvalidInput("masked arrays are not read; fill what is masked, or drop it")
    array = np.array(value, order="C")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _cast(tensor: Tensor, dtype: torch.dtype, what: str) -> Tensor:
    """The same numbers in another type, contiguous in memory."""
    try:
        made = tensor.to(dtype).contiguous()
        made[:0].cpu().float().numpy()  # Fake and functional tensors have no memory to read.
        return made
    except (TypeError, RuntimeError) as error:
        raise InvalidInput(f"{what} cannot be read as {dtype}: {error}") from None


def is_pyg(value: Any) -> bool:
    """Whether it is data of PyTorch Geometric, which is not imported to find out: training needs none of it."""
    return any(kind.__module__.startswith("torch_geometric.data") for kind in type(value).__mro__)


def real_features(value: Any) -> Tensor:
    """Real numbers [n, d] as float32, or as the shorter floats that they are."""
    tensor = as_tensor(value, "x")
    if tensor.is_complex() or tensor.dim() != 2:
        raise InvalidInput(f"x must be real numbers of shape [n, d], got {tensor.dtype} {list(tensor.shape)}")
    return _cast(tensor, tensor.dtype if tensor.dtype in SHORT else torch.float32, "x")


def class_ids(value: Any) -> Tensor:
    """Class ids [n] as int64. As in tables, whole numbers in floats are labels, and NaN is none."""
    tensor = as_tensor(value, "y")
    if tensor.is_complex() or tensor.dim() != 1:
        cure = "flatten it" if tensor.dim() != 2 or tensor.shape[1] == 1 else "take argmax(1) if it is one-hot"
        raise InvalidInput(
            f"y must hold integer class ids of shape [n], got {tensor.dtype} {list(tensor.shape)}; {cure}"
        )
    y = _cast(_whole_numbers(tensor) if tensor.is_floating_point() else tensor, torch.int64, "y")
    if not tensor.dtype.is_signed and bool((y < 0).any()):
        raise InvalidInput(f"y row {int((y < 0).nonzero()[0])} is beyond 64-bit integers; number the classes 0, 1, ...")
    return y


def _whole_numbers(y: Tensor) -> Tensor:
    """Floats [n] as doubles that are whole, -1 where there is NaN; doubles hold each of them up to 2^53."""
    wide = _cast(y, torch.float64, "y")
    filled = torch.where(wide.isnan(), float(UNLABELLED), wide)
    broken = ((filled != filled.round()) | (filled.abs() > 2**53)).nonzero()
    if len(broken):
        row = int(broken[0])
        raise InvalidInput(
            f"y row {row} is {filled[row].item()}, no whole number; labels name classes: number them 0, 1, ..., with "
            "-1 or NaN for no label"
        )
    return filled


def role_mask(value: Any, role: str) -> Tensor:
    """Which nodes play a role, bool [n]."""
    mask = as_tensor(value, f"the {role} mask")
    if mask.dim() == 2:
        raise InvalidInput(f"the {role} mask holds {mask.shape[1]} splits; keep one, say {role}_mask[:, 0]")
    if mask.dtype != torch.bool:
        raise InvalidInput(f"the {role} mask must be bool, got {mask.dtype}; convert 0 and 1 with .bool()")
    return _cast(mask, torch.bool, f"the {role} mask")


def degree_bounds(value: Any, num_nodes: int) -> NDArray[np.int64]:
    """Whole numbers, one for every node or one for all, as int64 [n]."""
    try:
        given = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidInput(f"the degrees must be whole numbers, one for every id or one for all: {error}") from None
    if given.dtype.kind not in "iu" or given.ndim > 1 or (given.size and int(given.max()) > np.iinfo(np.int64).max):
        raise InvalidInput("the degrees must be whole numbers, one for every id or one for all")
    return np.full(num_nodes, given, np.int64) if given.ndim == 0 else given.astype(np.int64)


def count_classes(y: Tensor) -> int:
    """How many classes the labels show: the largest plus one, all of them there; none in a graph without labels."""
    shown = torch.unique(y[y >= 0]).cpu().numpy()
    gaps = np.flatnonzero(shown != np.arange(len(shown)))
    if len(gaps):
        raise InvalidInput(f"class {int(gaps[0])} has no node; number the classes 0, 1, ... without gaps")
    return len(shown)


def edge_index_arcs(edge_index: Tensor, num_nodes: int) -> Arcs:
    """PyG's [2, m] as arcs with known ends."""
    pairs = as_tensor(edge_index, "edge_index")
    if pairs.dim() != 2 or pairs.shape[0] != 2:
        raise InvalidInput(f"edge_index must have shape [2, m], got {list(pairs.shape)}")
    if pairs.is_floating_point() or pairs.is_complex() or pairs.dtype == torch.bool:
        raise InvalidInput(f"edge_index must hold integer ids, got {pairs.dtype}")
    pairs = _cast(pairs.cpu(), torch.int64, "edge_index")
    arcs = arcs_of(pairs[0].numpy(), pairs[1].numpy(), num_nodes, "edge_index column")
    arcs.require_known_ids()
    return arcs


def matrix_arcs(adjacency: Any, num_nodes: int, clean: bool) -> Arcs:
    """The entries of a sparse matrix as arcs; weights are refused unless cleaned away."""
    if not sp.issparse(adjacency):
        raise InvalidInput(f"adjacency must be a scipy sparse matrix, got {type(adjacency).__name__}")
    if adjacency.shape != (num_nodes, num_nodes):
        raise InvalidInput(f"adjacency is {adjacency.shape}, but x has {num_nodes} rows; they must agree")
    if adjacency.dtype.kind not in "biuf":
        raise InvalidInput(f"adjacency must hold real numbers, got {adjacency.dtype}")
    given = adjacency.tocoo()
    # A copy in doubles: a sum of parallel entries must not wrap round to zero, nor change what is the user's.
    entries = sp.coo_array((given.data.astype(np.float64), (given.row, given.col)), shape=given.shape)
    if clean:
        entries.sum_duplicates()
    stored = entries.data != 0
    values, rows, columns = entries.data[stored], entries.row[stored], entries.col[stored]
    unknown = np.flatnonzero(np.isnan(values))
    if unknown.size and clean:
        raise InvalidInput(f"adjacency entry ({rows[unknown[0]]}, {columns[unknown[0]]}) is nan: an edge or none?")
    weighted = np.flatnonzero(values != 1)
    if weighted.size and not clean:
        k = weighted[0]
        raise InvalidInput(
            f"adjacency entry ({rows[k]}, {columns[k]}) is {values[k]}; edges carry no weights here: "
            "store ones, or pass clean=True to drop the weights"
        )
    return arcs_of(rows, columns, num_nodes, "adjacency entry")


def require_networkx(g: Any) -> None:
    try:
        import networkx
    except ImportError:
        raise MissingExtra("networkx is not installed; run `pip install graphveil[networkx]`") from None
    if not isinstance(g, networkx.Graph):
        raise InvalidInput(f"expected a networkx graph, got {type(g).__name__}")


def node_features(g: networkx.Graph, attribute: str) -> Tensor:
    """The nodes' feature vectors, stacked; a bare number is a vector of length one."""
    rows: list[NDArray[Any]] = []
    for node, data in g.nodes(data=True):
        try:
            rows.append(np.atleast_1d(np.asarray(data[attribute], dtype=np.float64)))
        except KeyError:
            raise InvalidInput(f"node {node!r} has no attribute {attribute!r}; give every node one") from None
        except (TypeError, ValueError, RuntimeError, OverflowError):
            raise InvalidInput(f"node {node!r}: attribute {attribute!r} is not a vector of numbers") from None
        if rows[-1].ndim != 1:
            raise InvalidInput(f"node {node!r}: attribute {attribute!r} is not a vector of numbers")
        if len(rows[-1]) != len(rows[0]):
            raise InvalidInput(f"node {node!r} has {len(rows[-1])} features but the first node has {len(rows[0])}")
    return real_features(np.stack(rows) if rows else np.empty((0, 0)))
