"""The docs are a promise: they build, their links lead somewhere, their examples run, their numbers are kept."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

import graphveil as gv
from docstrings import public_parts, reference, resolve
from graphveil.cli import app

REPOSITORY = Path(__file__).parents[1]
DOCS = REPOSITORY / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
FRONT = [REPOSITORY / f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")]


def name_of(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


def unfenced(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def headings(page: Path) -> list[str]:
    return re.findall(r"^#+ (.+)$", unfenced(page), flags=re.MULTILINE)


def anchor(heading: str) -> str:
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def blocks(page: Path, language: str) -> list[str]:
    """Fenced code of a page; in a list it is indented."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return ["\n".join(line.removeprefix(indent) for line in code.splitlines()) for indent, code in found]


@pytest.mark.parametrize("page", [*FRONT, *PAGES], ids=name_of)
def test_links_lead_to_pages_and_their_anchors(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]+`", "`code`", unfenced(page))):
        assert "://" not in link, f"{link}: say where it is in words, the pages are read offline"
        path, fragment = urldefrag(link)
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), link
        assert DOCS not in page.parents or DOCS in target.parents, f"{link} leaves the site; name the file in code"
        if fragment:
            assert fragment in map(anchor, headings(target)), link


def test_every_page_is_in_the_navigation() -> None:
    def leaves(item: Any) -> Iterator[str]:
        if isinstance(item, str):
            yield item
        else:
            for part in item.values() if isinstance(item, dict) else item:
                yield from leaves(part)

    config = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text())
    assert sorted(leaves(config["nav"])) == [page.relative_to(DOCS).as_posix() for page in PAGES]


def write_tables(prefix: str, nodes: int, labelled: bool) -> None:
    """Two small tables in the working folder: two classes that stick together."""
    rng, classes = np.random.default_rng(0), np.arange(nodes) % 2
    rows = [
        f"{node}," + (f"{label}," if labelled else "") + f"{rng.normal(label):.3f},{rng.normal():.3f}"
        for node, label in enumerate(classes)
    ]
    Path(f"{prefix}nodes.csv").write_text("\n".join(["id,label,a,b" if labelled else "id,a,b", *rows, ""]))
    pairs = sorted({tuple(sorted((node, (node + step) % nodes))) for node in range(nodes) for step in (2, 6)})
    Path(f"{prefix}edges.csv").write_text("\n".join(["source,target", *(f"{u},{v}" for u, v in pairs), ""]))


@pytest.mark.parametrize("name", ["start", "unit", "epsilon", "elsewhere", "streams"])
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_tables("", 60, labelled=True)
    write_tables("public_", 40, labelled=False)
    page = DOCS / f"{name}.md"
    lines = [line for block in blocks(page, "console") for line in block.replace("\\\n", " ").splitlines()]
    assert len(lines) >= 2
    for line in lines:
        result = CliRunner().invoke(app, shlex.split(line.removeprefix("$ graphveil ")))
        assert result.exit_code == 0, f"{line}: {result.output}{result.exception!r}"
    printed, namespace = io.StringIO(), dict[str, object]()
    with contextlib.redirect_stdout(printed):
        for block in blocks(page, "python"):
            exec(compile(block, page.name, "exec"), namespace)
    table = [line for line in printed.getvalue().splitlines() if " | " in line]
    for line in table:
        assert f"| {line} |" in page.read_text()
    assert len(table) == (7 if name == "epsilon" else 0)


@pytest.mark.parametrize("dataset", ["chain-s", pytest.param("social", marks=pytest.mark.slow)])
def test_own_networks_are_private_in_ten_lines(dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the page trains on `social`; always on, on a graph of 48 nodes."""
    monkeypatch.chdir(tmp_path)
    graph = gv.datasets.load(dataset)
    monkeypatch.setattr(gv.datasets, "load", lambda _: graph)
    page, namespace = DOCS / "own-networks.md", dict[str, object]()
    shown = blocks(page, "python")
    assert len(shown) == 5
    for block in shown:
        exec(compile(block, page.name, "exec"), namespace)
    for block in shown[1:3]:
        assert len([line for line in block.splitlines() if line]) <= 10


def described() -> list[str]:
    """What the pages of the reference ask for."""
    return [name for name in reference(DOCS / "api") if not name.startswith("graphveil_lab")]


@pytest.mark.parametrize("name", described())
def test_every_public_name_has_a_docstring(name: str) -> None:
    silent = [part for part, item in public_parts(name) if not inspect.getdoc(item)]
    assert inspect.getdoc(resolve(name))
    assert not silent


def test_the_reference_covers_what_the_package_exports() -> None:
    covered = described()
    for name in gv.__all__:
        item = getattr(gv, name)
        home = item.__name__ if inspect.ismodule(item) else f"{item.__module__}.{item.__qualname__}"
        assert any(home == entry or home.startswith(f"{entry}.") for entry in covered), name


class Page(HTMLParser):
    """What a built page loads, where it leads, and what can be led to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads, self.leads, self.anchors = set[str](), set[str](), set[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value for key, value in attrs if value}
        self.anchors.update(given[key] for key in ("id", "name") if key in given)
        if tag == "a" and "href" in given:
            self.leads.add(given["href"])
        elif tag == "link" and "href" in given:
            self.loads.add(given["href"])
        if "src" in given:
            self.loads.add(given["src"])
        assert tag != "autoref", f"unresolved reference: {given}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly from copies so that the checkout stays as it is."""
    home = tmp_path_factory.mktemp("docs")
    for name in ("mkdocs.yml", "CHANGELOG.md"):
        shutil.copy(REPOSITORY / name, home / name)
    for name in ("docs", "src"):
        shutil.copytree(REPOSITORY / name, home / name, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return home / "site"


def test_the_site_has_every_page_and_no_dead_link(site: Path) -> None:
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html") if path.name != "404.html"}
    wanted = {site / page.relative_to(DOCS).with_suffix(".html") for page in PAGES}
    assert set(pages) == wanted
    for path, page in pages.items():
        for link in page.leads | page.loads:
            if link.startswith(("http:", "https:", "data:")):
                continue
            target, fragment = urldefrag(link)
            there = (path.parent / unquote(target)).resolve() if target else path
            assert there.is_file() or (there / "index.html").is_file(), f"{path.name}: {link}"
            if fragment and there in pages:
                assert unquote(fragment) in pages[there].anchors | {"__top"}, f"{path.name}: {link}"


def test_the_site_needs_no_network(site: Path) -> None:
    for path in site.rglob("*.html"):
        remote = [url for url in Page(path.read_text()).loads if re.match(r"(https?:)?//", url)]
        assert not remote, f"{path.name} loads {remote}"
    for path in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", path.read_text()), path.name


def test_the_search_knows_every_page(site: Path) -> None:
    known = {urldefrag(item["location"])[0] for item in json.loads((site / "search.json").read_text())["items"]}
    assert known == {page.relative_to(DOCS).with_suffix(".html").as_posix() for page in PAGES}


@pytest.mark.skipif(not shutil.which("chromedriver"), reason="needs Chromium and its driver")
def test_the_search_works_from_disk(site: Path) -> None:
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.wait import WebDriverWait

    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1200,900"):
        options.add_argument(argument)
    browser = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        wait = WebDriverWait(browser, 60)
        browser.get((site / "start.html").as_uri())
        browser.find_element(By.CSS_SELECTOR, "button.md-search__button").click()
        wait.until(lambda _: browser.switch_to.active_element.tag_name not in ("body", "button"))
        browser.switch_to.active_element.send_keys("ledger")
        wait.until(lambda _: browser.execute_script(_RESULTS))
        loaded = browser.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)")
        assert not [url for url in loaded if url.startswith("http")]
    finally:
        browser.quit()


_RESULTS = """
return [...document.querySelectorAll("*")].some(
    host => host.shadowRoot && /ledger/i.test(host.shadowRoot.textContent) && host.shadowRoot.querySelector("a[href]"))
"""
"""Whether a result that speaks of ledgers is shown; the theme keeps its search in a shadow tree."""
