"""The docs are a promise: they build, their links lead somewhere, their examples run, their numbers are kept."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
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

import contribute
import edge_attacks
import graphveil as gv
import method_tables
import node_attacks
import privgnn_programmed
from graphveil import plugins
from graphveil.cli import app
from graphveil_lab.bench.revisions import made_by
from graphveil_lab.bench.spec import Spec
from kept_numbers import FILLED, MEASURED, RESULTS, read

REPOSITORY = Path(__file__).parents[1]
DOCS = REPOSITORY / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
FRONT = [REPOSITORY / f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")]
METHODS = sorted(plugins.methods())


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


def test_experiments_in_the_docs_can_be_run() -> None:
    shown = [text for page in PAGES for text in re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.S | re.M)]
    assert shown
    for text in shown:
        assert Spec.model_validate(tomllib.loads(text)).tasks()


def test_every_page_is_in_the_navigation() -> None:
    def leaves(item: Any) -> Iterator[str]:
        if isinstance(item, str):
            yield item
        else:
            for part in item.values() if isinstance(item, dict) else item:
                yield from leaves(part)

    config = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text())
    assert sorted(leaves(config["nav"])) == [page.relative_to(DOCS).as_posix() for page in PAGES]


def test_index_and_navigation_follow_from_the_pages_of_methods() -> None:
    for file, text in contribute.made(REPOSITORY).items():
        assert file.read_text() == text, f"{name_of(file)}: run make contribute"


@pytest.mark.parametrize("page", list(method_tables.pages()), ids=name_of)
def test_measured_tables_are_the_kept_results(page: Path) -> None:
    text = page.read_text()
    assert method_tables.filled(text, REPOSITORY / "lab" / "results") == text, "run make contribute"


def made_by_scripts(page: Path) -> dict[str, dict[str, str]]:
    """What scripts make of the kept results for the blocks of a page, by script and table."""
    if page.name == "attacks.md":
        order = [cell.key for cell in edge_attacks.cells(edge_attacks.DATASETS, edge_attacks.SEEDS, quick=False)]
        runs = sorted(read("edge-attacks.json"), key=lambda run: order.index(edge_attacks.key_of(run)))
        edges = edge_attacks.tables(edge_attacks.summary(runs))
        return {"edge-attacks": edges, "node-attacks": node_attacks.tables(read("node-attacks.json"))}
    if page.name == "privgnn.md":
        runs, audits = read("privgnn-programmed.json"), read("privgnn-audit.json")
        made = {"accuracy": privgnn_programmed.accuracy_table(runs), "reach": privgnn_programmed.reach_table(runs)}
        return {"privgnn-programmed": {**made, "audit": privgnn_programmed.audit_table(audits)}}
    return {}


@pytest.mark.parametrize("page", [DOCS / "attacks.md", DOCS / "methods" / "privgnn.md"], ids=name_of)
def test_blocks_that_scripts_fill_are_the_kept_results(page: Path, tmp_path: Path) -> None:
    again = shutil.copy(page, tmp_path)
    for script, tables in made_by_scripts(page).items():
        edge_attacks.fill(Path(again), script, tables)
    assert Path(again).read_text() == page.read_text(), "run the script with --page"


def blocks_that_are_filled(page: Path) -> set[str]:
    """The first lines of the blocks that something fills."""
    text = unfenced(page)
    found = [block for block in method_tables.BLOCK.finditer(text) if (RESULTS / f"{block['name']}.json").exists()]
    marks = {f"{script}: {table}" for script, tables in made_by_scripts(page).items() for table in tables}
    marks |= set(MEASURED) if page.name == "eclipse.md" else set()
    opened = {block[1].strip() for block in (*found, *contribute.FAMILY.finditer(text))}
    return opened | {f"<!-- {mark} -->" for mark in marks}


@pytest.mark.parametrize("page", [*FRONT, *PAGES], ids=name_of)
def test_every_block_that_says_so_is_filled(page: Path) -> None:
    """Where a mark has a wrong letter nothing fills the block, and no number in it is looked up."""
    marks = [line for line in unfenced(page).splitlines() if (mark := FILLED.match(line)) and not mark["end"]]
    assert not set(marks) - blocks_that_are_filled(page)


def test_a_table_is_filled_from_results_and_stays_as_it_is(tmp_path: Path) -> None:
    made = {"made_by": made_by("gap"), "selection": "fixed"}
    row = {"dataset": "a", "unit": "edge", "reading": "sound", "epsilon": 1.0, "delta": 1e-5, **made}
    spent = {"certificate_epsilon": 1.0, "sound_epsilon": 1.0, "params": {}, "tuned": {}}
    rest = {"published": None, "source": "", "failed": 0, "failure": ""}
    known = {"seeds": 5, "test": 0.5, "std": 0.01 * 5**0.5, **spent, **rest}
    other = {**row, **known, "epsilon": "inf", "test": None, "std": None}
    rows = [{**row, **known, "method": "gap"}, {**other, "method": "mlp"}, {**row, **known, "method": "gapless"}]
    (tmp_path / "some.json").write_text(json.dumps(rows))
    page = "above\n<!-- lab/results/some.json: gap + mlp -->\nold\n<!-- /results -->\nbelow\n"
    made = method_tables.filled(page, tmp_path)
    assert "| a | gap | 50.0 ± 2.8 |  |\n| a | mlp |  | failed |" in made
    assert "gapless" not in made
    assert "old" not in made
    assert made.startswith("above\n")
    assert method_tables.filled(made, tmp_path) == made
    absent = page.replace("some", "absent")
    assert method_tables.filled(absent, tmp_path) == absent


def test_the_best_methods_are_ranked_by_proven_lines_of_all_graphs(tmp_path: Path) -> None:
    def row(method: str, test: float, **given: Any) -> dict[str, Any]:
        place = {"dataset": "a", "unit": "edge", "split": "random", "reading": "sound", "epsilon": 1.0, "delta": 1e-5}
        spent = {"certificate_epsilon": 1.0, "sound_epsilon": 1.0, "params": {}, "tuned": {}, "selection": "fixed"}
        rest = {"published": None, "source": "", "failed": 0, "failure": "", "seeds": 1, "std": None}
        rest["made_by"] = made_by("gap")
        return {**place, **spent, **rest, "method": method, "test": test, **given}

    rows = [
        *(row("gap", 0.5), row("gap two hops", 0.6), row("progap", 0.4), row("lpgnet", 0.3)),
        *(row("boast", 0.9, reading="published"), row("half", 0.8, dataset="c"), row("other", 0.7, epsilon=2.0)),
        row("mlp", 0.95, certificate_epsilon=0.0, sound_epsilon=0.0),
    ]
    both = [{**each, "dataset": name} for each in rows for name in ("a", "b") if each["dataset"] == "a"]
    (tmp_path / "some.json").write_text(json.dumps([*both, row("half", 0.8)]))
    page = "<!-- lab/results/some.json: best 2 at epsilon 1 on b, a -->\n<!-- /results -->"
    made = method_tables.filled(page, tmp_path).splitlines()
    assert made[2:-2] == [
        "| unit | method | b | a |",
        "| --- | --- | --- | --- |",
        "| edge | gap two hops | 60.0 | 60.0 |",
        "| edge | progap | 40.0 | 40.0 |",
        "| edge | mlp, ε = 0 | 95.0 | 95.0 |",
    ]


def test_lines_stand_beside_each_other_and_measurements_in_columns(tmp_path: Path) -> None:
    place = {"unit": "edge", "reading": "sound", "delta": 1e-5, "selection": "fixed", "params": {}, "tuned": {}}
    spent = {"certificate_epsilon": 1.0, "sound_epsilon": 1.0, "seeds": 1, "std": None}
    rest = {**place, **spent, "published": None, "source": "", "failed": 0, "failure": ""}
    rest["made_by"] = made_by("gap")
    rows = [
        {**rest, "method": method, "dataset": dataset, "epsilon": epsilon, "test": test}
        for method, dataset, epsilon, test in (("b, own", "x", 4.0, 0.5), ("a", "y", 4.0, 0.25), ("a", "x", 2.0, 0.1))
    ]
    (tmp_path / "some.json").write_text(json.dumps(rows))
    (tmp_path / "took.json").write_text(json.dumps([{"own": 1.23456, "own / loop": 20.0, "hidden": 3}]))
    page = "<!-- lab/results/some.json: all at epsilon 4 on x, y -->\n<!-- /results -->"
    made = method_tables.filled(page, tmp_path)
    assert "| unit | method | x | y |" in made
    assert "| edge | b, own | 50.0 |  |\n| edge | a |  | 25.0 |" in made
    page = "<!-- lab/results/took.json: columns own, own / loop -->\n<!-- /results -->"
    assert "| own | own / loop |\n| --- | --- |\n| 1.23 | 20 |" in method_tables.filled(page, tmp_path)


def test_what_a_court_notices_is_counted_by_plan() -> None:
    def row(case: str, plan: str, certified: float) -> dict[str, Any]:
        said = {"claimed": 1.0, "certified": certified, "auc": 0.9, "caught": certified > 1}
        return {"case": case, "plan": plan, **said}

    rows = [row("gap-edge", "gap-edge", 0.5), row("gap-edge-2", "gap-edge", 1.5), row("gap-edge-3", "gap-edge-3", 0.25)]
    made = method_tables.power([*rows, row("ndp-node", "ndp-node", 2.0)])
    assert made.startswith("2 of 3 plans are caught.")
    assert "| `gap-edge` | 1 of 2 | `gap-edge-3`: 0.250 of 1.000, AUC 0.90 |\n| `ndp-node` | 1 of 1 |  |" in made


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


def test_own_networks_are_private_in_ten_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page, namespace = DOCS / "own-networks.md", dict[str, object]()
    shown = blocks(page, "python")
    assert len(shown) == 5
    for block in shown:
        exec(compile(block, page.name, "exec"), namespace)
    for block in shown[1:3]:
        assert len([line for line in block.splitlines() if line]) <= 10


def described() -> list[str]:
    """What the pages of the reference ask for."""
    pages = (DOCS / "api").glob("*.md")
    return sorted({name for page in pages for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE)})


def resolve(name: str) -> Any:
    with contextlib.suppress(ModuleNotFoundError):
        return importlib.import_module(name)
    home, _, last = name.rpartition(".")
    return getattr(resolve(home), last)


def public_parts(name: str) -> Iterator[tuple[str, Any]]:
    """A module's or class's own public functions, classes and properties, and theirs."""
    item = resolve(name)
    if hasattr(item, "__path__"):
        for module in plugins.modules(name):
            yield from public_parts(module.__name__)
    for key, value in list(vars(item).items()):
        shown = inspect.isfunction(value) or inspect.isclass(value) or isinstance(value, property | classmethod)
        if shown and not key.startswith("_") and getattr(value, "__module__", None) in (None, home_of(item)):
            yield f"{name}.{key}", getattr(item, key)
            if inspect.isclass(value):
                yield from public_parts(f"{name}.{key}")


def home_of(item: Any) -> str:
    return str(item.__name__ if inspect.ismodule(item) else item.__module__)


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


@pytest.mark.xdist_group("docs")
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


@pytest.mark.xdist_group("docs")
def test_the_site_needs_no_network(site: Path) -> None:
    for path in site.rglob("*.html"):
        remote = [url for url in Page(path.read_text()).loads if re.match(r"(https?:)?//", url)]
        assert not remote, f"{path.name} loads {remote}"
    for path in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", path.read_text()), path.name


@pytest.mark.xdist_group("docs")
def test_the_search_knows_every_page(site: Path) -> None:
    known = {urldefrag(item["location"])[0] for item in json.loads((site / "search.json").read_text())["items"]}
    assert known == {page.relative_to(DOCS).with_suffix(".html").as_posix() for page in PAGES}


@pytest.mark.xdist_group("docs")
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
