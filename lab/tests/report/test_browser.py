"""The pages in a real browser: they render, stay offline, sort, filter, print, and take hostile text for text."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import graphveil as gv
from graphveil.report import Bar, card_page, summary
from graphveil_lab.report.page import report
from graphveil_lab.report.records import read
from reported import COURT, NODES, edge_attacks, row, write

webdriver = pytest.importorskip("selenium.webdriver")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import Select  # noqa: E402

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")

pytestmark = [
    pytest.mark.skipif(
        BROWSER is None or DRIVER is None,
        reason="no browser: install Debian's packages chromium and chromium-driver",
    ),
]

EVIL = "</script><script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\">"
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--force-prefers-reduced-motion",  # a click must not race with a scroll
)  # fmt: skip


def rows() -> list[dict[str, Any]]:
    """Two datasets, three methods, all columns, one line of hostile text."""
    made = [
        row(dataset=dataset, method=method, epsilon=epsilon, certificate_epsilon=epsilon, sound_epsilon=epsilon,
            test=0.5 + place / 20 + epsilon / 50, audited=epsilon / 4, audit="canary_edge", soundness="proven",
            interval=0.01, seconds=12.5, peak_mb=900.0, split="random", published=0.6 if place == 1 else None)
        for dataset in ("cora", "chameleon-undirected")
        for place, method in enumerate(("gap", "hearsay", "eclipse"))
        for epsilon in (1.0, 2.0, 8.0)
    ]  # fmt: skip
    unproven = {"sound_epsilon": "inf", "soundness": "not proven; provable: inf"}
    made += [row(method="gap", reading="published", split="random", **unproven)]
    made += [row(method=EVIL, epsilon="inf", certificate_epsilon="inf", failed=1, failure=EVIL, split="random")]
    return [*made, row(method="dpsgd", unit="node", dataset="pubmed", split="random")]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The report, the report of thousands of rows, the summary of a run and its card."""
    folder = tmp_path_factory.mktemp("pages")
    many = [row(method=f"gap {index % 40}", epsilon=1.0 + index // 40, test=index / 5000) for index in range(1000)]
    files = {"kept": rows(), "attacked": edge_attacks(), "members": NODES, "court": COURT, "other": [{"x": 1.5}]}
    made = {"report": report(read([write(folder / f"{name}.json", held) for name, held in files.items()]))}
    made["many"] = report(read([write(folder / "many.json", many)]))
    graph = gv.datasets.load("chain-s")
    release = gv.train(graph, gv.methods.Gap(epochs=1), epsilon=1, delta=1e-5, unit="edge", reading="published", seed=0)
    bars = [Bar(f"gap {EVIL}", 0.5, 1.0), Bar("mlp, no edges", 0.4, 0.0)]
    made["summary"] = summary(release, bars, scores=release.evaluate("test"))
    made["card"] = card_page(release)
    for name, text in made.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in made}


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One browser for all tests; its driver is named, so that none is looked for or downloaded."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(BROWSER)
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=DRIVER))
    yield driver
    driver.quit()


