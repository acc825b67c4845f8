"""The pages in a real browser, from disk: what a reader can do, and what never happens."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_up import benchmark_file, result_file, sample

from safepyramid.report.build import build_report

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (found := shutil.which(name))
    ),
    None,
)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium: install Debian's package chromium to test the pages"
)
OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]
STRONG, WEAK = "lab-strong-per-policy", "lab-weak-per-policy"
SLUGS = [f"lab-model-{i}-per-policy" for i in range(20)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on many runs, one of them with a note and numbers that do not end, and long ids."""
    folder = tmp_path_factory.mktemp("many")
    cases = [replace(case, id=f"{case.id}{'-x' * 60}") for case in sample()[:18]]
    data = benchmark_file(folder / "data.json", cases)
    paths = [
        result_file(folder / f"{i:02}.jsonl", cases, model=f"lab/model-{i}", seed=i, skill=i / 20)
        for i in range(20)
    ]
    lines = [json.loads(line) for line in paths[0].read_text(encoding="utf-8").split("\n") if line]
    lines[1] |= {"state": "answered", "violated_rules": list(range(1, 9_000)), "note": "x" * 9_000}
    paths[0].write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    build_report(paths, folder / "site", dataset=data, draws=50)
    return folder / "site"


Open = Callable[..., Any]


