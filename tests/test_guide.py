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


def test_nearly_every_chapter_has_a_link():
    assert len({page for page, _ in LINKS}) >= 15


@pytest.mark.browser
@pytest.mark.parametrize("name", sorted({page for page, _ in LINKS}))
def test_each_link_sets_every_slider(chromium, address, name):
    visit = open_page(chromium, address, f"{address}book/{name}")
    for page, fragment in LINKS:
        if page != name:
            continue
        visit.page.goto("about:blank")
        visit.page.goto(f"{address}book/{page}#{fragment}")
        explorer = visit.page.locator(f"figure#{fragment.split('.')[0]}")
        explorer.and_(visit.page.locator("[data-ready=yes]")).wait_for(timeout=20_000)
        shown = explorer.locator("output").all_text_contents()
        values = [value for _, value in parse_qsl(fragment)]
        assert sorted(text.replace(",", "") for text in shown) == sorted(
            value.replace(",", "") for value in values
        ), fragment
    assert visit.errors == []
    visit.page.context.close()
