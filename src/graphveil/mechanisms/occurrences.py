"""What a node costs that can occur in several subgraphs of which only a sample is drawn (NDP).

`affected` of `population` subgraphs can change, and `size` are drawn without replacement, whatever the private data
hold. Reveal how many of the affected ones are drawn: rho ~ Hyp(population, affected, size). The sum then moves by at
most rho * mu noise standard deviations, and by joint convexity
    delta(e) = sum_rho Hyp(rho) delta_G(e; rho mu).
Fewer affected subgraphs cost less, because rho is then stochastically smaller and delta_G increases in rho.
"""

from __future__ import annotations

import math
from fractions import Fraction

from graphveil.errors import InvalidInput
from graphveil.mechanisms.gaussian import GaussianCurve
from graphveil.mechanisms.revealed_mixture import RevealedMixture
from graphveil.vocabulary import Curve


def occurrences(population: int, affected: int, size: int) -> tuple[float, ...]:
    """Hyp(rho) = C(affected, rho) (size)_rho (population - size)_{affected - rho} / (population)_affected, for all rho.

    (a)_k is the falling factorial. Exact, then rounded: products of a few factors instead of huge binomials.
    """
    if not (0 < affected <= population and 0 < size <= population):
        raise InvalidInput(f"cannot draw {size} of {population} subgraphs of which {affected} can change")
    ways = math.perm(population, affected)
    return tuple(
        float(Fraction(math.comb(affected, drawn) * math.perm(size, drawn) * math.perm(population - size, rest), ways))
        for drawn, rest in ((drawn, affected - drawn) for drawn in range(affected + 1))
    )


def occurrence_curve(population: int, affected: int, size: int, mu: float) -> Curve:
    """The module's equation; `mu`: how many noise standard deviations one changed subgraph moves the sum."""
    if mu == math.inf:
        return GaussianCurve(mu)
    weights = occurrences(population, affected, size)
    # A count that cannot occur would only make the mixture slower.
    possible = [(weight, GaussianCurve(drawn * mu)) for drawn, weight in enumerate(weights) if weight > 0]
    if len(possible) == 1:
        return possible[0][1]
    return RevealedMixture(*(tuple(part) for part in zip(*possible, strict=True)))