@pytest.fixture
def visit(browser: Any, site: Path) -> Iterator[Open]:
    """Open a page of the site; afterwards no page may have failed or gone elsewhere."""
    trouble: list[str] = []
    contexts = []

    def watch(request: Any) -> None:
        if not request.url.startswith(("file:", "data:,")):
            trouble.append(f"request to {request.url}")

    def go(name: str, site: Path = site, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: trouble.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
        page.on("dialog", lambda dialog: trouble.append(f"dialog: {dialog.message}"))
        page.on("request", watch)
        path, _, query = name.partition("?")
        page.goto((site / path).as_uri() + (f"?{query}" if query else ""))
        settled(page)
        return page

    yield go
    for context in contexts:
        context.close()
    assert not trouble


def settled(page: Any) -> None:
    """Wait until the page shows what was chosen last: its data files come on their own."""
    page.locator("#main:not([aria-busy])").wait_for(state="attached")


def choose(page: Any, name: str, value: str) -> None:
    page.select_option(f"[name={name}]", value)
    settled(page)


def shown(page: Any, selector: str) -> list[str]:
    return [text.strip() for text in page.locator(f"{selector}:visible").all_inner_texts()]


def first_block(page: Any, column: str) -> list[str]:
    rows = page.locator(".block").first.locator("tbody tr:visible")
    return [text.strip() for text in rows.locator(column).all_inner_texts()]


def data_file(site: Path, name: str) -> Any:
    """What a data file of the site assigns."""
    text = (site / "data" / f"{name}.js").read_text(encoding="utf-8").removesuffix(";\n")
    return json.loads(text[text.index("=[" if name != "index" else "={") + 1 :])


def failures(site: Path, slug: str) -> list[str]:
    """The pages of the cases that a run failed, in order."""
    cases, rows = data_file(site, "index")["cases"], data_file(site, slug)
    return [case[0] for case, row in zip(cases, rows, strict=True) if row not in ("0", None)]


def test_the_leaderboard_sorts_with_what_is_undefined_last(visit: Open) -> None:
    page = visit("index.html")
    assert first_block(page, "th")[0].startswith("lab/strong")
    head = page.locator(".block").first.locator("th[data-level=L1]")
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    down = [float(text) for text in first_block(page, "td[data-level=L1] .v")]
    assert down == sorted(down, reverse=True)
    head.locator("button").click()
    up = [float(text) for text in first_block(page, "td[data-level=L1] .v")]
    assert up == sorted(up)
    page.locator(".block").first.locator("th.place button").click()
    places = first_block(page, ".place")
    ranked = [place for place in places if place != "–"]
    assert places == ranked + ["–"] * (len(places) - len(ranked))


def test_the_leaderboard_filters(visit: Open, site: Path) -> None:
    page = visit("index.html")
    before = first_block(page, "td[data-level=ALL] .v")
    choose(page, "metric", "rdr")
    assert first_block(page, "td[data-level=ALL] .v") != before
    assert "RDR ↓" in page.locator("#board-says").inner_text()
    choose(page, "metric", "rmr")
    assert first_block(page, "td[data-level=ALL] .v") == before
    blocks = len(shown(page, ".block h2"))
    page.uncheck("[name=published]")
    assert len(shown(page, ".block h2")) == blocks - 2
    page.uncheck("[name=baselines]")
    assert "baseline" not in " ".join(first_block(page, "th"))
    choose(page, "protocol", "per_rule")
    assert all(text.startswith("Per-rule") for text in shown(page, ".block h2"))
    choose(page, "protocol", "")
    choose(page, "domain", "fraud")
    assert first_block(page, ".scored")[0] == "6 / 6" or first_block(page, ".scored")[0].endswith(
        "/ 6"
    )
    choose(page, "level", "L2")
    assert first_block(page, ".scored")[0].endswith("/ 2")
    assert "L2" in page.locator("#board-says").inner_text()


def test_a_view_can_be_linked(visit: Open) -> None:
    page = visit("index.html?metric=rdr&level=L1&domain=fraud")
    assert page.locator("[name=metric]").input_value() == "rdr"
    assert (
        page.locator("#board-says")
        .inner_text()
        .startswith("Shown: RDR ↓, fraud. Place: by RMR over L1")
    )


def test_failures_can_be_walked(visit: Open, site: Path) -> None:
    page = visit(f"cases.html?run={STRONG}&outcome=failed")
    wanted = failures(site, STRONG)
    assert len(wanted) > 3
    assert f"{len(wanted)} of 36 cases" in page.locator("#count").inner_text()
    assert [link.split("?")[0] for link in _hrefs(page, "#case-list tbody a")] == [
        f"case/{slug}.html" for slug in wanted
    ]
    page.locator("#case-list tbody a").first.click()
    page.wait_for_url(f"**/{wanted[0]}.html?*")
    settled(page)
    assert page.locator("#where").inner_text() == f"1 of {len(wanted)}"
    assert page.locator("#previous").get_attribute("aria-disabled") == "true"
    page.locator("#next").click()
    page.wait_for_url(f"**/{wanted[1]}.html?*")
    settled(page)
    assert page.locator("#where").inner_text() == f"2 of {len(wanted)}"
    page.keyboard.press("j")
    page.wait_for_url(f"**/{wanted[2]}.html?*")
    settled(page)
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(f"**/{wanted[1]}.html?*")


def _hrefs(page: Any, selector: str) -> list[str]:
    return [str(each.get_attribute("href")) for each in page.locator(selector).all()]


def test_cases_filter_by_level_domain_type_and_mode(visit: Open) -> None:
    page = visit(f"cases.html?run={WEAK}")
    every = len(_hrefs(page, "#case-list tbody a"))
    choose(page, "type", "exception")
    rows = page.locator("#case-list tbody tr").all_inner_texts()
    assert 0 < len(rows) < every
    assert all("(exception)" in row for row in rows)
    choose(page, "mode", "FM-C1")
    rows = page.locator("#case-list tbody tr").all_inner_texts()
    assert rows
    assert all("FM-C1" in row for row in rows)
    choose(page, "type", "")
    choose(page, "mode", "")
    choose(page, "level", "L2")
    choose(page, "domain", "privacy")
    rows = page.locator("#case-list tbody tr").all_inner_texts()
    assert rows
    assert all("L2\tprivacy" in row for row in rows)


def test_a_case_shows_truth_against_what_each_run_said(visit: Open, site: Path) -> None:
    slug = failures(site, WEAK)[0]
    page = visit(f"case/{slug}.html?run={WEAK}")
    data = json.loads(page.locator("#data").text_content())
    said = next(each for each in data["runs"] if each["run"] == WEAK)
    for rule, violated in data["rules"]:
        chip = page.locator(f"#r{rule} .chip").inner_text()
        if said.get("said") is None:
            continue
        expected = {
            (1, True): "● found",
            (1, False): "○ missed",
            (0, True): "▲ flagged",
            (0, False): "· rightly",
        }
        assert chip.startswith(expected[violated, rule in said["said"]])
    heads = page.locator("#matrix thead th")
    assert heads.count() == 2 + len(data["runs"])
    assert page.locator("#matrix tbody tr").count() >= len(data["rules"])
    page.keyboard.press("r")
    chosen = page.locator("[name=run]").input_value()
    assert chosen != WEAK
    assert chosen in {each["run"] for each in data["runs"]}


def test_a_hostile_reply_is_only_text(visit: Open, site: Path) -> None:
    index = data_file(site, "index")
    (slug,) = (
        r["slug"] for r in index["runs"] if "<b>" in r["name"] and r["protocol"] == "per_policy"
    )
    asked = [
        case[0]
        for case, row in zip(index["cases"], data_file(site, slug), strict=True)
        if row is not None
    ]
    page = visit("cases.html")
    seen = set()
    for name in asked:
        page.goto(f"{(site / 'case' / f'{name}.html').as_uri()}?run={slug}")
        said = next(
            each
            for each in json.loads(page.locator("#data").text_content())["runs"]
            if each["run"] == slug
        )
        reply = page.locator("#reply pre")
        assert reply.evaluate("e => e.textContent") == said["reply"]
        assert reply.evaluate("e => e.children.length") == 0
        assert reply.evaluate("e => getComputedStyle(e).unicodeBidi") == "isolate"
        assert page.title() != "owned"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        seen.add(said["reply"][:30])
    assert len(seen) == 8


def test_two_runs_compare(visit: Open, site: Path) -> None:
    page = visit(f"compare.html?a={WEAK}&b={STRONG}")
    row = page.locator('#difference tr[data-row="rmr|ALL"] td')
    first, second, difference = (row.nth(i).inner_text().replace("−", "-") for i in range(3))
    assert float(difference) == pytest.approx(float(second) - float(first), abs=0.11)
    assert float(difference) > 0
    page.locator("#swap").click()
    settled(page)
    assert float(row.nth(2).inner_text().replace("−", "-")) == -float(difference)
    cells = [
        int(text) for text in page.locator("#crosstab tbody tr td:last-child").all_inner_texts()
    ]
    assert cells[-1] == 36 == sum(cells[:-1])
    for kind, count in (("b", cells[1]), ("a", cells[2]), ("changed", cells[3])):
        choose(page, "flip", kind)
        assert page.locator("#flip-list tbody tr").count() == count
        assert page.locator("#flip-list").is_visible() == (count > 0)


def test_bold_is_what_holds_with_all_pairs_in_mind(visit: Open, many: Path) -> None:
    page = visit(f"compare.html?a={SLUGS[0]}&b={SLUGS[-1]}", site=many)
    rows = json.loads(page.locator("#data").text_content())["rows"][f"0|{len(SLUGS) - 1}"]
    alone = [row for row in rows if row["p"] is not None and row["p"] < 0.05 < row["p_holm"]]
    assert alone
    for row in rows:
        bold = page.locator(f'#difference tr[data-row="{row["metric"]}|{row["level"]}"] b').count()
        assert bold == (row["p_holm"] < 0.05)


def test_a_run_is_not_compared_with_itself(visit: Open) -> None:
    page = visit(f"compare.html?a={WEAK}&b={STRONG}")
    choose(page, "b", WEAK)
    assert page.locator("#pair-warning").inner_text() == "Choose two different runs."
    assert not page.locator("#compared").is_visible()
    choose(page, "b", STRONG)
    assert page.locator("#compared").is_visible()


def test_runs_that_cannot_be_compared_say_so(visit: Open) -> None:
    page = visit(f"compare.html?a={STRONG}&b=lab-strong-per-rule")
    assert "differ in protocol" in page.locator("#pair-warning").inner_text()
    choose(page, "b", "lab-other-per-policy")
    assert "only the 12 of 36" in page.locator("#pair-warning").inner_text()


def test_dark_and_light(visit: Open) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    dark = visit("index.html", color_scheme="dark")
    light = visit("index.html", color_scheme="light")
    assert dark.evaluate(background) != light.evaluate(background)
    button = light.locator("#theme-button")
    button.click()
    assert button.inner_text() == "Theme: light"
    light.keyboard.press("t")
    assert button.inner_text() == "Theme: dark"
    assert light.evaluate(background) == dark.evaluate(background)
    light.reload()
    assert light.evaluate(background) == dark.evaluate(background)
    assert light.locator("#theme-button").inner_text() == "Theme: dark"


def test_keys_reach_everything(visit: Open) -> None:
    page = visit("index.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.locator(".skip").bounding_box()["x"] >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("j")
    page.keyboard.press("j")
    first = page.evaluate("document.activeElement.textContent")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("k")
    assert page.evaluate("document.activeElement.textContent") != first
    page.keyboard.press("?")
    assert page.locator("#keys").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#keys").is_visible()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/run/*.html")


@pytest.mark.parametrize("name", ["index.html", "cases.html", "compare.html", "run", "case"])
def test_a_phone_needs_no_sideways_scrolling(visit: Open, site: Path, name: str) -> None:
    if "." not in name:
        name = f"{name}/{min(path.name for path in (site / name).glob('*.html'))}"
    page = visit(name, viewport={"width": 375, "height": 800}, is_mobile=True)
    page.wait_for_timeout(200)
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    small = page.evaluate(
        "[...document.querySelectorAll('main p, main td, main li')].filter("
        "e => e.offsetParent && parseFloat(getComputedStyle(e).fontSize) < 11).length"
    )
    assert small == 0


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("name", ["index.html", "cases.html", "compare.html", "run", "case"])
def test_many_runs_and_endless_notes_stay_in_the_page(
    visit: Open, many: Path, name: str, width: int
) -> None:
    if "." not in name:
        name = f"{name}/{min(path.name for path in (many / name).glob('*.html'))}"
    page = visit(f"{name}?run={SLUGS[0]}", site=many, viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.documentElement.scrollHeight") < 15_000


def test_rows_of_a_list_show_all_at_once(visit: Open) -> None:
    """No id breaks, and no column off the screen makes a row tall."""
    links = "[...document.querySelectorAll('#case-list a')].map(e => e.getClientRects().length)"
    cells = (
        "[...document.querySelectorAll('#case-list :is(th, td)')].filter(e => e.offsetParent)"
        ".map(e => e.getBoundingClientRect().right)"
    )
    for width in (1280, 360):
        page = visit(f"cases.html?run={WEAK}&outcome=", viewport={"width": width, "height": 800})
        assert page.locator("#case-list tbody tr").count() == 36
        assert set(page.evaluate(links)) == {1}
        assert max(page.evaluate(cells)) <= width


def test_a_folded_framework_stays_folded(visit: Open) -> None:
    page = visit("case/acad-001-l2.html")
    assert page.locator(".framework").get_attribute("open") is not None
    page.locator(".framework summary").click()
    page.reload()
    settled(page)
    assert page.locator(".framework").get_attribute("open") is None


def test_paper_has_all_text_and_no_controls(visit: Open, site: Path) -> None:
    page = visit(f"case/{failures(site, WEAK)[0]}.html?run={WEAK}")
    closed = page.locator("main details:not([open])").count()
    assert closed
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.locator("main details:not([open])").count() == 0
    assert not page.locator("header").is_visible()
    assert not page.locator("#walk").is_visible()
    assert page.locator(".conversation").evaluate("e => e.scrollHeight <= e.clientHeight + 1")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("main details:not([open])").count() == closed


def test_without_scripts_the_numbers_and_texts_are_there(visit: Open) -> None:
    page = visit("index.html", java_script_enabled=False)
    assert first_block(page, "td[data-level=ALL] .v")[0] != "–"
    case = visit("case/acad-001-l1.html", java_script_enabled=False)
    assert case.locator(".turn").count() > 4
    assert case.locator(".rule").count() > 12