def opened(chrome: Any, page: Path, width: int = 1280) -> None:
    """Load the page at this width; fail on anything the console or the network says about it."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    chrome.get_log("performance")
    chrome.get(page.as_uri())
    assert chrome.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in chrome.get_log("performance")]
    asked = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    assert asked == [page.as_uri()]


def shown(chrome: Any, table: str, column: str) -> list[str]:
    """The visible cells of a column, from above."""
    script = """
        const table = document.getElementById(arguments[0]);
        const at = [...table.tHead.rows[0].cells].findIndex((head) => head.dataset.name === arguments[1]);
        const rows = [...table.tBodies[0].rows].filter((row) => row.offsetParent !== null);
        return rows.map((row) => row.cells[at].textContent.trim());"""
    found: list[str] = chrome.execute_script(script, table, column)
    return found


def heading(chrome: Any, table: str, column: str) -> Any:
    return chrome.find_element(By.CSS_SELECTOR, f'#{table} th[data-name="{column}"]')


def choose(chrome: Any, table: str, column: str, value: str) -> None:
    found = chrome.find_element(By.CSS_SELECTOR, f'select[data-table="{table}"][data-column="{column}"]')
    Select(found).select_by_visible_text(value)


def count(chrome: Any, table: str) -> str:
    said: str = chrome.find_element(By.CSS_SELECTOR, f'[data-count="{table}"]').text
    return said


def test_report_renders_without_errors_or_requests(chrome: Any, pages: dict[str, Path]) -> None:
    opened(chrome, pages["report"])
    assert chrome.title == "graphveil: report"
    assert chrome.find_element(By.TAG_NAME, "html").get_attribute("lang") == "en"
    charts = [chart for chart in chrome.find_elements(By.CSS_SELECTOR, "svg.chart") if chart.is_displayed()]
    # Brackets of the unit, curves of the first dataset, two of the attack, one per other place that is shown.
    assert len(charts) == 4
    assert all(chart.size["height"] > 100 for chart in charts)
    assert len(chrome.find_elements(By.CSS_SELECTOR, "main")) == 1
    assert chrome.find_element(By.ID, "card-gap").is_displayed()


def test_headings_sort_by_mouse(chrome: Any, pages: dict[str, Path]) -> None:
    opened(chrome, pages["report"])
    head = heading(chrome, "rows", "test %")
    head.find_element(By.TAG_NAME, "button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    found = [float(text.split(" ")[0]) for text in shown(chrome, "rows", "test %")]
    assert found == sorted(found)
    head.find_element(By.TAG_NAME, "button").click()
    assert head.get_attribute("aria-sort") == "descending"
    found = [float(text.split(" ")[0]) for text in shown(chrome, "rows", "test %")]
    assert found == sorted(found, reverse=True)


def test_headings_sort_by_keyboard_and_infinity_is_a_number(chrome: Any, pages: dict[str, Path]) -> None:
    opened(chrome, pages["report"])
    button = heading(chrome, "rows", "ε").find_element(By.TAG_NAME, "button")
    chrome.execute_script(
        "arguments[0].focus()", heading(chrome, "rows", "dataset").find_element(By.TAG_NAME, "button")
    )
    chrome.switch_to.active_element.send_keys(Keys.TAB)
    assert chrome.switch_to.active_element == button
    assert chrome.execute_script("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    chrome.switch_to.active_element.send_keys(Keys.ENTER)
    found = shown(chrome, "rows", "ε")
    assert [found[0], found[-1]] == ["1", "∞"]
    chrome.switch_to.active_element.send_keys(Keys.SPACE)
    assert shown(chrome, "rows", "ε")[0] == "∞"
    assert heading(chrome, "rows", "dataset").get_attribute("aria-sort") is None


def test_menus_choose_figures_and_rows(chrome: Any, pages: dict[str, Path]) -> None:
    opened(chrome, pages["report"])
    assert set(shown(chrome, "rows", "dataset")) == {"cora"}
    choose(chrome, "rows", "dataset", "chameleon-undirected")
    assert set(shown(chrome, "rows", "dataset")) == {"chameleon-undirected"}
    headings = [item.text for item in chrome.find_elements(By.CSS_SELECTOR, "#curves h3") if item.is_displayed()]
    assert len(headings) == 1
    assert "chameleon-undirected" in headings[0]
    choose(chrome, "rows", "unit", "node")
    assert shown(chrome, "rows", "method") == ["dpsgd"]
    assert count(chrome, "rows") == "Showing 1 of 21 rows"
    output = chrome.find_element(By.CSS_SELECTOR, '[data-count="rows"]')
    assert output.get_attribute("aria-live") == "polite"


def test_words_method_and_reading_narrow_by_keyboard(chrome: Any, pages: dict[str, Path]) -> None:
    opened(chrome, pages["report"])
    chrome.find_element(By.CSS_SELECTOR, '[data-widen="rows"]').send_keys(Keys.ENTER)
    assert count(chrome, "rows") == "Showing 21 of 21 rows"
    words = chrome.find_element(By.CSS_SELECTOR, 'input[data-table="rows"]')
    words.send_keys("GAP chameleon")
    assert count(chrome, "rows") == "Showing 3 of 21 rows"
    words.send_keys(Keys.CONTROL, "a")
    words.send_keys(Keys.DELETE)
    choose(chrome, "rows", "method", "gap")
    assert count(chrome, "rows") == "Showing 7 of 21 rows"
    choose(chrome, "rows", "reading", "published")
    assert count(chrome, "rows") == "Showing 1 of 21 rows"
    choose(chrome, "court-0", "verdict", "refuted")
    assert shown(chrome, "court-0", "case") == ["case-one"]


def test_overview_and_legend_answer(chrome: Any, pages: dict[str, Path]) -> None:
    opened(chrome, pages["report"])
    blocks = chrome.find_element(By.CSS_SELECTOR, "select[data-blocks]")
    assert Select(blocks).first_selected_option.text == "2"
    visible = """
        const blocks = [...document.querySelectorAll(".matrix tbody")].filter((block) => block.offsetParent);
        return blocks.map((block) => block.dataset.epsilon);"""
    assert chrome.execute_script(visible) == ["2", ""]
    Select(blocks).select_by_visible_text("8")
    assert chrome.execute_script(visible) == ["8", ""]
    entry = chrome.find_element(By.CSS_SELECTOR, "#overview .legend button")
    entry.send_keys(Keys.ENTER)
    assert entry.get_attribute("aria-pressed") == "true"
    assert len(chrome.find_elements(By.CSS_SELECTOR, "#overview .lit [data-line].on")) == 1


def lit(chrome: Any) -> list[str]:
    """The lines of the first dataset's curves that are set apart."""
    shown = [item for item in chrome.find_elements(By.CSS_SELECTOR, "#curves .place") if item.is_displayed()]
    return [line.get_attribute("data-line") for line in shown[0].find_elements(By.CSS_SELECTOR, ".lit [data-line].on")]


