"""A guarantee in a sentence that people can sign, and who is and is not protected by it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from graphveil.data.sealing import OUTSIDE_UNPROTECTED
from graphveil.vocabulary import Adjacency, Unit

_SMALLEST = 1e-4
"""A share in percent below which the other one is called 100."""

_PROTECTED = {
    Unit.EDGE: "every single link between {whose}, whether it is there or not",
    Unit.NODE: "{whose}: features, label and all links together, and whether there is a record at all",
    Unit.FEATURES: "{whose}: features and label together",
    Unit.LABEL: "{whose}: the label",
}

_DIRECTION = ", whether links have a direction"
"""It is read off the arcs where nobody says it, and decides what one link is."""

_OPEN = {
    Unit.EDGE: (
        f"features, labels and ids, who is in the graph{_DIRECTION}, the split",
        "several links of one person together: k of them are protected by k times epsilon only",
    ),
    Unit.NODE: (f"the list of ids, the set of classes{_DIRECTION}, the split",),
    Unit.FEATURES: ("all links, ids, the set of classes, the split",),
    Unit.LABEL: ("features, all links, ids, the set of classes, the split",),
}
"""What each unit leaves public: docs/unit.md."""

_ALWAYS = "what would be learnt without the person or link too, because it is true of everybody"


@dataclass(frozen=True)
class PrivacyStatement:
    """What a guarantee means. `public`: the public graph beside the private one, in words, or nothing."""

    adjacency: Adjacency
    epsilon: float
    """The one that is proven."""
    delta: float
    where: str = ""
    """In which data, where there are several, in words."""
    assumes: tuple[str, ...] = ()
    public: str = ""
    reads: bool = True
    """Whether anything private is read: delta alone may pay for noise that is large enough."""

    @property
    def in_training(self) -> bool:
        """Whether nodes outside training are left open."""
        return OUTSIDE_UNPROTECTED in self.assumes

    @property
    def secret(self) -> str:
        """What stays hidden, as a question."""
        person = "a person in training" if self.in_training else "a person"
        linked = (
            "whether two people are linked" if self.adjacency.undirected else "whether one person points to another"
        )
        asked = {
            Unit.EDGE: linked,
            Unit.NODE: f"whether the record of {person} is in the graph",
            Unit.FEATURES: f"which of two records is that of {person}",
            Unit.LABEL: f"which of two labels is that of {person}",
        }
        return f"{asked[self.adjacency.unit]} {self.where}".strip()

    @property
    def sentence(self) -> str:
        """The promise, for somebody who knows no epsilon."""
        if not self.reads:
            return f"This release reads nothing private: it does not help to find out {self.secret}."
        if self.epsilon == math.inf:
            return f"No protection is proven: whoever sees this release may find out for certain {self.secret}."
        right, wrong = shares(self.epsilon, self.delta)
        return (
            f"Whoever sees this release and knows everything else about the graph, and guesses {self.secret}, is right "
            f"at most {right} times in 100: even odds become at most {right} : {wrong}."
        )

    @property
    def protected(self) -> str:
        """Who and what."""
        link, person = "two people", "every person's record"
        if self.in_training:
            person = "the record of every person in training"
        return _PROTECTED[self.adjacency.unit].format(whose=link if self.adjacency.unit is Unit.EDGE else person)

    @property
    def not_protected(self) -> tuple[str, ...]:
        """Who and what is open, and may be read off the release."""
        outside = ("everybody outside training: features, and links among them",) if self.in_training else ()
        beside = (f"everybody in the public graph {self.public}",) if self.public else ()
        return (*_OPEN[self.adjacency.unit], *outside, *beside, _ALWAYS)


def best_guess(epsilon: float, delta: float) -> float:
    """The largest chance to tell which of two neighbouring graphs it was, if both were equally likely before.

    (e^epsilon + delta) / (1 + e^epsilon): of any test TPR <= e^epsilon FPR + delta, and the same with both graphs
    exchanged, so (TPR + 1 - FPR) / 2 is no larger; a mechanism that meets both bounds attains it.
    """
    return 1 - _missed(epsilon, delta)


def _missed(epsilon: float, delta: float) -> float:
    """1 - `best_guess`, to the last digit where that is near 1."""
    return (1 - delta) * math.exp(-epsilon) / (1 + math.exp(-epsilon))


def power(epsilon: float, delta: float) -> list[tuple[float, float]]:
    """Corners (FPR, TPR) of what a test can reach: TPR <= min(e^epsilon FPR + delta, 1 - e^-epsilon (1 - delta - FPR)).

    They are joined by straight lines; both bounds meet where FPR = 1 - `best_guess`.
    """
    wrong = _missed(epsilon, delta)
    return [(0.0, 1.0 if epsilon == math.inf else delta), (wrong, 1 - wrong), (1 - delta, 1.0), (1.0, 1.0)]


def shares(epsilon: float, delta: float) -> tuple[str, str]:
    """How often in 100 the best guess is right and wrong, rounded against us: "89", "11"; they sum to 100."""
    wrong = 100 * _missed(epsilon, delta)
    if wrong < _SMALLEST:
        return "100", "0"
    places = 0 if wrong >= 1 else math.ceil(-math.log10(wrong))
    # Down, whatever the doubles say: a billionth less never flatters.
    floored = math.floor(wrong * 10**places * (1 - 1e-9)) / 10**places
    return f"{100 - floored:.{places}f}", f"{floored:.{places}f}"


def even_odds(epsilon: float, delta: float) -> str:
    """What even odds about one unit can become: "89 : 11"."""
    return " : ".join(shares(epsilon, delta))


def in_lines(promises: Sequence[PrivacyStatement], prefix: str = "") -> list[str]:
    """The head of a card: what can be signed, then who is and is not protected. prefix: what comes before it."""
    lines = [f"{prefix}{one.sentence}" for one in promises]
    kinds = dict.fromkeys((one.protected, one.not_protected) for one in promises)
    for protected, opened in kinds:
        lines.append(f"  protected    {protected}")
        lines += [f"  unprotected  {item}" for item in opened]
    return lines
