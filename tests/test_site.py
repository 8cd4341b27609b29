"""The built site in headless Chromium: what a reader sees, hears and touches, on every page.

These tests need `_build/html` (`make book`) and Chromium. Without Chromium they are skipped and say
so; with IBRELU_REQUIRE_BROWSER set, as in continuous integration, that is a failure.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from weigh import CONTENT as CONTENT_BUDGET
from weigh import EXPLORER as EXPLORER_BUDGET
from weigh import PAGE as PAGE_BUDGET
from weigh import explorers, own_weight, weight

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "_build" / "html"
# `genindex` and the redirect at the top are made by Sphinx and hold no text of ours.
GENERATED = {"index.html", "genindex.html", "py-modindex.html"}
PAGES = sorted(
    path
    for path in (p.relative_to(SITE).as_posix() for p in SITE.rglob("*.html"))
    if not path.startswith("_") and path not in GENERATED
)
CONTENT = [path for path in PAGES if path != "search.html"]


@dataclass
class Visit:
    """A page in the browser, and what happened while it loaded."""

    page: Any
    errors: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    loaded: set[str] = field(default_factory=set)


def open_page(chromium: Any, base: str, url: str, arrives: str = "**") -> Visit:
    """Open a page, let nothing out of the machine, and wait until the theme's menus answer too.

    `arrives` is the pattern of the address at which a redirect ends.
    """
    if not PAGES:
        pytest.fail("there is no built site to test; run `make book`")
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    visit = Visit(context.new_page())

    def watch(route: Any) -> None:
        target = route.request.url
        if target.startswith(base):
            visit.loaded.add(target.removeprefix(base).partition("?")[0])
            route.continue_()
        elif target.startswith(("data:", "blob:")):
            route.continue_()
        else:
            visit.outside.append(target)
            route.abort()

    context.route("**/*", watch)
    page = visit.page
    page.on("pageerror", lambda error: visit.errors.append(f"script: {error}"))
    page.on("console", lambda m: visit.errors.append(m.text) if m.type == "error" else None)
    page.on(
        "response",
        lambda r: visit.errors.append(f"{r.status}: {r.url}") if r.status >= 400 else None,
    )
    page.goto(url)
    page.wait_for_url(arrives)
    page.wait_for_load_state("load")
    page.wait_for_function("document.documentElement.dataset.loaded === 'pydata-sphinx-theme'")
    page.evaluate("document.fonts.ready.then(() => null)")
    return visit


@pytest.fixture(scope="module")
def visit(request: pytest.FixtureRequest, chromium: Any, address: str) -> Iterator[Visit]:
    """Open each page once; the tests of a page share it."""
    opened = open_page(chromium, address, address + request.param)
    yield opened
    opened.page.context.close()


every_page = pytest.mark.parametrize("visit", PAGES, indirect=True)
every_text = pytest.mark.parametrize("visit", CONTENT, indirect=True)


def untypeset(page: Any) -> list[str]:
    """List formulas that are empty, in error, or still as their authors wrote them."""
    return page.evaluate(
        r"""() => {
          const wrong = [...document.querySelectorAll("merror")].map(node => "error: " + node);
          for (const node of document.querySelectorAll("article .math"))
            if (!node.querySelector("math > *")) wrong.push("not set: " + node.textContent);
          const walker = document.createTreeWalker(
            document.querySelector("article"), NodeFilter.SHOW_TEXT);
          while (walker.nextNode()) {
            const text = walker.currentNode;
            if (text.parentElement.closest("code, pre, script, style")) continue;
            if (/\\\(|\\\[|\$\$|\$[^$\s][^$]*\$|\\[a-z]{2}/.test(text.data))
              wrong.push("left: " + text.data);
          }
          return wrong;
        }"""
    )


def test_every_page_of_the_contents_is_built():
    yaml = pytest.importorskip("yaml")
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    chapters = [c["file"] for part in contents["parts"] for c in part["chapters"]]
    missing = {f"{name}.html" for name in [contents["root"], *chapters]} - set(PAGES)
    assert not missing, "run `make book`"


@every_page
def test_nothing_is_fetched_from_elsewhere(visit):
    assert visit.outside == []


@every_page
def test_no_script_fails_and_nothing_is_missing(visit):
    assert visit.errors == []


@every_page
def test_a_page_keeps_its_weight_budget(visit):
    heaviest = sorted(((weight(SITE / name), name) for name in visit.loaded), reverse=True)
    assert sum(size for size, _ in heaviest) <= PAGE_BUDGET, heaviest[:5]
    assert own_weight(SITE, visit.loaded) <= CONTENT_BUDGET
    scripts = [name for name in visit.loaded if "fontawesome" in name or "thebe" in name]
    assert scripts == []


@pytest.mark.parametrize("name", CONTENT)
def test_each_explorer_keeps_its_weight_budget(name):
    for title, size in explorers(SITE / name).items():
        assert size <= EXPLORER_BUDGET, title


@every_page
def test_every_icon_is_drawn(visit):
    blank = visit.page.evaluate(
        """[...document.querySelectorAll(".fas, .fab, .fa-solid, .fa-brands")]
          .filter(icon => !getComputedStyle(icon).maskImage.startsWith("url("))
          .map(icon => icon.className)"""
    )
    assert blank == []


@every_text
def test_every_formula_is_typeset(visit):
    assert untypeset(visit.page) == []


@every_page
def test_a_phone_shows_the_page_without_sideways_scrolling(visit):
    page = visit.page
    page.set_viewport_size({"width": 375, "height": 800})
    try:
        wide = page.evaluate(
            """() => document.documentElement.scrollWidth <= innerWidth ? [] :
              [...document.querySelectorAll("body *")]
                .filter(n => n.getBoundingClientRect().right > innerWidth + 1)
                .filter(n => {  // what scrolls in a box of its own is in order
                  for (let up = n.parentElement; up !== document.body; up = up.parentElement)
                    if (getComputedStyle(up).overflowX !== "visible") return false;
                  return true;
                })
                .map(n => n.tagName + "." + n.className).slice(0, 8)
                .concat(["page: " + document.documentElement.scrollWidth])"""
        )
    finally:
        page.set_viewport_size({"width": 1280, "height": 900})
    assert wide == []


@every_page
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(visit, theme):
    from axe_playwright_python.sync_playwright import Axe

    visit.page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
    visit.page.wait_for_timeout(250)  # colours that are in transition have no contrast to measure
    try:
        options = {"resultTypes": ["violations"], "preload": False}
        if theme == "dark":  # all but the colours is as in the light
            options["runOnly"] = ["color-contrast"]
        found = Axe().run(visit.page, options=options).response["violations"]
    finally:
        visit.page.evaluate("document.documentElement.dataset.theme = 'light'")
    violations = {
        violation["id"]: [node["html"][:200] for node in violation["nodes"]][:5]
        for violation in found
    }
    assert violations == {}


@every_text
def test_every_picture_says_what_is_to_be_seen(visit):
    pictures = visit.page.evaluate(
        "[...document.querySelectorAll('article img')].map(i => [i.getAttribute('alt'), i.src])"
    )
    for alt, source in pictures:
        assert alt, f"no alt text: {source[:80]}"
        # Chinese and Japanese write no spaces: there a sentence is known by its full stop.
        assert " " in alt.strip() or alt.endswith("。"), (
            f"a word or a file name is no description: {alt}"
        )
        assert not re.search(r"\.(png|svg|jpe?g|gif)$", alt.strip(), re.IGNORECASE), alt


@every_text
def test_headings_are_in_order(visit):
    levels = visit.page.evaluate(
        "[...document.querySelectorAll('article :is(h1, h2, h3, h4, h5, h6)')]"
        ".map(h => Number(h.tagName[1]))"
    )
    assert levels[:1] == [1]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels)), levels


@every_text
def test_a_picture_in_the_dark_stands_on_an_opaque_ground(visit):
    clear = visit.page.evaluate(
        """() => {
          document.documentElement.dataset.theme = "dark";
          const clear = [...document.querySelectorAll("article :is(.cell_output, figure) img")]
            .filter(i => getComputedStyle(i).backgroundColor !== "rgb(255, 255, 255)")
            .map(i => i.alt);
          document.documentElement.dataset.theme = "light";
          return clear;
        }"""
    )
    assert clear == []


def explorer_state(explorer: Any) -> tuple[str, str]:
    """Return an explorer's picture and its caption."""
    picture = explorer.locator("img, svg").first
    source = picture.get_attribute("src") or picture.inner_html()
    return source, explorer.locator("figcaption").inner_text()


def move(visit: Visit, explorer: Any, slider: Any, key: str) -> tuple[str, str]:
    """Press a key on a slider and return what the explorer then shows."""
    slider.focus()
    visit.page.keyboard.press(key)
    visit.page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    return explorer_state(explorer)


def check_explorers(visit: Visit) -> int:
    """Move each slider of each explorer by keyboard, and see picture and caption follow."""
    explorers = visit.page.locator(".ibrelu-explorer").all()
    for explorer in explorers:
        title = explorer.get_attribute("aria-label")
        assert explorer.locator("figcaption").get_attribute("aria-live") == "polite"
        sliders = explorer.locator("input[type=range]").all()
        assert sliders, f"{title}: no slider"
        for slider in sliders:
            slider.scroll_into_view_if_needed()
            start = move(visit, explorer, slider, "Home")
            assert slider.get_attribute("aria-valuetext"), title
            end = move(visit, explorer, slider, "End")
            assert end[0] != start[0], f"{title}: the picture stays"
            assert end[1] != start[1], f"{title}: the caption stays"
            before = move(visit, explorer, slider, "ArrowLeft")
            assert before[1] != end[1], f"{title}: the arrow keys do nothing"
            assert move(visit, explorer, slider, "Home") == start
    return len(explorers)


@every_text
def test_each_explorer_answers_the_keyboard_with_picture_and_caption(visit):
    check_explorers(visit)
    assert visit.errors == []


def test_the_landing_page_lets_the_reader_touch_the_result(chromium, address):
    opened = open_page(chromium, address, address, arrives="**/book/index.html")
    assert check_explorers(opened) >= 1
    opened.page.context.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Address of the site, packed and unpacked elsewhere, as a reader without a network has it."""
    home = tmp_path_factory.mktemp("a reader's Bücher")
    packed = shutil.make_archive(str(home / "book"), "zip", SITE.parent, "html")
    shutil.unpack_archive(packed, home)
    return (home / "html").as_uri() + "/"


@pytest.mark.parametrize("name", ["index.html", *CONTENT])
def test_a_page_works_from_an_unpacked_folder(chromium, folder, name):
    arrives = "**/book/index.html" if name == "index.html" else "**"
    opened = open_page(chromium, folder, folder + name, arrives=arrives)
    assert untypeset(opened.page) == []
    for explorer in opened.page.locator(".ibrelu-explorer").all():
        slider = explorer.locator("input[type=range]").first
        slider.wait_for()
        start = move(opened, explorer, slider, "Home")
        assert move(opened, explorer, slider, "End") != start
    assert opened.outside == []
    assert opened.errors == []
    opened.page.context.close()


LANDING = "book/index.html"


def test_with_scripts_off_the_first_frame_stands_with_a_note(chromium):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{SITE.as_uri()}/{LANDING}")
    explorer = page.locator(".ibrelu-explorer").first
    assert explorer.locator("img").bounding_box()["height"] > 100
    assert explorer.locator("figcaption").inner_text().strip()
    assert explorer.locator(".ibrelu-note").is_visible()
    assert explorer.locator("input").count() == 0
    page.goto(f"{SITE.as_uri()}/book/regression/two-neurons.html")
    assert untypeset(page) == []
    assert page.locator("article math").first.bounding_box()["width"] > 5
    context.close()


def test_the_menus_answer_once_the_page_stands(chromium, address):
    opened = open_page(chromium, address, address + LANDING)
    page, mode = opened.page, "document.documentElement.dataset.mode"
    before = page.evaluate(mode)
    page.locator(".theme-switch-button:visible").first.click()
    assert page.evaluate(mode) != before
    page.keyboard.press("Control+k")
    assert page.locator("#pst-search-dialog input").is_visible()
    opened.page.context.close()


@pytest.mark.parametrize("name", CONTENT)
def test_on_a_phone_no_formula_sticks_out(chromium, address, name):
    context = chromium.new_context(viewport={"width": 375, "height": 800})
    page = context.new_page()
    page.goto(address + name)
    page.evaluate("document.fonts.ready.then(() => null)")
    out = page.evaluate(
        """() => {
          for (const part of document.querySelectorAll("article details")) part.open = true;
          for (const part of document.querySelectorAll(".toggle-hidden"))
            part.classList.remove("toggle-hidden");
          const scrolls = node => node.localName === "body" ? false
            : ["auto", "scroll"].includes(getComputedStyle(node).overflowX)
              || scrolls(node.parentElement);
          return [...document.querySelectorAll("article math")]
            .filter(m => m.getBoundingClientRect().right
              > m.closest("p, li, dd, td, th, div, h1, h2, h3").getBoundingClientRect().right + 1)
            .filter(m => !scrolls(m)).map(m => m.textContent);
        }"""
    )
    assert out == []
    context.close()


def test_a_finger_moves_a_slider(chromium):
    context = chromium.new_context(viewport={"width": 375, "height": 800}, has_touch=True)
    page = context.new_page()
    page.goto(f"{SITE.as_uri()}/{LANDING}")
    explorer = page.locator(".ibrelu-explorer").first
    slider = explorer.locator("input[type=range]").first
    slider.scroll_into_view_if_needed()
    start, box = explorer_state(explorer), slider.bounding_box()
    assert box["height"] >= 44  # as large as a fingertip
    page.touchscreen.tap(box["x"] + box["width"] - 6, box["y"] + box["height"] / 2)
    page.wait_for_function("slider => slider.value === slider.max", arg=slider.element_handle())
    assert explorer_state(explorer)[0] != start[0]
    assert explorer_state(explorer)[1] != start[1]
    context.close()


def test_an_address_with_a_setting_opens_at_that_setting(chromium):
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{SITE.as_uri()}/{LANDING}")
    slider = page.locator(".ibrelu-explorer input[type=range]").first
    slider.press("ArrowRight")
    page.wait_for_function("location.hash.includes('=')")
    caption = page.locator(".ibrelu-explorer figcaption").first.inner_text()
    link = page.url
    other = context.new_page()
    other.goto(link)
    other.locator(".ibrelu-explorer input[type=range]").first.wait_for()
    assert other.locator(".ibrelu-explorer figcaption").first.inner_text() == caption
    assert other.locator(".ibrelu-explorer input[type=range]").first.input_value() == "1"
    context.close()


def test_print_shows_the_first_frame_with_a_note_and_no_sliders(chromium):
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{SITE.as_uri()}/{LANDING}")
    explorer = page.locator(".ibrelu-explorer").first
    first = explorer_state(explorer)
    explorer.locator("input[type=range]").first.press("End")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert explorer_state(explorer) == first
    assert explorer.locator(".ibrelu-note").is_visible()
    assert not explorer.locator("input").first.is_visible()
    context.close()


def test_who_wants_no_motion_sees_none(chromium):
    context = chromium.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.goto(f"{SITE.as_uri()}/{LANDING}")
    moving = page.evaluate(
        """[...document.querySelectorAll("body *")].map(n => getComputedStyle(n))
          .filter(s => parseFloat(s.transitionDuration) > 0.01
            || parseFloat(s.animationDuration) > 0.01).length"""
    )
    assert moving == 0
    assert page.locator(".ibrelu-explorer button", has_text="Play").count() == 0
    context.close()


def check_search(chromium: Any, base: str, words: str, page: str) -> None:
    """Search for some words, and see a page among the first results."""
    opened = open_page(chromium, base, f"{base}search.html?q={words.replace(' ', '+')}")
    results = opened.page.locator("#search-results li a:first-of-type")
    results.first.wait_for(timeout=10_000)
    opened.page.locator("#search-results .search-summary", has_text="found").wait_for()
    found = [result.get_attribute("href") for result in results.all()]
    assert any(f"/{page}.html" in link for link in found[:10]), found[:10]
    assert all(text.strip() for text in results.all_inner_texts()), "a result without a name"
    assert opened.errors == []
    opened.page.context.close()


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("Gram matrix", "near-orthogonality"),
        ("minimum norm", "single-neuron-gap"),
        ("gradient descent", "linear-bias"),
        ("Lemma 5", "lemma-5"),
        ("Lemma 6", "lemma-6"),
        ("Theorem 2", "single-neuron-gap"),
    ],
)
def test_the_search_finds(chromium, address, words, page):
    check_search(chromium, address, words, page)


def test_the_search_finds_in_an_unpacked_folder_too(chromium, folder):
    check_search(chromium, folder, "Lemma 6", "lemma-6")
