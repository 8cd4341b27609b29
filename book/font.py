"""Make the font of the formulas, `book/assets/math.woff2`: `python book/font.py STIXTwoMath.ttf`.

The signs below are cut out of STIX Two Math (SIL Open Font License, its text beside the font); add
to them what a new formula needs. The font is in the package `ziamath`. It is changed for browsers:

- As in TeX, an index hangs equally low under letters with and without a tail, a root's bar keeps
  off what is under it, and a prime is as large as one that is not raised.
- Tall roots and brackets are nearly as slim as small ones: Chromium leaves room for the widest
  form around every one.
- Parts of wide braces have codes, or a printed page would say that letters are missing.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

TARGET = Path(__file__).parent / "assets" / "math.woff2"
SIGNS = """
    20-7E A0 AC AF B1 B7 D7 2C6 2C7 2D8-2DC 302-308
    391-3A9 3B1-3C9 3D1 3D5 3F1 3F5 2016 2019 2026 2032 2033 2061-2063
    2102 210B 210E 2110 2112 2113 2115 2119 211A 211B 211D 2124
    2190-2194 21A6 21D2 21D4 2200 2202 2203 2205-220B 220F 2211-221E 2225-222B 223C 2243 2248
    2254 2260-2273 2282-2287 2295-2299 22A4 22A5 22C5 22C6 22EE-22F1 2308-230B 23DE 23DF
    25A0 25A1 27C2 27E8 27E9 27F6 27F9
    1D400-1D419 1D434-1D467 1D49C-1D4B5 1D538-1D550 1D6A4 1D6A5 1D6E2-1D71B 1D7CF 1D7D9
"""
PRIMES = (0x2032, 0x2033)
BRACES = (0x23DE, 0x23DF)
PRIVATE = 0xE000  # the first code that stands for no letter
WIDTHS = {"√": 860, "(": 430, ")": 430, "[": 410, "]": 410, "{": 395, "}": 395}
LENGTHS = {
    "SubscriptBaselineDropMin": -10,
    "SuperscriptBaselineDropMax": 376,
    "RadicalVerticalGap": 130,
    "RadicalDisplayStyleVerticalGap": 200,
}


def slim(font: TTFont) -> None:
    """Narrow the tall forms of a sign, and the parts of the tallest."""
    variants, letters = font["MATH"].table.MathVariants, font.getBestCmap()
    for sign, widest in WIDTHS.items():
        small = letters[ord(sign)]
        found = variants.VertGlyphConstruction[variants.VertGlyphCoverage.glyphs.index(small)]
        names = {variant.VariantGlyph for variant in found.MathGlyphVariantRecord}
        names |= {part.glyph for part in found.GlyphAssembly.PartRecords}
        for name in names - {small}:
            width, bearing = font["hmtx"][name]
            scale = min(1.0, widest / width)
            outline, _, _ = font["glyf"][name].getCoordinates(font["glyf"])
            outline.scale((scale, 1.0))
            outline.toInt()
            font["glyf"][name].coordinates = outline
            font["glyf"][name].recalcBounds(font["glyf"])
            font["hmtx"][name] = (round(scale * width), round(scale * bearing))


def lower_primes(font: TTFont) -> None:
    """Let a prime be the form that is meant to be raised."""
    letters = font.getBestCmap()
    found = {}
    for lookup in font["GSUB"].table.LookupList.Lookup:
        for table in lookup.SubTable:
            found |= {k: v[0] for k, v in getattr(table, "alternates", {}).items()}
    for table in font["cmap"].tables:
        if table.isUnicode():
            table.cmap.update({prime: found[letters[prime]] for prime in PRIMES})


def name_parts(font: TTFont) -> None:
    """Give the parts of wide braces codes of their own."""
    variants, letters = font["MATH"].table.MathVariants, font.getBestCmap()
    parts = set()
    for brace in BRACES:
        index = variants.HorizGlyphCoverage.glyphs.index(letters[brace])
        assembly = variants.HorizGlyphConstruction[index].GlyphAssembly
        parts |= {part.glyph for part in assembly.PartRecords} - set(letters.values())
    for table in font["cmap"].tables:
        if table.isUnicode():
            table.cmap.update({PRIVATE + k: part for k, part in enumerate(sorted(parts))})


def make(source: str) -> None:
    """Write the font."""
    font = TTFont(source)
    constants = font["MATH"].table.MathConstants
    for name, length in LENGTHS.items():
        getattr(constants, name).Value = length
    slim(font)
    options = subset.Options(flavor="woff2", layout_features=["ssty", "dtls", "flac"])
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=subset.parse_unicodes(SIGNS.replace("\n", " ")))
    cutter.subset(font)
    lower_primes(font)
    name_parts(font)
    subset.save_font(font, TARGET, options)


if __name__ == "__main__":
    make(sys.argv[1])
