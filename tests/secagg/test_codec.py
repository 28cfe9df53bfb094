"""The bytes on the wire: kept as files, read and written back the same, and a sentence for everything else."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heathaze.errors import HeathazeError, UnexpectedMessage
from heathaze.secagg.envelope import SERVER, unwrap, wrap
from heathaze.secagg.messages import KINDS, Masked, decode, encode
from tests.secagg import vectors
from tests.secagg.parties import directory, identities, operator, small_parameters

PARAMETERS = vectors.PARAMETERS
EVERYBODY = directory(5) | {SERVER: operator().public}


def kept(name: str) -> list[dict[str, Any]]:
    found = json.loads((vectors.FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert found["terms"] == PARAMETERS.digest.hex()
    rows: list[dict[str, Any]] = found["messages"]
    return rows


GOOD, BAD = kept("good"), kept("bad")


def test_the_format_has_not_changed() -> None:
    """The same shard, run today, sends the very bytes that were kept: keys, masks, shares, signatures and all."""
    assert vectors.good() == GOOD
    assert vectors.bad() == BAD


def test_every_kind_is_kept() -> None:
    assert [row["kind"] for row in GOOD] == [kind.__name__ for kind in KINDS]
    assert len(BAD) > 25


@pytest.mark.parametrize("row", GOOD, ids=lambda row: row["kind"])
def test_good_bytes_come_back(row: dict[str, Any]) -> None:
    block = bytes.fromhex(row["bytes"])
    opened = unwrap(block, PARAMETERS, EVERYBODY, row["to"])
    assert type(opened.message).__name__ == row["kind"]
    assert opened.sender == row["from"]
    who = operator() if row["from"] == SERVER else identities()[row["from"]]
    assert wrap(opened.message, PARAMETERS, who, row["from"], row["to"]) == block


@pytest.mark.parametrize("row", BAD, ids=lambda row: row["what"])
def test_bad_bytes_are_refused(row: dict[str, Any]) -> None:
    block = bytes.fromhex(row["bytes"])
    recipient = 0 if len(block) > 54 and block[38:42] == b"\xff" * 4 else SERVER
    with pytest.raises(UnexpectedMessage) as refused:
        unwrap(block, PARAMETERS, EVERYBODY, recipient)
    assert str(refused.value).startswith(row["sentence"])
    assert refused.value.found is not None
    assert refused.value.expected is not None


@given(kind=st.sampled_from(KINDS), payload=st.binary(max_size=400))
@settings(max_examples=300)
def test_any_payload_is_read_in_one_way_or_refused(kind: Any, payload: bytes) -> None:
    try:
        message = decode(kind, payload, PARAMETERS)
    except UnexpectedMessage:
        return
    assert type(message) is kind
    assert encode(message, PARAMETERS) == payload


@given(block=st.binary(max_size=300))
@settings(max_examples=100)
def test_any_bytes_are_refused(block: bytes) -> None:
    with pytest.raises(HeathazeError):
        unwrap(block, PARAMETERS, EVERYBODY, SERVER)


@pytest.mark.parametrize("bits", [1, 13, 64])
def test_a_vector_comes_back(bits: int) -> None:
    parameters = small_parameters(length=9, bits=bits)
    largest = np.full(9, 2**bits - 1, f"<u{ {1: 1, 13: 2, 64: 8}[bits] }")
    found = decode(Masked, encode(Masked(largest), parameters), parameters)
    assert isinstance(found, Masked)
    assert (found.vector == largest).all()
