"""The explorer: what it refuses, what it stores, and how its static face behaves in a browser."""

import base64
import gzip
import json
import os
import re
import subprocess
import sys
import zlib

import numpy as np
import pytest

from ibrelu import explore as module
from ibrelu.explore import Explorer, explore
from ibrelu.figures import canvas

WORDS = {"title": "A line", "alt": "A line that is steeper as the slope grows."}


def line(slope=1, shift=0.0):
    figure, axes = canvas(margins=(0.6, 0.5, 0.1, 0.1))
    axes.plot([0, 1], [shift, shift + slope], label="<line> & 0.123456")
    axes.text(0.1, 4, f"slope {slope}, shift {shift}")
    axes.set(xlim=(0, 1), ylim=(-1, 5), title="α < 0.123456 & β", xlabel=r"$\beta_i \to 0.5$")
    return figure, f"Slope {slope}, shift {shift}: it ends at {slope + shift:.4g}."


@pytest.fixture(autouse=True)
def static(monkeypatch):
    monkeypatch.setenv("IBRELU_EXPLORER", "static")


def stored(explorer):
    """What the page holds: the data, and each frame's picture put together from it."""
    page = explorer.html()
    data = json.loads(re.search(r'<script type="application/json">(.*?)</script>', page, re.S)[1])
    first = base64.b64decode(
        re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', page)[1]
    ).decode()
    parts, pictures = re.split("(?=<)", first)[1:], [first]
    for edits in json.loads(zlib.decompress(base64.b64decode(data["frames"]))):
        frame = list(parts)
        for at, drop, text in reversed(list(zip(*[iter(edits)] * 3, strict=True))):
            frame[at : at + drop] = [text]
        pictures.append("".join(frame))
    return data, pictures


# What is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"title": " "}, "title must say what is seen, got ' '"),
        ({"alt": ""}, "alt must say what is seen, got ''"),
        ({"title": "→"}, "title must contain a letter or a digit"),
        ({"slope": []}, "slope must offer one or more values"),
        ({"slope": [1, 1]}, r"written differently, got \['1', '1'\]"),
        ({"slope": range(61)}, "61 slope = 61 frames, more than 60; offer fewer values"),
        ({"play": "time"}, "play must name parameters of the figure, got 'time'"),
        ({"continuous": ["time"]}, "continuous must name parameters of the figure, got 'time'"),
        ({"names": {"time": "t"}}, "names must name parameters of the figure, got 'time'"),
        ({"slope": ["steep", "flat"], "continuous": ["slope"]}, "must name parameters with number"),
    ],
)
def test_what_is_missing_or_wrong_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        explore(line, **({"slope": [1, 2]} | WORDS | change))


def test_frames_are_counted_over_the_whole_grid():
    with pytest.raises(ValueError, match=r"8 slope × 8 shift = 64 frames, more than 60"):
        explore(line, **WORDS, slope=range(8), shift=range(8))


def test_an_explorer_without_choices_is_refused():
    with pytest.raises(ValueError, match=r"needs at least one choice, e\.g\. c=\[0\.5, 0\.1\]"):
        explore(line, **WORDS)


@pytest.mark.parametrize("values", [3, "steep"])
def test_choices_must_be_lists(values):
    with pytest.raises(TypeError, match=r"write slope=\[\.\.\.\]"):
        explore(line, **WORDS, slope=values)


@pytest.mark.parametrize("drawn", [None, "a figure", (1, 2), canvas()[0], (canvas()[0], 3)])
def test_a_figure_function_must_return_a_figure_and_a_caption(drawn):
    with pytest.raises(TypeError, match=r"must return \(matplotlib Figure, caption\), got .* at"):
        explore(lambda slope: drawn, **WORDS, slope=[1])


@pytest.mark.parametrize("caption", ["", r"slope $\alpha$"])
def test_a_caption_is_a_plain_sentence(caption):
    with pytest.raises(ValueError, match="a caption must be a sentence in plain text"):
        explore(lambda slope: (line(slope)[0], caption), **WORDS, slope=[1])


def test_the_figure_must_be_a_function():
    with pytest.raises(TypeError, match="figure must be a function of the choices, got BookFigure"):
        explore(line()[0], **WORDS, slope=[1])