def test_three_proven_lines_are_set_apart_at_first(chrome: Any, pages: dict[str, Path]) -> None:
    opened(chrome, pages["report"])
    assert set(lit(chrome)) == {"gap", "hearsay", "eclipse"}


def test_a_mark_answers_to_a_pointer(chrome: Any, pages: dict[str, Path]) -> None:
    """And not only the line through it, which is thinner."""
    opened(chrome, pages["report"])
    script = """
        const path = [...document.querySelectorAll("#curves .place:not(.off) .line:not(.across)")].at(-1);
        path.scrollIntoView({ block: "center" });
        const mark = path.getPointAtLength(0).matrixTransform(path.getScreenCTM());
        const line = path.closest("[data-line]");
        const found = document.elementFromPoint(mark.x - 3, mark.y);
        return [found.closest("[data-line]")?.dataset.line, line.dataset.line, line.firstChild.textContent];"""
    found, line, title = chrome.execute_script(script)
    assert found == line
    assert title.split("\n")[0] == line
    assert title.split("\n")[1].startswith("ε 1: ")


def test_drawings_have_words_or_are_not_read_aloud(chrome: Any, pages: dict[str, Path]) -> None:
    opened(chrome, pages["report"])
    nodes = [node for node in chrome.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"] if not node["ignored"]]
    drawn = [node for node in nodes if node["role"]["value"] in ("image", "SvgRoot", "graphics-document")]
    assert drawn
    assert all(node["name"]["value"] for node in drawn)


def test_a_claim_without_proof_is_marked_wherever_it_stands(chrome: Any, pages: dict[str, Path]) -> None:
    opened(chrome, pages["report"])
    Select(chrome.find_element(By.CSS_SELECTOR, "select[data-blocks]")).select_by_visible_text("1")
    for place in (".matrix th .bad", ".legend .bad"):
        marks = [mark for mark in chrome.find_elements(By.CSS_SELECTOR, place) if mark.is_displayed()]
        assert [mark.text for mark in marks] == ["not proven"]
        said = marks[0].find_element(By.XPATH, "./ancestor::*[self::th or self::li]").text
        assert "gap, published claim" in said
    entry = marks[0].find_element(By.XPATH, "./ancestor::button")
    entry.send_keys(Keys.ENTER)
    assert "gap, published claim" in lit(chrome)


def test_thousands_of_rows_are_shown_in_steps(chrome: Any, pages: dict[str, Path]) -> None:
    opened(chrome, pages["many"])
    assert count(chrome, "rows") == "Showing 300 of 1,000 matching rows"
    heading(chrome, "rows", "test %").find_element(By.TAG_NAME, "button").click()
    heading(chrome, "rows", "test %").find_element(By.TAG_NAME, "button").click()
    assert shown(chrome, "rows", "test %")[0].startswith("19.98"), "which is one of the packed rows"
    chrome.find_element(By.CSS_SELECTOR, '[data-more="rows"]').click()
    assert len(shown(chrome, "rows", "ε")) == 600


@pytest.mark.parametrize("width", [360, 390, 1280])
@pytest.mark.parametrize("name", ["report", "summary", "card"])
def test_no_page_scrolls_sideways(chrome: Any, pages: dict[str, Path], name: str, width: int) -> None:
    """On a phone and on a desk; and no code is broken within a word."""
    opened(chrome, pages[name], width)
    assert chrome.execute_script("return document.documentElement.scrollWidth") <= width
    wide = """
        const outside = [...document.querySelectorAll("main *")].filter((item) => !item.closest(".scroll, svg"));
        return outside.filter((item) => item.getBoundingClientRect().right > arguments[0] + 1).length;"""
    assert chrome.execute_script(wide, width) == 0
    broken = "return [...document.querySelectorAll('code')].map((item) => getComputedStyle(item).overflowWrap);"
    assert "anywhere" not in chrome.execute_script(broken)


def test_print_shows_all_rows_and_no_controls(chrome: Any, pages: dict[str, Path]) -> None:
    opened(chrome, pages["report"])
    assert len(shown(chrome, "rows", "ε")) < 21
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert len(shown(chrome, "rows", "ε")) == 21
        places = chrome.find_elements(By.CSS_SELECTOR, ".place")
        assert all(place.is_displayed() for place in places)
        assert not any(item.is_displayed() for item in chrome.find_elements(By.CSS_SELECTOR, "form, nav, select"))
    finally:
        chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    printed = chrome.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})["data"]
    assert base64.b64decode(printed).startswith(b"%PDF")


