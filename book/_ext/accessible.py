"""Mend what Sphinx and docutils write and a screen reader stumbles on."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

SYMBOL_LINK = re.compile(r'<a (class="[^"]*" href="[^"]*#symbol-([\w-]+)")(?: title="([^"]*)")?')


def mend(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: object) -> None:
    """Give the bibliography's entries a role that is allowed, links that are formulas a name."""
    body = context.get("body")
    if not body:
        return
    body = body.replace(' role="doc-biblioentry"', ' role="listitem"')
    context["body"] = SYMBOL_LINK.sub(
        lambda link: (
            f'<a title="{link[3] or link[2].replace("-", " ")} (see the notation)" '
            f'aria-label="{link[2].replace("-", " ")}" {link[1]}'
        ),
        body,
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the mending of each page."""
    app.connect("html-page-context", mend)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
