"""A release file, searched byte by byte for what must not be in it: ids, keys, row counts, true counts, file names."""

from __future__ import annotations

import base64
import os
import re
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

import heathaze as hz

ENDINGS = ["npz", "parquet", "geojson", "tif", "png", "html"]
ROWS_HOME = 79_193  # long primes, so that they do not turn up by chance
ROWS_AWAY = 10_133


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[hz.Release, list[bytes], hz.Counts]:
    """A release of 211 people, and everything secret that went into it, as bytes."""
    keys: list[bytes] = []
    system = os.urandom

    def remember(count: int) -> bytes:
        keys.append(system(count))
        return keys[-1]

    monkeypatch.setattr(os, "urandom", remember)
    lines = ["who,lon,lat"]
    lines += ["zebediah-quux,9.987654,53.561234"] * ROWS_HOME + ["aurelia-snark,10.043219,53.5876543"] * ROWS_AWAY
    lines += ["aurelia-snark,10.0711,53.5111"] * 3_001  # her shares are no round numbers
    lines += [f"walker-{k:04d},{9.91 + 0.0008 * k:.7f},53.55" for k in range(209)]
    source = tmp_path / "very-secret-visits.csv"
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    grid = hz.Grid.over(lon=(9.90, 10.10), lat=(53.50, 53.62), size=64)
    counts = hz.count(source, grid, person="who", at_most=3)
    ledger = hz.Ledger.open(tmp_path / "secret-place.ledger", total=3)
    release = hz.publish(hz.central.Pyramid(grid, epsilon=2), counts, ledger=ledger)
    key = [seed for seed in keys if len(seed) == 32][-1]
    numbers = {ROWS_HOME, ROWS_AWAY, ROWS_HOME + ROWS_AWAY + 3_210, 211, int(counts.mass.sum())}
    secrets = [b"zebediah", b"aurelia", b"walker-", b"very-secret", b"secret-place"]
    secrets += [b"9.987654", b"53.561234", b"5876543"]
    secrets += [key, key.hex().encode(), base64.b64encode(key).rstrip(b"=")]
    secrets += [f"{number}".encode() for number in numbers if number > 10_000]
    secrets += [word for word in (struct.pack("<q", mass) for mass in set(counts.mass.tolist())) if word.count(0) < 6]
    return release, secrets, counts


@pytest.mark.parametrize("ending", ENDINGS)
def test_no_secret_in_a_file(published: tuple[hz.Release, list[bytes], hz.Counts], tmp_path: Path, ending: str) -> None:
    release, secrets, _ = published
    path = release.save(tmp_path / f"map.{ending}")
    for layer in layers(path):
        for secret in secrets:
            assert not holds(layer, secret), (ending, secret)


def test_the_search_would_find_a_secret(published: tuple[hz.Release, list[bytes], hz.Counts], tmp_path: Path) -> None:
    """The check can fail: a file that holds the true counts, or an id in its metadata, is caught."""
    _, secrets, counts = published
    np.savez_compressed(tmp_path / "leak.npz", mass=counts.mass, who=np.array([b"zebediah-quux"]))
    found = {secret for layer in layers(tmp_path / "leak.npz") for secret in secrets if holds(layer, secret)}
    assert b"zebediah" in found
    assert any(len(secret) == 8 and secret not in (b"zebediah", b"9.987654") for secret in found)


def test_no_secret_in_what_prints(published: tuple[hz.Release, list[bytes], hz.Counts]) -> None:
    release, secrets, counts = published
    things = (counts, release, release.guarantee, release.to_dict(), hz.SecureRandomness())
    shown = " ".join(f"{thing!r} {thing}" for thing in things).encode()
    for secret in secrets:
        assert not holds(shown, secret), secret


def holds(layer: bytes, secret: bytes) -> bool:
    """Numbers count only as whole numbers: their digits turn up by chance inside longer ones."""
    if secret.isdigit():
        return re.search(rb"(?<![\d.])" + secret + rb"(?![\d.])", layer) is not None
    return secret in layer


def layers(path: Path) -> list[bytes]:
    """The file as it lies on the disk, and what is packed inside it."""
    raw = path.read_bytes()
    found = [raw]
    if path.suffix == ".npz":
        with zipfile.ZipFile(path) as archive:
            found += [archive.read(name) for name in archive.namelist()]
    if path.suffix == ".png":
        found += [text for chunk in re.findall(rb"IDAT(.*?)....IEND", raw, re.DOTALL) for text in unpack(chunk)]
    if path.suffix == ".html":
        for text in re.findall(rb"[A-Za-z0-9+/]{200,}={0,2}", raw):
            packed = base64.b64decode(text + b"=" * (-len(text) % 4))
            found += [packed, *unpack(packed)]
    if path.suffix == ".parquet":
        import duckdb

        columns = duckdb.sql(f"select * from '{path}'").fetchnumpy()
        found += [np.asarray(column).tobytes() for column in columns.values() if np.asarray(column).dtype != object]
        found.append(repr(duckdb.sql(f"select * from parquet_kv_metadata('{path}')").fetchall()).encode())
    return found


def unpack(packed: bytes) -> list[bytes]:
    for window in (15, -15, 31):
        try:
            return [zlib.decompressobj(window).decompress(packed)]
        except zlib.error:
            continue
    return []