def test_too_heavy_an_explorer_is_refused(monkeypatch):
    monkeypatch.setattr(module, "MAX_BYTES", 3000)
    with pytest.raises(ValueError, match=r"weighs \d+ kB gzipped, more than 3; draw fewer points"):
        explore(line, **WORDS, slope=[1, 2])


def test_an_error_in_any_frame_stops_the_cell():
    def broken(slope):
        if slope == 3:
            raise ArithmeticError("no such slope")
        return line(slope)

    with pytest.raises(ArithmeticError, match="no such slope"):
        explore(broken, **WORDS, slope=[1, 2, 3])


def test_an_unknown_face_is_refused(monkeypatch):
    monkeypatch.setenv("IBRELU_EXPLORER", "both")
    with pytest.raises(ValueError, match="must be 'live' or 'static', got 'both'"):
        explore(line, **WORDS, slope=[1])


# What is stored --------------------------------------------------------------------------------


def test_each_frame_is_put_together_from_what_the_page_stores():
    explorer = explore(line, **WORDS, slope=[1, 2], shift=[0.0, 0.5, 1.0])
    data, pictures = stored(explorer)
    assert [choice["texts"] for choice in data["choices"]] == [["1", "2"], ["0", "0.5", "1"]]
    grid = [(slope, shift) for slope in (1, 2) for shift in (0.0, 0.5, 1.0)]
    assert len(set(pictures)) == len(grid)
    for (slope, shift), picture, caption in zip(grid, pictures, data["captions"], strict=True):
        frame = explorer.frame(slope=slope, shift=shift)
        assert (frame.svg, frame.caption) == (picture, caption)
        assert caption == line(slope, shift)[1]


def test_frames_with_more_or_fewer_elements_than_the_first_are_stored_exactly():
    def points(count):
        figure, axes = canvas()
        axes.plot(np.arange(count), np.arange(count), "o")
        return figure, f"{count} points."

    explorer = explore(points, **WORDS, count=[3, 0, 1, 9])
    assert stored(explorer)[1] == [frame.svg for frame in explorer.frames()]


def test_differences_take_less_room_than_frames():
    explorer = explore(line, **WORDS, slope=list(range(20)))
    frames = sum(len(frame.svg) for frame in explorer.frames())
    assert len(explorer.html()) < frames / 4


def test_numbers_in_text_are_not_cut_and_those_in_coordinates_are():
    svg = explore(line, **WORDS, slope=[1]).frame(slope=1).svg
    assert "α &lt; 0.123456 &amp; β" in svg
    assert not re.search(r'd="[^"]*\.\d\d\d', svg)
    assert "<metadata>" not in svg
    assert "<!--" not in svg


def corners(path):
    """Where a path of steps turns: one array of points for each stroke."""
    steps = [np.array(re.findall(r"-?[\d.]+", part), float) for part in path.split("M")[1:]]
    return [np.cumsum(stroke.reshape(-1, 2), axis=0) for stroke in steps]


def paths(figure):
    svg = explore(lambda _: (figure, "A line."), **WORDS, _=[1]).frame(_=1).svg
    return re.findall(r' d="([^"]*)"', svg)


def test_a_line_keeps_its_course_with_the_points_that_are_seen():
    figure, axes = canvas(margins=(0.6, 0.5, 0.1, 0.1))
    x = np.linspace(0, 10, 600)
    y = np.where(x < 6, np.sin(x), 0.3)  # a bend, a jump and a straight piece
    axes.plot(x, y)
    (kept,) = corners(max(paths(figure), key=len))
    assert 10 < len(kept) < 100
    figure.set_dpi(72)
    drawn = axes.transData.transform(np.stack([x, y], axis=-1)) * [1, -1] + [0, 72 * 3.6]
    np.testing.assert_allclose(kept[[0, -1]], drawn[[0, -1]], atol=0.06)
    along = np.diff(kept, axis=0)
    from_start = drawn[:, None] - kept[:-1]
    share = np.clip((from_start * along).sum(-1) / (along**2).sum(-1), 0, 1)
    off = np.linalg.norm(from_start - share[..., None] * along, axis=-1).min(axis=1)
    assert off.max() < module.UNSEEN + 0.08  # and the rounding to a tenth


