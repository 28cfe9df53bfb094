"""Test vectors of the codec: every message of a small shard, and the same with something wrong, kept as files.

``python -m tests.secagg.vectors`` writes them again. They change only when the version of the format does.
"""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

from heathaze.privacy.randomness import Simulation
from heathaze.secagg import Phase
from heathaze.secagg.envelope import SERVER
from heathaze.secagg.messages import KINDS
from tests.secagg.parties import Shard, identities, operator, small_parameters

FOLDER = Path(__file__).resolve().parents[1] / "vectors" / "secagg"
PARAMETERS = small_parameters(5, length=3, bits=13, survivors_at_least=4)
HEADER = 50
SIGNATURE = 64


def good() -> list[dict[str, Any]]:
    """One message of each kind, from a shard of five in which one is lost before it sends its vector."""
    shard = Shard(PARAMETERS, randomness=Simulation(11))
    found, messages = [], shard.begin()
    for phase in Phase:
        found.append(messages[0])
        if phase is Phase.MASK:
            del messages[3]
        parcels = shard.to_server(messages)
        found += [parcel.message for parcel in parcels if parcel.recipient == 0]
        messages = shard.to_clients(parcels)
    assert shard.server.sum is not None
    rows = []
    for message in found:
        sender, recipient = struct.unpack_from("<II", message, 38)
        rows.append({"kind": KINDS[message[5]].__name__, "from": sender, "to": recipient, "bytes": message.hex()})
    return rows


def signed(block: bytes, payload: bytes | None = None, **header: int) -> bytes:
    """A message changed and signed again by whom it names: only its content is wrong."""
    magic, version, kind, digest, sender, recipient, _ = struct.unpack_from("<4sBB32sIII", block)
    body = block[HEADER:-SIGNATURE] if payload is None else payload
    fields = {"version": version, "kind": kind, "sender": sender, "recipient": recipient, "length": len(body)} | header
    top = struct.pack(
        "<4sBB32sIII", magic, fields["version"], fields["kind"], digest, fields["sender"], fields["recipient"],
        fields["length"],
    )  # fmt: skip
    who = operator() if fields["sender"] == SERVER else identities()[fields["sender"]]
    return top + body + who.sign(top + hashlib.sha256(body).digest())


def bad() -> list[dict[str, Any]]:
    """Each with the sentence it is refused with."""
    by_kind = {row["kind"]: bytes.fromhex(row["bytes"]) for row in good()}
    body = {kind: block[HEADER:-SIGNATURE] for kind, block in by_kind.items()}
    first = by_kind["Advertise"]
    cases = [
        ("empty", b"", "The length of an envelope is 0 bytes, expected at least 114 bytes"),
        ("cut", first[:113], "The length of an envelope is 113 bytes, expected at least 114 bytes"),
        ("magic", b"HZSB" + first[4:], "The beginning of an envelope is 485a5342, expected 485a5341"),
        ("version", signed(first, version=2), "The version of an envelope is 2, expected 1; update the older side"),
        ("another round", first[:6] + bytes(32) + first[38:], "The digest of the terms is 0000000000000000, expected "),
        ("kind", signed(first, kind=9), "The kind of a message is 9, expected less than 9"),
        ("recipient", signed(first, recipient=1), "The recipient of an envelope is client 1, expected the server"),
        ("length", signed(first, length=31), "The length of a payload is 32 bytes, expected 31 bytes"),
        ("longer", first + b"\0", "The length of a payload is 33 bytes, expected 32 bytes"),
        ("a stranger", signed(first, sender=5), "The sender of an envelope is client 5, expected someone in the dir"),
        ("another sender", first[:38] + b"\1" + first[39:], "The signature of client 1 is wrong, expected one that"),
        ("payload", first[:60] + bytes([first[60] ^ 1]) + first[61:], "The signature of client 0 is wrong"),
        ("signature", first[:-1] + bytes([first[-1] ^ 1]), "The signature of client 0 is wrong"),
    ]
    near, shares, revealed = body["Neighbours"], body["Shares"], body["Revealed"]
    (count,) = struct.unpack_from("<I", revealed)
    element = (2**256 + 297).to_bytes(33, "little")
    # The envelope is in order, its content is not.
    inside = [
        ("short key", "Advertise", body["Advertise"][:31], "The length of Advertise is 31 bytes, expected 32 bytes"),
        ("neighbours cut", "Neighbours", near[:-1], "The length of Neighbours is 143 bytes, expected a multiple of 36"),
        ("neighbours twice", "Neighbours", near[:36] * 2, "A client in Neighbours is 1, expected more than 1"),
        ("disorderly", "Neighbours", near[36:72] + near[:36], "A client in Neighbours is 1, expected more than 2"),
        ("nobody", "Neighbours", b"\5" + bytes(35), "A client in Neighbours is 5, expected less than 5"),
        ("shares cut", "Shares", shares[:-1], "The length of Shares is 359 bytes, expected 32 and a multiple of 82"),
        ("no commitment", "Shares", bytes(31), "The length of Shares is 31 bytes, expected 32 and a multiple of 82"),
        (
            "forwarded cut",
            "Forwarded",
            body["Forwarded"][:-3],
            "The length of Forwarded is 341 bytes, expected a multi",
        ),
        ("vector short", "Masked", body["Masked"][:-1], "The length of Masked is 4 bytes, expected 5 bytes"),
        (
            "spare bit",
            "Masked",
            body["Masked"][:-1] + b"\x80",
            "The rest of the last byte of Masked is not 0, expected 0",
        ),
        ("bitmap long", "Survivors", b"\x17\0", "The length of Survivors is 2 bytes, expected 1 bytes"),
        ("spare client", "Survivors", b"\x37", "The rest of the last byte of Survivors is not 0, expected 0"),
        (
            "tags cut",
            "Agreed",
            body["Agreed"][:-1],
            "The length of Agreed is 79 bytes, expected 32 and a multiple of 16",
        ),
        (
            "agreement cut",
            "Agreement",
            body["Agreement"][:-1],
            "The length of Agreement is 59 bytes, expected a multiple",
        ),
        ("no count", "Revealed", bytes(2), "The length of Revealed is 2 bytes, expected at least 4"),
        ("count", "Revealed", b"\xff" * 4, "The number of seed shares is 4294967295, expected as many as there are"),
        (
            "count beyond",
            "Revealed",
            struct.pack("<I", count + 2) + revealed[4:],
            "The number of seed shares is 5, exp",
        ),
        (
            "no element",
            "Revealed",
            revealed[:8] + element + revealed[41:],
            "A share is no element of the field, expected",
        ),
    ]
    cases += [(what, signed(by_kind[kind], payload), sentence) for what, kind, payload, sentence in inside]
    return [{"what": what, "bytes": block.hex(), "sentence": sentence} for what, block, sentence in cases]


def write() -> None:
    """Write both files."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, rows in (("good", good()), ("bad", bad())):
        text = json.dumps({"terms": PARAMETERS.digest.hex(), "messages": rows}, indent=1, ensure_ascii=False)
        (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
