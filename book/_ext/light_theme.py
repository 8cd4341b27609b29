"""Leave out of the theme's files what weighs much and serves little.

The theme draws its dozen icons with a script of 1.5 MB, half of what a page weighs. Here each icon
that a page shows becomes a mask in a small style sheet, its outline read from that same script.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pydata_sphinx_theme
from sphinx.application import Sphinx

SCRIPT = "scripts/fontawesome.js"
THEME = Path(pydata_sphinx_theme.__file__).parent / "theme" / "pydata_sphinx_theme" / "static"
# "name":[width,height,["alias",…],"code","outline"]; the solid set comes last and wins.
ICON = re.compile(
    r'"?(?P<name>[\w-]+)"?:\[(?P<width>\d+),(?P<height>\d+),\[(?P<aliases>[^\]]*)\],'
    r'"[^"]*","(?P<outline>[^"]*)"\]'
)
USED = re.compile(r'class="([^"]*\b(?:fas|fab|fa-solid|fa-brands)\b[^"]*)"')
SHEET = """\
:is(.fas, .fab, .fa-solid, .fa-brands) {
  display: inline-block; width: 1.25em; height: 1em; background: currentColor;
  -webkit-mask: var(--icon) center / contain no-repeat;
  mask: var(--icon) center / contain no-repeat;
}
:is(.fas, .fab, .fa-solid, .fa-brands)::before { content: none !important; }
html[data-mode="auto"] .theme-switch-button .theme-switch[data-mode="auto"],
html[data-mode="light"] .theme-switch-button .theme-switch[data-mode="light"],
html[data-mode="dark"] .theme-switch-button .theme-switch[data-mode="dark"] {
  display: inline-block;
}
.search-button-field > .fa-solid { display: inline-block; }
#pst-search-dialog form.bd-search .fa-solid { font-size: var(--pst-font-size-icon); }
@media (forced-colors: active) {
  :is(.fas, .fab, .fa-solid, .fa-brands) { forced-color-adjust: none; background: ButtonText; }
}
"""


def outlines(script: str) -> dict[str, str]:
    """Read the icons: name or alias to an address that holds the drawing."""
    found = {}
    for icon in ICON.finditer(script):
        drawing = (
            "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' "
            f"viewBox='0 0 {icon['width']} {icon['height']}'><path d='{icon['outline']}'/></svg>"
        )
        for name in [icon["name"], *re.findall(r'"([\w-]+)"', icon["aliases"])]:
            found[name] = drawing
    return found


def lighten(app: Sphinx, exception: Exception | None) -> None:
    """Write the icons that the pages show, and take away the theme's script and fonts for them."""
    if exception or app.builder.format != "html":
        return
    site, static = Path(app.outdir), Path(app.outdir) / "_static"
    known = outlines((THEME / SCRIPT).read_text("utf-8"))
    pages = [path.read_text("utf-8") for path in site.rglob("*.html")]
    used = {
        name
        for page in pages
        for classes in USED.findall(page)
        for name in re.findall(r"\bfa-([\w-]+)", classes)
    }
    rules = [
        f'.fa-{name} {{ --icon: url("{known[name]}"); }}\n' for name in sorted(used & set(known))
    ]
    (static / "icons.css").write_text(SHEET + "".join(rules), encoding="utf-8")
    for path in [*static.rglob("*.map"), static / SCRIPT]:
        path.unlink(missing_ok=True)
    shutil.rmtree(static / "vendor" / "fontawesome", ignore_errors=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the style sheet and the step that writes it."""
    app.add_css_file("icons.css")
    app.connect("build-finished", lighten)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
