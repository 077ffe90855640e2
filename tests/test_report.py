"""The one-page summary says what the certificate says, and needs nothing from outside."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import graphveil as gv
from graphveil.report import Bar, demonstrate, shown, summary


class Outside(HTMLParser):
    """Collects everything a browser would fetch or run."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        links = [value for name, value in attrs if name in ("src", "href") and value and not value.startswith("#")]
        self.found += [f"{tag}: {link}" for link in links] + (["script"] if tag == "script" else [])


def test_demonstration_writes_release_and_page(tmp_path: Path) -> None:
    said = demonstrate(tmp_path)
    page = (tmp_path / "summary.html").read_text()
    release = gv.load(tmp_path / "release")
    assert release.certificate.epsilon <= 2
    assert release.certificate.provenance.secure
    assert shown(release.certificate.epsilon) in page
    assert "one undirected edge added or removed" in page
    for label in ("GCN, not private", "MLP, no edges", "hearsay, private edges"):
        assert label in said
        assert label in page
    outside = Outside()
    outside.feed(page)
    assert outside.found == []
    assert len(page) < 100_000


def test_refutation_and_seed_are_on_the_page() -> None:
    graph = gv.datasets.load("chain-s")
    method = gv.methods.Gap(epochs=1)
    release = gv.train(graph, method, epsilon=1, delta=1e-5, unit="edge", reading="published", seed=0)
    page = summary(release, [Bar("gap <b>", 0.5, release.certificate.epsilon)])
    assert "refuted" in page
    assert shown(release.certificate.sound_epsilon) in page
    assert "Not for release" in page
    assert "gap &lt;b&gt;" in page


def test_epsilon_is_rounded_up() -> None:
    assert shown(1.00001) == "1.001"
    assert shown(2.0) == "2.000"
    assert shown(float("inf")) == "infinite"
