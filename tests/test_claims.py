"""Every claim of the ledger holds, and fails where it must."""

import re

import pytest

from ibrelu.claims import CLAIMS

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
    assert len(set(names)) == len(names) == 36


@BY_NAME
def test_claim_names_its_source_and_chapter(claim):
    assert re.match(r"LWTM26|KCG23|VS21|BPF22|FVBSH23|ours|textbook", claim.source)
    assert re.fullmatch(r"[a-z-]+/[a-z0-9-]+", claim.chapter)