def test_a_stroke_that_is_drawn_twice_is_stored_once():
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    figure, axes = canvas()
    dots = [[0.2, 0.2], [0.3, 0.2], [0.6, 0.4], [0.7, 0.4], [0.2, 0.2], [0.3, 0.2]]
    axes.add_patch(PathPatch(Path(dots, [1, 2, 1, 2, 1, 2]), fc="none"))
    assert max(path.count("M") for path in paths(figure)) == 2


def test_two_runs_give_the_same_bytes():
    code = (
        "from ibrelu.figures import canvas\n"
        "from ibrelu.explore import explore\n"
        "def line(slope):\n"
        "    figure, axes = canvas()\n"
        "    axes.plot([0, 1], [0, slope], 'o-')\n"
        "    axes.fill([0, 1], [0, 1])\n"
        "    return figure, f'Slope {slope}.'\n"
        "print(explore(line, title='A', alt='b', slope=[1, 2])._repr_mimebundle_())\n"
    )
    first, second = (
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            check=True,
            env=os.environ | {"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    )
    assert first == second


def test_exactly_one_face_is_shown(monkeypatch):
    widget = "application/vnd.jupyter.widget-view+json"
    bundle = explore(line, **WORDS, slope=[1, 2])._repr_mimebundle_()
    assert set(bundle) == {"text/html", "image/png", "text/plain"}
    assert bundle["text/plain"] == "A line\nSlope 1, shift 0.0: it ends at 1."
    assert base64.b64decode(bundle["image/png"]).startswith(b"\x89PNG")
    monkeypatch.setenv("IBRELU_EXPLORER", "live")
    bundle = explore(line, **WORDS, slope=[1, 2])._repr_mimebundle_()
    assert widget in bundle
    assert "text/html" not in bundle


@pytest.mark.parametrize(
    ("wish", "session", "live"),
    [
        ("", None, False),
        ("", "book.ipynb", True),
        ("static", "book.ipynb", False),
        ("live", None, True),
    ],
)
def test_a_jupyter_session_is_live_unless_told_otherwise(monkeypatch, wish, session, live):
    monkeypatch.setenv("IBRELU_EXPLORER", wish)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    if session:
        monkeypatch.setenv("JPY_SESSION_NAME", session)
    assert explore(line, **WORDS, slope=[1]).live is live


def test_words_cannot_break_out_of_the_page():
    title, alt = 'a "title" </figure><script>', 'alt\'s "<b>"'

    def tricky(slope):
        return line(slope)[0], f"</script><!-- {slope}"

    explorer = explore(tricky, title=title, alt=alt, slope=[1, 2])
    data, _ = stored(explorer)
    assert data["captions"] == ["</script><!-- 1", "</script><!-- 2"]
    assert explorer.html().count("<script") == 2
    assert explorer.html().count("</script>") == 2
    assert "&lt;/figure&gt;" in explorer.html()
    assert 'alt="alt&#x27;s &quot;&lt;b&gt;&quot;"' in explorer.html()


def test_nothing_is_fetched():
    page = explore(line, **WORDS, slope=[1, 2]).html()
    addresses = set(re.findall(r"https?://[^\s\"'<\\]+", page + stored_picture(page)))
    assert addresses == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def stored_picture(page):
    return base64.b64decode(re.search(r"base64,([^\"]+)", page)[1]).decode()


def test_an_ordinary_explorer_is_light():
    explorer = explore(line, **WORDS, slope=[1, 2, 3, 4, 5], shift=[0, 0.5, 1])
    assert len(gzip.compress(explorer.html().encode())) < 20_000


# The live face ---------------------------------------------------------------------------------


def live(**options):
    explorer = explore(line, **WORDS, **options)
    box = explorer.widget()
    _, picture, *controls, caption = box.children
    return explorer, picture, controls, caption


def test_widgets_draw_the_frames_that_the_page_stores():
    explorer, picture, (slope, shift), caption = live(slope=[1, 2], shift=[0.0, 0.5])
    data, pictures = stored(explorer)
    for index, (i, j) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)]):
        slope.index, shift.index = i, j
        shown = base64.b64decode(re.search(r'base64,([^"]+)"', picture.value)[1]).decode()
        assert shown == pictures[index]
        assert data["captions"][index] in caption.value


