"""Envelope: the signed frame around every message of a secure sum.

It holds the kind of the message, its sender and recipient, the digest of the parameters, the payload and a signature.
The numbers below are sizes in bytes.

    4 "HZSA" · 1 version · 1 kind · 32 digest · 4 sender · 4 recipient · 4 length · payload · 64 signature

The digest is the digest of the parameters. The signature (Ed25519) covers the header and the SHA-256 of the payload.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from heathaze.errors import InvalidInput, UnexpectedMessage, expect
from heathaze.secagg.keys import IDENTITY_BYTES, SIGNATURE_BYTES, Identity, verifies
from heathaze.secagg.messages import KINDS, Message, decode, encode
from heathaze.secagg.parameters import Parameters

VERSION = 1
SERVER = 2**32 - 1
"""The index that stands for the server as a sender or a recipient."""

_MAGIC = b"HZSA"
_HEADER = struct.Struct("<4sBB32sIII")


@dataclass(frozen=True)
class Opened:
    """The sender and the message of an envelope that passed every check."""

    sender: int
    message: Message
    fingerprint: bytes = field(repr=False)
    """SHA-256 of the signed bytes of the envelope."""


def wrap(message: Message, parameters: Parameters, identity: Identity, sender: int, recipient: int) -> bytes:
    """Put a message of a secure sum into a signed envelope.

    Args:
        message: The message to send.
        parameters: The parameters of the round.
        identity: The keys of the sender.
        sender: The index of the sending client, or :data:`SERVER`.
        recipient: The index of the receiving client, or :data:`SERVER`.
    """
    payload = encode(message, parameters)
    kind = KINDS.index(type(message))
    header = _HEADER.pack(_MAGIC, VERSION, kind, parameters.digest, sender, recipient, len(payload))
    return b"".join((header, payload, identity.sign(_signed(header, payload))))


def unwrap(block: bytes, parameters: Parameters, directory: Mapping[int, bytes], recipient: int) -> Opened:
    """Check a signed envelope and decode the message of a secure sum in it.

    Args:
        block: The bytes of the envelope, from an untrusted sender.
        parameters: The parameters whose digest the envelope must contain.
        directory: Public identities of the possible senders, by index.
        recipient: The index to which the envelope must be addressed.

    Raises:
        UnexpectedMessage: A check fails; the error says which one.
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
    if digest != parameters.digest:
        found, expected = digest.hex()[:16], parameters.digest.hex()[:16]
        raise UnexpectedMessage("The digest of the terms", found, expected, "drop it, or compare the parameters")
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
    message = decode(KINDS[kind], payload, parameters)
    return Opened(sender, message, hashlib.sha256(signed).digest())


def check_public(public: object, whose: str) -> bytes:
    """Check that a public identity of a client or server has the right type and size.

    Args:
        public: The value that was given as an identity.
        whose: The owner of the identity, for the error.

    Raises:
        InvalidInput: The type or the size is wrong.
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
