"""Mend what Sphinx and docutils write and a screen reader stumbles on."""

from __future__ import annotations

import itertools
import re
from typing import Any

from sphinx.application import Sphinx

TABLE = re.compile('aria-label="Table: ')
SYMBOL_LINK = re.compile(r'<a (class="[^"]*" href="[^"]*#symbol-([\w-]+)")(?: title="([^"]*)")?')


def name_toggles(context: dict[str, Any]) -> None:
    """Say what the arrows in the contents do."""
    plain = context.get("generate_toctree_html")
    if plain is None:
        return

    def named(*arguments: Any, **options: Any) -> Any:
        contents = plain(*arguments, **options)
        for summary in contents.select("summary"):
            chapter = summary.find_parent("li").find("a").get_text()
            summary["aria-label"] = f"Pages under {chapter}"
        return contents

    context["generate_toctree_html"] = named


def number_tables(body: str) -> str:
    """Tell tables with the same headings apart."""
    count = itertools.count(1)
    return TABLE.sub(lambda label: f'aria-label="Table {next(count)}: ', body)


def mend(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: object) -> None:
    """Give entries of the bibliography an allowed role; links and toggles a name."""
    name_toggles(context)
    body = context.get("body")
    if not body:
        return
    body = body.replace(' role="doc-biblioentry"', ' role="listitem"')
    body = body.replace('<th class="head"><p></p></th>', "<td></td>")
    body = number_tables(body)
    context["body"] = SYMBOL_LINK.sub(
        lambda link: (
            f'<a title="{link[3] or link[2].replace("-", " ")} (see the notation)" '
            f'aria-label="{link[2].replace("-", " ")}" {link[1]}'
        ),
        body,
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the mending of each page."""
    app.connect("html-page-context", mend, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
