"""Logarithm, sine and cosine in float64 from additions, products and quotients alone.

Every step is one operation that IEEE 754 rounds, so that a processor and a GPU give the same bits, which their own
libraries do not. The polynomials and their coefficients are those of FreeBSD's msun (e_log.c, k_sin.c, k_cos.c), whose
error is below one unit in the last place. Written twice: as torch operations, each of which is a kernel of its own on a
GPU, so that no product is fused with a sum; and as a loop for processors, whose compiler is not told that it may fuse.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

_ROOT_HALF = 0x3FE6A09E667F3BCD
"""The bits of sqrt(1/2): mantissas are taken from [sqrt(1/2), sqrt(2))."""
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""ln 2 in two parts, of which whole multiples up to 2^20 of the first are exact."""

_TURN = 2 * math.pi

_LOG_ODD = (6.666666666666735130e-01, 2.857142874366239149e-01, 1.818357216161805012e-01, 1.479819860511658591e-01)
_LOG_EVEN = (3.999999999940941908e-01, 2.222219843214978396e-01, 1.531383769920937332e-01)
_SIN = (
    -1.66666666666666324348e-01,
    8.33333333332248946124e-03,
    -1.98412698298579493134e-04,
    2.75573137070700676789e-06,
    -2.50507602534068634195e-08,
    1.58969099521155010221e-10,
)
_COS = (
    4.16666666666666019037e-02,
    -1.38888888888741095749e-03,
    2.48015872894767294178e-05,
    -2.75573143513906633035e-07,
    2.08757232129817482790e-09,
    -1.13596475577881948265e-11,
)


def log(x: Tensor) -> Tensor:
    """Natural logarithms of normal positive doubles, [k]."""
    if x.device.type != "cpu":
        return log_by_torch(x)
    out = torch.empty_like(x)
    _log(x.view(torch.int64).numpy(), out.view(torch.int64).numpy(), out.numpy())
    return out


def cos_sin_of_turns(u: Tensor) -> tuple[Tensor, Tensor]:
    """cos(2 pi u) and sin(2 pi u), [k] each, for u in [0, 1)."""
    if u.device.type != "cpu":
        return cos_sin_by_torch(u)
    cosine, sine = torch.empty_like(u), torch.empty_like(u)
    _cos_sin(u.numpy(), cosine.numpy(), sine.numpy())
    return cosine, sine


def log_by_torch(x: Tensor) -> Tensor:
    """`log` on any device."""
    bits = x.view(torch.int64)
    # x = 2^power (1 + f), with 1 + f in [sqrt(1/2), sqrt(2)).
    power = (bits - _ROOT_HALF) >> 52
    f = (bits - (power << 52)).view(torch.float64) - 1.0
    k = power.to(torch.float64)
    s = f / (f + 2.0)
    z = s * s
    w = z * z
    tail = _horner(w, _LOG_ODD) * z + _horner(w, _LOG_EVEN) * w
    half = f * f * 0.5
    return k * _LN2_HIGH - ((half - (s * (half + tail) + k * _LN2_LOW)) - f)


def cos_sin_by_torch(u: Tensor) -> tuple[Tensor, Tensor]:
    """`cos_sin_of_turns` on any device."""
    quarter = torch.round(u * 4.0)
    # Exact: the nearest quarter is a short binary fraction.
    angle = (u - quarter * 0.25) * _TURN
    z = angle * angle
    sine = angle + (z * angle) * _horner(z, _SIN)
    half = z * 0.5
    rest = 1.0 - half
    cosine = rest + (((1.0 - rest) - half) + z * (z * _horner(z, _COS)))
    turns = quarter.to(torch.int64) & 3
    swapped, low, left = (turns & 1) == 1, turns >= 2, (turns == 1) | (turns == 2)
    x, y = torch.where(swapped, sine, cosine), torch.where(swapped, cosine, sine)
    return torch.where(left, -x, x), torch.where(low, -y, y)


def _horner(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """c_0 + x (c_1 + x (c_2 + ...)), every product and sum rounded by itself."""
    total = torch.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


@numba.njit(cache=True, nogil=True)
def _sum_by_horner(x: Any, coefficients: Any) -> Any:
    total = coefficients[-1]
    for place in range(len(coefficients) - 2, -1, -1):
        total = total * x + coefficients[place]
    return total


@numba.njit(cache=True, nogil=True)
def _log(bits: Any, out_bits: Any, out: Any) -> None:
    """out_bits: the same memory as `out`."""
    for i in range(len(bits)):
        power = (bits[i] - _ROOT_HALF) >> 52
        k = np.float64(power)
        out_bits[i] = bits[i] - (power << 52)
        f = out[i] - 1.0
        s = f / (f + 2.0)
        z = s * s
        w = z * z
        tail = _sum_by_horner(w, _LOG_ODD) * z + _sum_by_horner(w, _LOG_EVEN) * w
        half = f * f * 0.5
        out[i] = k * _LN2_HIGH - ((half - (s * (half + tail) + k * _LN2_LOW)) - f)


@numba.njit(cache=True, nogil=True)
def _cos_sin(u: Any, cosines: Any, sines: Any) -> None:
    for i in range(len(u)):
        quarter = np.rint(u[i] * 4.0)
        angle = (u[i] - quarter * 0.25) * _TURN
        z = angle * angle
        sine = angle + (z * angle) * _sum_by_horner(z, _SIN)
        half = z * 0.5
        rest = 1.0 - half
        cosine = rest + (((1.0 - rest) - half) + z * (z * _sum_by_horner(z, _COS)))
        turns = np.int64(quarter) & 3
        x, y = (sine, cosine) if turns & 1 else (cosine, sine)
        cosines[i] = -x if turns in (1, 2) else x
        sines[i] = -y if turns >= 2 else y
