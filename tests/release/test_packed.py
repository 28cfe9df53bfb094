"""Packed blocks: nothing but a block of the promised length is ever unpacked."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heathaze.release.formats import _posterior as packed


@given(st.binary(max_size=200))
def test_blocks_come_back(block: bytes) -> None:
    assert packed.unpack(packed.pack(block), len(block)) == block


@given(st.binary(max_size=200), st.integers(0, 300))
def test_another_length_is_refused(block: bytes, length: int) -> None:
    assert (packed.unpack(packed.pack(block), length) is None) == (length != len(block))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "!",
        base64.b64encode(b"no block").decode(),
        base64.b64encode(zlib.compress(b"map")[:-1]).decode(),
        base64.b64encode(zlib.compress(b"map") + b"behind").decode(),
    ],
)
def test_nonsense_is_refused(text: str) -> None:
    assert packed.unpack(text, 3) is None


def test_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than what is needed, and one byte, ever leaves the unpacker."""
    sizes, unpacker = [], zlib.decompressobj

    class Watched:
        def __init__(self) -> None:
            self.inner = unpacker()

        def decompress(self, packed: bytes, most: int) -> bytes:
            block = self.inner.decompress(packed, most)
            sizes.append(len(block))
            return block

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

    bomb = packed.pack(bytes(10**7))
    monkeypatch.setattr(packed.zlib, "decompressobj", Watched)
    assert packed.unpack(bomb, 25) is None
    assert sizes == [26]
