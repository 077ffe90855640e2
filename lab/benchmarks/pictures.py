"""Draw docs/assets/accuracy.svg from lab/results/leaderboard.json: `python lab/benchmarks/pictures.py`.

Accuracy against epsilon, a panel for every unit. `make contribute` draws it too; the same results give the same bytes.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from graphveil.report import charts
from graphveil.report.charts import Point, Series
from graphveil_lab.bench import kept
from graphveil_lab.bench.best_proven import LARGEST
from graphveil_lab.bench.kept import KeptLine
from graphveil_lab.report.parts import grouped

REPOSITORY = Path(__file__).resolve().parents[2]
PICTURE = REPOSITORY / "docs" / "assets" / "accuracy.svg"
GRAPHS = ("pubmed", "computers", "facebook", "rutgers89")
"""Those of the table in README."""
BEST = 3
"""Methods of a panel."""


def accuracy(lines: Sequence[KeptLine]) -> str:
    """The best proven methods of every unit, by mean accuracy over `GRAPHS`; levels are what needs no epsilon.

    The largest class is left out: the other curves would be flat above it.
    """
    shown = [line for line in lines if line.split == "random" and line.dataset in GRAPHS and line.test is not None]
    panels = [_panel(unit, mine) for unit, mine in grouped(shown, lambda line: line.unit).items()]
    title = f"Mean test accuracy over {', '.join(GRAPHS)} against epsilon, by what is protected"
    return charts.picture(title, panels, columns=2)


def _panel(unit: str, lines: Sequence[KeptLine]) -> tuple[str, Markup, list[Series]]:
    paid = _means([line for line in lines if not line.free and line.reading == "sound"])
    free = _means([line for line in lines if line.free and not line.method.startswith(LARGEST)])
    ranked = sorted(paid, key=lambda label: -statistics.fmean(point.y for point in paid[label]))
    # Of several variants of a method the best.
    best = [mine[0] for mine in grouped(ranked, lambda label: label.split(" ")[0]).values()][:BEST]
    series = [Series(label, style, paid[label]) for style, label in enumerate(best)]
    one_point = [(label, at[0]) for label, at in free.items() if len(at) == 1]
    series += [
        Series.level(label, style, at.y, f"{at.y:.1%}") for style, (label, at) in enumerate(one_point, len(best))
    ]
    drawn = charts.against_epsilon(series, "epsilon (log scale)", "test accuracy, %", f"{unit} level", spread=0.0)
    return f"protects: {unit}", drawn, series


def _means(lines: Sequence[KeptLine]) -> dict[str, tuple[Point, ...]]:
    """By label the mean score over the graphs, for epsilons at which every graph has a score."""
    found: dict[str, tuple[Point, ...]] = {}
    for label, mine in grouped(lines, lambda line: line.full_label).items():
        scores = grouped(mine, lambda line: line.epsilon)
        means = {at: statistics.fmean(one.test or 0.0 for one in each) for at, each in sorted(scores.items())
                 if len(each) == len(GRAPHS)}  # fmt: skip
        if means:
            found[label] = tuple(Point(at, mean, mean, mean, f"ε {at:g}: {mean:.1%}") for at, mean in means.items())
    return found


def drawn(root: Path) -> str:
    """The picture of a checkout."""
    return accuracy(kept.load(root / "lab" / "results" / "leaderboard.json"))


def main() -> None:
    """Draw the picture anew if it has changed, and name it."""
    text = drawn(REPOSITORY)
    if not PICTURE.exists() or PICTURE.read_text(encoding="utf-8") != text:
        PICTURE.write_text(text, encoding="utf-8")
        print(PICTURE.relative_to(REPOSITORY))


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    main()