def test_a_continuous_slider_may_stand_between_the_choices():
    _, _, (slope, shift), caption = live(
        slope=[1, 100],
        shift=[0.0, 1.0],
        continuous=("slope", "shift"),
        names={"slope": "the slope"},
    )
    assert type(slope).__name__ == "FloatLogSlider"
    assert type(shift).__name__ == "FloatSlider"
    assert slope.description == "the slope"
    slope.value, shift.value = 9.9, 0.25
    assert "Slope 10, shift 0.25" in caption.value  # whole choices stay whole numbers


def test_an_error_in_a_live_figure_is_shown():
    def broken(slope):
        if slope == 2:
            raise ArithmeticError("no such slope")
        return line(slope)

    os.environ["IBRELU_EXPLORER"] = "live"
    box = explore(broken, **WORDS, slope=[1, 2]).widget()
    box.children[2].index = 1
    assert "no such slope" in box.children[-1].value


def test_a_live_session_draws_only_what_is_looked_at(monkeypatch):
    monkeypatch.setenv("IBRELU_EXPLORER", "live")
    calls = []

    def counted(slope):
        calls.append(slope)
        return line(slope)

    box = explore(counted, **WORDS, slope=[1, 2, 3]).widget()
    box.children[2].index = 2
    box.children[2].index = 0
    assert calls == [1, 3]


def test_the_live_face_has_a_player_where_time_is_a_choice():
    _, _, controls, _ = live(slope=[1, 2, 3], play="slope")
    assert [type(control).__name__ for control in controls] == ["SelectionSlider", "Play"]
    assert controls[1].max == 2


# The static face in a browser --------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Path of a page with two explorers, one of them with a player."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IBRELU_EXPLORER", "static")
        first = explore(
            line, **WORDS, slope=[1, 2, 3], shift=[0.0, 0.5], names={"slope": "the slope"}
        )
        second = explore(
            line, title="Another line", alt="A line.", slope=[1, 2000, 3], play="slope"
        )
    page = tmp_path_factory.mktemp("site") / "page.html"
    page.write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Lines</title>'
        '<meta name="viewport" content="width=device-width"><body><main><h1>Lines</h1>'
        f'{first.html()}<div style="height:2000px"></div>{second.html()}</main>',
        encoding="utf-8",
    )
    return page, first, second


@pytest.fixture
def visit(chromium, site):
    """Open the page; fails if anything is requested from elsewhere or a script fails."""
    contexts, complaints = [], []

    def go(fragment="", **options):
        context = chromium.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        page.on(
            "request",
            lambda r: None if r.url.startswith(("file:", "data:")) else complaints.append(r.url),
        )
        page.goto(site[0].as_uri() + fragment)
        return page

    yield go
    for context in contexts:
        context.close()
    assert complaints == []


def picture(page, number=0):
    """The SVG that an explorer shows."""
    return (
        page.locator("figure.ibrelu-explorer img")
        .nth(number)
        .evaluate(
            """img => { const [, kind, body] = img.src.match(/^([^,]*),(.*)$/s);
            return kind.endsWith('base64')
                ? new TextDecoder().decode(Uint8Array.from(atob(body), c => c.charCodeAt(0)))
                : decodeURIComponent(body); }"""
        )
    )


def caption(page, number=0):
    return page.locator("figure.ibrelu-explorer figcaption").nth(number).inner_text()


@pytest.mark.browser
def test_keys_move_the_picture_and_the_caption(visit, site):
    page, explorer = visit(), site[1]
    slope, shift = (page.get_by_role("slider").nth(k) for k in (0, 1))
    steps = [
        (slope, "ArrowRight", 2, 0.0), (shift, "End", 2, 0.5), (slope, "End", 3, 0.5),
        (shift, "ArrowLeft", 3, 0.0), (slope, "Home", 1, 0.0),
    ]  # fmt: skip
    for slider, key, *values in steps:
        slider.press(key)
        frame = explorer.frame(slope=values[0], shift=values[1])
        assert picture(page) == frame.svg
        assert caption(page) == frame.caption
    size = page.locator("figure.ibrelu-explorer img").first.evaluate("i => i.naturalWidth")
    assert size > 0


