"""Each link of the instructor's pages opens an explorer at the setting that it names."""

import html
import re
from urllib.parse import parse_qsl

import pytest

from test_site import ROOT, open_page

PAGES = ("syllabus", "instructor-guide")
LINK = re.compile(r'<a href="\.\./([\w/-]+\.html)#(explore-[^"]+)">')
LINKS = [
    (page, html.unescape(fragment))
    for name in PAGES
    for page, fragment in LINK.findall((ROOT / "book/course" / f"{name}.md").read_text("utf-8"))
]


GUIDE = (ROOT / "book/course/instructor-guide.md").read_text("utf-8")
CHAPTERS = re.findall(
    r"book/((?:foundations|primal-dual|regression|extremes|classification|laboratory)/[\w-]+)",
    (ROOT / "_toc.yml").read_text("utf-8"),
)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_chapter_has_a_section_and_links(chapter):
    section = f"**Chapter.** {{doc}}`../{chapter}`"
    assert GUIDE.count(section) == 1
    if chapter != "laboratory/claims":  # it has no explorer
        assert f"{chapter}.html" in {page for page, _ in LINKS}


def test_the_guide_names_what_the_course_command_makes():
    made = (ROOT / "book/course/handouts.py").read_text("utf-8")
    for name in ("ibrelu-student.zip", "ibrelu-solutions.zip", "slides"):
        assert name in made
        assert name in GUIDE


@pytest.mark.browser
@pytest.mark.parametrize("name", sorted({page for page, _ in LINKS}))
def test_each_link_sets_every_slider(chromium, address, name):
    fragments = [fragment for page, fragment in LINKS if page == name]
    visit = open_page(chromium, address, f"{address}book/{name}#{fragments[0]}")
    for fragment in fragments:
        visit.page.goto(f"{address}book/{name}#{fragment}")
        explorer = visit.page.locator(f"figure#{fragment.split('.')[0]}")
        explorer.and_(visit.page.locator("[data-ready=yes]")).wait_for(timeout=20_000)
        visit.page.wait_for_timeout(100)  # the page hears of a changed fragment a moment later
        shown = [text.replace(",", "") for text in explorer.locator("output").all_text_contents()]
        wanted = [value.replace(",", "") for _, value in parse_qsl(fragment)]
        assert sorted(shown) == sorted(wanted), fragment
    assert visit.errors == []
    visit.page.context.close()
