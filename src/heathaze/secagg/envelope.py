"""The envelope around every message: what it is, whom it is from and to, under which terms; and a signature of it all.

    4 "HZSA" · 1 version · 1 kind · 32 digest of the terms · 4 sender · 4 recipient · 4 length · payload · 64 signature

The signature (Ed25519) is over the header and the SHA-256 of the payload.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from heathaze.errors import InvalidInput, UnexpectedMessage, expect
from heathaze.secagg import codec
from heathaze.secagg.keys import IDENTITY_BYTES, SIGNATURE_BYTES, Identity, verifies
from heathaze.secagg.messages import KINDS, Message
from heathaze.secagg.parameters import Terms

VERSION = 1
SERVER = 2**32 - 1
"""The server's number as a sender or a recipient."""

_MAGIC = b"HZSA"
_HEADER = struct.Struct("<4sBB32sIII")


@dataclass(frozen=True)
class Opened:
    """What was in an envelope, after every check."""

    sender: int
    message: Message
    fingerprint: bytes = field(repr=False)
    """SHA-256 of the signed part: two envelopes share it only if they say the same."""


def wrap(message: Message, terms: Terms, identity: Identity, sender: int, recipient: int) -> bytes:
    """A message as it is sent."""
    payload = codec.encode(message, terms)
    kind = KINDS.index(type(message))
    header = _HEADER.pack(_MAGIC, VERSION, kind, terms.digest, sender, recipient, len(payload))
    return b"".join((header, payload, identity.sign(_signed(header, payload))))


def unwrap(block: bytes, terms: Terms, directory: Mapping[int, bytes], recipient: int) -> Opened:
    """The message in an envelope.

    Args:
        block: Bytes from anywhere.
        terms: The terms it must be under.
        directory: Public identities of those it may come from, by number.
        recipient: Whom it must be addressed to.

    Raises:
        UnexpectedMessage: if anything about it is not as it should be.
    """
    expect((bytes, bytearray, memoryview), block, "A message")
    least = _HEADER.size + SIGNATURE_BYTES
    if len(block) < least:
        raise UnexpectedMessage("The length of an envelope", f"{len(block)} bytes", f"at least {least} bytes")
    magic, version, kind, digest, sender, addressed, length = _HEADER.unpack_from(block)
    if magic != _MAGIC:
        raise UnexpectedMessage("The beginning of an envelope", magic.hex(), _MAGIC.hex())
    if version != VERSION:
        raise UnexpectedMessage("The version of an envelope", version, VERSION, "update the older side")
    if digest != terms.digest:
        raise UnexpectedMessage(
            "The digest of the terms", digest.hex()[:16], terms.digest.hex()[:16], "drop it, or compare the terms"
        )
    if kind >= len(KINDS):
        raise UnexpectedMessage("The kind of a message", kind, f"less than {len(KINDS)}")
    if addressed != recipient:
        raise UnexpectedMessage("The recipient of an envelope", _who(addressed), _who(recipient))
    if length != len(block) - least:
        raise UnexpectedMessage("The length of a payload", f"{len(block) - least} bytes", f"{length} bytes")
    if sender not in directory:
        raise UnexpectedMessage("The sender of an envelope", _who(sender), "someone in the directory")
    header, payload = block[: _HEADER.size], block[_HEADER.size : -SIGNATURE_BYTES]
    signed = _signed(header, payload)
    if not verifies(directory[sender], block[-SIGNATURE_BYTES:], signed):
        raise UnexpectedMessage(f"The signature of {_who(sender)}", "wrong", "one that its public key verifies")
    message = codec.decode(KINDS[kind], payload, terms)
    return Opened(sender, message, hashlib.sha256(signed).digest())


def check_public(public: object, whose: str) -> bytes:
    """A public identity of the right size.

    Raises:
        InvalidInput: if it is none.
    """
    if not isinstance(public, bytes) or len(public) != IDENTITY_BYTES:
        found = f"{len(public)} bytes" if isinstance(public, bytes) else type(public).__name__
        raise InvalidInput(
            f"The public identity of {whose} is {found}, expected {IDENTITY_BYTES} bytes of Identity.public."
        )
    return public


def _signed(header: bytes, payload: bytes) -> bytes:
    return header + hashlib.sha256(payload).digest()


def _who(number: int) -> str:
    return "the server" if number == SERVER else f"client {number}"