@pytest.mark.browser
def test_sliders_say_their_name_and_value(visit):
    page = visit()
    slope = page.get_by_role("slider", name="the slope")
    slope.press("End")
    assert slope.get_attribute("aria-valuetext") == "the slope 3"
    assert page.get_by_role("slider").count() == 3
    assert page.locator("output").first.inner_text() == "3"
    assert page.locator("figcaption").first.get_attribute("aria-live") == "polite"


@pytest.mark.browser
def test_a_finger_moves_the_slider(visit, site):
    page = visit(has_touch=True, is_mobile=True, viewport={"width": 375, "height": 700})
    slider = page.get_by_role("slider").first
    box = slider.bounding_box()
    assert box["height"] >= 44
    page.touchscreen.tap(box["x"] + box["width"] - 3, box["y"] + box["height"] / 2)
    assert caption(page) == site[1].frame(slope=3, shift=0.0).caption
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.browser
def test_the_address_holds_the_setting_of_every_explorer(visit, site):
    page = visit()
    page.get_by_role("slider").nth(1).press("End")
    page.get_by_role("slider").nth(2).press("ArrowRight")
    fragment = page.evaluate("location.hash")
    assert "explore-a-line.shift=0.5" in fragment
    assert "explore-another-line.slope=2000" in fragment
    again = visit(fragment)
    assert caption(again, 0) == site[1].frame(slope=1, shift=0.5).caption
    assert caption(again, 1) == site[2].frame(slope=2000).caption


@pytest.mark.browser
def test_a_link_to_a_setting_scrolls_to_its_explorer(visit, site):
    page = visit("#explore-another-line.slope=3")
    assert caption(page, 1) == site[2].frame(slope=3).caption
    page.wait_for_function("scrollY > 500")
    page.evaluate("location.hash = '#explore-a-line.slope=2'")
    page.wait_for_function("document.querySelector('figcaption').textContent.startsWith('Slope 2')")


@pytest.mark.browser
@pytest.mark.parametrize(
    "fragment", ["#explore-a-line.slope=7", "#top", "#a=b=c&%", "#explore-a-line"]
)
def test_a_fragment_that_means_nothing_is_ignored(visit, site, fragment):
    assert caption(visit(fragment)) == site[1].frame(slope=1, shift=0.0).caption


@pytest.mark.browser
def test_play_runs_to_the_end_and_can_be_stopped(visit):
    page = visit()
    button = page.get_by_role("button", name="Play: slope")
    button.click()
    page.get_by_role("button", name="Pause: slope").click()
    assert caption(page, 1).startswith("Slope 2000")
    button.click()
    page.wait_for_function(
        "document.querySelectorAll('figcaption')[1].textContent.startsWith('Slope 3')"
    )
    page.get_by_role("button", name="Play: slope").wait_for()


@pytest.mark.browser
def test_with_reduced_motion_nothing_moves_by_itself(visit):
    page = visit(reduced_motion="reduce")
    page.get_by_role("button", name="Next: slope").click()
    page.wait_for_timeout(700)
    assert caption(page, 1).startswith("Slope 2000")


@pytest.mark.browser
def test_paper_shows_the_first_frame_and_says_so(visit, site):
    page = visit()
    note = page.locator(".ibrelu-note").first
    page.get_by_role("slider").first.press("End")
    assert not note.is_visible()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert picture(page) == site[1].frame(slope=1, shift=0.0).svg
    assert caption(page) == site[1].frame(slope=1, shift=0.0).caption
    assert note.is_visible()
    assert not page.get_by_role("slider").first.is_visible()
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert caption(page) == site[1].frame(slope=3, shift=0.0).caption


@pytest.mark.browser
def test_with_scripts_off_the_first_frame_stands(visit, site):
    page = visit(java_script_enabled=False)
    assert page.locator("figure.ibrelu-explorer img").first.get_attribute("alt") == WORDS["alt"]
    assert caption(page) == site[1].frame(slope=1, shift=0.0).caption
    assert page.locator(".ibrelu-note").first.is_visible()
    assert page.get_by_role("slider").count() == 0


@pytest.mark.browser
def test_the_explorer_breaks_no_rule_of_accessibility(visit):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    result = axe.Axe().run(visit())
    assert result.violations_count == 0, result.generate_report()


def test_the_class_is_made_by_the_function():
    assert isinstance(explore(line, **WORDS, slope=[1]), Explorer)
