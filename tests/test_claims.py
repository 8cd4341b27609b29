"""Every claim of the ledger holds, and fails where it must."""

import re

import pytest

from ibrelu.claims import CLAIMS, Claim, Quantity, ledger

BY_NAME = pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)


@BY_NAME
def test_claim_holds(claim):
    measured = claim.measure()
    for quantity, value in zip(claim.quantities, measured, strict=True):
        assert quantity.holds(value), f"{quantity.name}: {value:.6g}, not {quantity.prediction}"


@BY_NAME
def test_claim_fails_in_its_companion(claim):
    values = claim.companion()
    held = [q.holds(v) for q, v in zip(claim.quantities, values, strict=True)]
    assert not all(held), f"holds although {claim.unless}: {values}"


def test_the_ledger_has_each_claim_once():
    names = [claim.id for claim in CLAIMS]
    assert len(set(names)) == len(names) == 35


@BY_NAME
def test_claim_names_its_source_and_chapter(claim):
    assert re.match(r"LWTM26|KCG23|VS21|BPF22|FVBSH23|ours|textbook", claim.source)
    assert re.fullmatch(r"[a-z-]+/[a-z0-9-]+", claim.chapter)


def _claim(value, companion):
    return Claim(
        "X1", "ours", "A claim.", "part/page", (Quantity("it", high=1.0),),
        lambda: (value,), "never", lambda: (companion,),
    )  # fmt: skip


def test_the_ledger_says_so_when_a_claim_fails_or_its_companion_holds():
    verdicts = [claim.verify() for claim in (_claim(2.0, 3.0), _claim(0.5, 2.0), _claim(0.5, 0.2))]
    shown = [line for line in repr(ledger(verdicts)).splitlines() if line.startswith("X1")]
    assert [line.split(": ")[1] for line in shown] == [
        "FAILS",
        "holds",
        "HOLDS EVEN WHERE IT MUST NOT",
    ]


def test_a_new_claim_is_a_card_with_a_link_to_its_chapter():
    page = ledger([_claim(1e-13, 3.0).verify()])._repr_html_()
    assert '<a href="../part/page.html">part/page</a>' in page
    assert "<td>it</td><td>≤ 1</td><td>&lt; 1e-9</td><td>3</td>" in page


def test_the_page_of_claims_has_a_place_for_every_part():
    parts = {claim.chapter.split("/")[0] for claim in CLAIMS}
    assert parts <= {
        "foundations",
        "primal-dual",
        "regression",
        "extremes",
        "classification",
        "laboratory",
    }