def test_without_a_script_all_is_there(chrome: Any, pages: dict[str, Path]) -> None:
    chrome.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        opened(chrome, pages["report"])
        assert (
            len([line for line in chrome.find_elements(By.CSS_SELECTOR, "#rows tbody tr") if line.is_displayed()]) == 21
        )
        assert not any(item.is_displayed() for item in chrome.find_elements(By.CSS_SELECTOR, "select, button"))
    finally:
        chrome.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_hostile_text_is_shown_not_run(chrome: Any, pages: dict[str, Path]) -> None:
    opened(chrome, pages["report"])
    assert chrome.title == "graphveil: report"
    assert chrome.find_elements(By.TAG_NAME, "img") == []
    assert EVIL in shown(chrome, "rows", "method")
    choose(chrome, "rows", "method", EVIL)
    assert shown(chrome, "rows", "ε") == ["∞"]


def test_a_card_renders(chrome: Any, pages: dict[str, Path]) -> None:
    opened(chrome, pages["card"])
    assert chrome.title == "graphveil: card of gap on chain-s"
    assert "NOT FOR RELEASE" in chrome.find_element(By.CSS_SELECTOR, ".signed").text
    assert len(chrome.find_elements(By.CSS_SELECTOR, ".meaning .own")) == 1
    assert chrome.find_element(By.CSS_SELECTOR, "svg.chart").size["height"] > 50


def test_summary_renders(chrome: Any, pages: dict[str, Path]) -> None:
    opened(chrome, pages["summary"])
    assert chrome.title == "graphveil: gap on chain-s"
    assert chrome.find_elements(By.TAG_NAME, "img") == []
    assert "refuted" in chrome.find_element(By.CSS_SELECTOR, ".guarantee").text
    assert chrome.find_element(By.CSS_SELECTOR, "svg.chart").size["height"] > 50
