"""Draw the pictures of README and docs: `python lab/benchmarks/pictures.py`, or `make contribute`.

docs/assets/accuracy.svg: accuracy against epsilon, a panel for every unit, from lab/results/leaderboard.json.
docs/assets/path.svg: the way from a graph to a release.

The same results give the same bytes; a test sees pictures that are behind them.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from graphveil.report import charts
from graphveil.report.charts import Level, Point, Series
from graphveil_lab.bench import kept
from graphveil_lab.bench.best_proven import LARGEST
from graphveil_lab.bench.kept import KeptLine

REPOSITORY = Path(__file__).resolve().parents[2]
GRAPHS = ("pubmed", "computers", "facebook", "rutgers89")
"""Those of the table in README."""
BEST = 3
"""Methods of a panel."""

_WIDE, _HIGH = 820, 384
"""Of a row of two panels."""

_STYLE = """
svg { font: 13px system-ui, sans-serif; } .paper { fill: #fff; } text { fill: #1c2530; font-size: 12.5px; }
.head { font-size: 15px; font-weight: 600; } .soft { fill: #55606d; } .up { text-anchor: end; }
.under, .name, .middle { text-anchor: middle; } .grid { stroke: #d5dbe1; }
.line { fill: none; stroke: currentColor; stroke-width: 1.8; } marker { overflow: visible; }
.dotted { stroke-dasharray: 1.5 4; stroke-linecap: round; } .across { marker-start: none; marker-end: none; }
use { fill: currentColor; } .s0 { color: var(--s0); } .s1 { color: var(--s1); } .s2 { color: var(--s2); }
.s3 { color: var(--s3); } .s4 { color: var(--s4); } .s5 { color: var(--s5); }
:root { --s0: #0072b2; --s1: #c44e00; --s2: #007a58; --s3: #a8437f; --s4: #806000; --s5: #30363d; }
.box { fill: #f6f8fa; stroke: #1f5a8a; stroke-width: 1.5; }
.shut { fill: #fbeeee; stroke: #a11212; stroke-width: 1.5; } .arrow { fill: none; stroke: #55606d; stroke-width: 1.5; }
"""

_TIP = Markup(
    '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 8 4 0 8Z" fill="#55606d"/></marker>'
)


def picture(width: int, height: int, alt: str, definitions: Markup, body: Markup) -> str:
    """A drawing that needs no page around it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">\n'
        + str(Markup("<title>{}</title>").format(alt))
        + f"<style>{_STYLE}</style><defs>{definitions}</defs>\n"
        + f'<rect class="paper" width="{width}" height="{height}"/>\n'
        + f"{body}\n</svg>\n"
    )


def accuracy(lines: Sequence[KeptLine]) -> str:
    """The best proven methods of every unit, by mean accuracy over `GRAPHS`; levels are what needs no epsilon.

    The largest class lies so far below that the curves would be flat beside it.
    """
    units = list(dict.fromkeys(line.unit for line in lines))
    panels = [
        Markup('<g transform="translate({} {})">{}</g>').format(
            10 + 410 * (place % 2), 10 + _HIGH * (place // 2), _panel(unit, lines)
        )
        for place, unit in enumerate(units)
    ]
    rows = -(-len(units) // 2)
    alt = f"Mean test accuracy over {', '.join(GRAPHS)} against epsilon, by what is protected"
    return picture(_WIDE, 10 + _HIGH * rows, alt, charts.definitions(), Markup("\n").join(panels))


def _panel(unit: str, lines: Sequence[KeptLine]) -> Markup:
    mine = [line for line in lines if (line.unit, line.split) == (unit, "random") and line.dataset in GRAPHS]
    curves = {
        label: points
        for label in dict.fromkeys(line.method for line in mine if not line.free and line.reading == "sound")
        if (points := _means([line for line in mine if line.method == label and not line.free]))
    }
    ranked = sorted(curves, key=lambda label: -statistics.fmean(mean for _, mean in curves[label]))
    kinds = list({label.split(" ")[0]: label for label in reversed(ranked)}.values())
    best = sorted(kinds, key=ranked.index)[:BEST]
    series = [
        Series(label, style, tuple(Point(at, mean, mean, mean, f"ε {at:g}: {mean:.1%}") for at, mean in curves[label]))
        for style, label in enumerate(best)
    ]
    free = {line.full_label: _means([each for each in mine if each.full_label == line.full_label])
            for line in mine if line.free and not line.method.startswith(LARGEST)}  # fmt: skip
    levels = [
        Level(label, len(best) + place, mean, f"{mean:.1%}")
        for place, (label, [(_, mean)]) in enumerate((label, found) for label, found in free.items() if len(found) == 1)
    ]
    heights = [mean for label in best for _, mean in curves[label]] + [level.y for level in levels]
    drawn = charts.curves(
        series,
        levels,
        charts.epsilons([at for label in best for at, _ in curves[label]]),
        charts.shares(heights, charts.HEIGHT - charts.BOTTOM, charts.TOP),
        ("epsilon (log scale)", "test accuracy, %"),
        f"{unit} level",
        dodge=False,
    )
    inner = sized(drawn, 'y="22" width="400" height="300"')
    keys = [(label, charts.key(style)) for style, label in enumerate(best)]
    keys += [(level.label, charts.key(level.style, "dotted")) for level in levels]
    legend = [
        Markup('<g transform="translate({} {})">{}<text x="34" y="12">{}</text></g>').format(
            44 + 180 * (place % 2),
            326 + 18 * (place // 2),
            sized(sign, 'width="28" height="16"'),
            label,
        )
        for place, (label, sign) in enumerate(keys)
    ]
    head = Markup('<text class="head" x="44" y="15">protects: {}</text>').format(unit)
    return head + inner + Markup("").join(legend)


def sized(drawn: Markup, size: str) -> Markup:
    """A drawing of a page, whose style sheet would size it, with a size of its own."""
    return Markup(str(drawn).replace("<svg ", f"<svg {size} ", 1))


def _means(lines: Sequence[KeptLine]) -> list[tuple[float, float]]:
    """(epsilon, mean score over the graphs), for epsilons at which every graph has a score."""
    found: dict[float, list[float]] = {}
    for line in lines:
        if line.test is not None:
            found.setdefault(line.epsilon, []).append(line.test)
    return [(at, statistics.fmean(scores)) for at, scores in sorted(found.items()) if len(scores) == len(GRAPHS)]


_BOXES = (
    (10, 20, 150, "your tables", "payments, accounts", "box"),
    (190, 20, 150, "Graph", "checked, split", "box"),
    (370, 20, 180, "public part", "what the unit leaves open", "box"),
    (370, 150, 180, "sealed part", "for planned questions only", "shut"),
    (580, 20, 180, "plan", "every question, in advance", "box"),
    (580, 150, 180, "session", "answers what was planned", "box"),
    (790, 20, 150, "certificate", "epsilon, ledger entry", "box"),
    (790, 150, 150, "release", "weights, card, schema", "box"),
    (790, 250, 150, "predictions", "of the release alone", "box"),
)
"""x, y, width, heading, words, class."""

_ARROWS = (
    "M160 50H188", "M340 50H368", "M265 80V180H368", "M550 50H578", "M550 180H578", "M670 80V148", "M760 50H788",
    "M760 180H788", "M865 80V148", "M865 210V248",
)  # fmt: skip


def path() -> str:
    """From a graph to a release: what is private is reached only through what was planned."""
    boxes = [
        Markup(
            '<rect class="{}" x="{}" y="{}" width="{}" height="60" rx="6"/><text class="middle head" x="{}" y="{}">{}'
            '</text><text class="middle soft" x="{}" y="{}">{}</text>'
        ).format(kind, x, y, width, x + width // 2, y + 26, heading, x + width // 2, y + 46, words)
        for x, y, width, heading, words, kind in _BOXES
    ]
    arrows = [Markup('<path class="arrow" marker-end="url(#tip)" d="{}"/>').format(each) for each in _ARROWS]
    alt = "A graph is sealed; a plan made of its public part is accounted; only planned questions reach the sealed part"
    return picture(950, 330, alt, _TIP, Markup("\n").join([*boxes, *arrows]))


def made(root: Path) -> dict[Path, str]:
    """Every picture by its file."""
    lines = kept.load(root / "lab" / "results" / "leaderboard.json")
    return {
        root / "docs" / "assets" / "accuracy.svg": accuracy(lines),
        root / "docs" / "assets" / "path.svg": path(),
    }


def main() -> None:
    """Draw what has changed and name it."""
    for file, text in made(REPOSITORY).items():
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
            print(file.relative_to(REPOSITORY))


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    main()
