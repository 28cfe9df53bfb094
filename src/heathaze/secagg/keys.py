"""Keys of a secure sum: long-lived identities, mask keys of one round, and what two neighbours derive from both.

An :class:`Identity` is long-lived; its public half is in a directory that all clients trust. A :class:`MaskKey` lives
for one round. Two neighbours exchange both kinds of key and derive from them

    mask key     = HKDF(mask · mask)                      the server can derive it too if one side is lost
    pair keys    = HKDF(identity · identity, mask · mask) only these two clients can derive them

Pair keys need no signature. A client that does not own the identity in the directory, or received another mask key,
derives different pair keys, and what is sealed with them does not open.
"""

from __future__ import annotations

import hmac
import struct

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from heathaze.errors import InvalidInput
from heathaze.privacy.randomness import Randomness, Secret

KEY_BYTES = 32
SIGNATURE_BYTES = 64
IDENTITY_BYTES = 64
TAG_BYTES = 16
SEAL_BYTES = 16
"""Bytes that sealing adds to a message."""

_PAIR = struct.Struct("<32sII32s32s")
_WAY = struct.Struct("<32sII")


class Identity(Secret):
    """A long-lived pair of keys: Ed25519 to sign, X25519 to agree with neighbours.

    >>> from heathaze.privacy.randomness import Simulation
    >>> identity = Identity(Simulation(1))
    >>> verifies(identity.public, identity.sign(b"hello"), b"hello"), identity
    (True, <Identity>)
    """

    def __init__(self, randomness: Randomness) -> None:
        self._load(_bytes(randomness) + _bytes(randomness))

    @classmethod
    def from_bytes(cls, secret: bytes) -> Identity:
        """Read what :meth:`to_bytes` wrote."""
        if len(secret) != IDENTITY_BYTES:
            raise InvalidInput(f"An identity of {len(secret)} bytes, expected {IDENTITY_BYTES}; draw a new one.")
        identity = cls.__new__(cls)
        identity._load(secret)
        return identity

    def to_bytes(self) -> bytes:
        """64 secret bytes, for the key store of the device."""
        return self._signing.private_bytes_raw() + self._agreement.private_bytes_raw()

    def _load(self, secret: bytes) -> None:
        self._signing = Ed25519PrivateKey.from_private_bytes(secret[:KEY_BYTES])
        self._agreement = X25519PrivateKey.from_private_bytes(secret[KEY_BYTES:])
        self.public = self._signing.public_key().public_bytes_raw() + self._agreement.public_key().public_bytes_raw()
        """64 bytes for the directory: the Ed25519 key, then the X25519 key."""

    def sign(self, content: bytes) -> bytes:
        """An Ed25519 signature of 64 bytes."""
        return self._signing.sign(content)

    def agree(self, other: bytes) -> bytes:
        """The secret shared with the owner of another public identity."""
        return _exchange(self._agreement, other[KEY_BYTES:])


class MaskKey(Secret):
    """The X25519 key of one client in one round, from its 32 secret bytes."""

    def __init__(self, secret: bytes) -> None:
        self._key = X25519PrivateKey.from_private_bytes(secret)
        self.secret = secret
        self.public = self._key.public_key().public_bytes_raw()

    @classmethod
    def draw(cls, randomness: Randomness) -> MaskKey:
        """Draw a fresh mask key."""
        return cls(_bytes(randomness))

    def agree(self, other: bytes) -> bytes:
        """The secret shared with the owner of another public mask key."""
        return _exchange(self._key, other)


class PairKeys(Secret):
    """The keys that two neighbours share in one round, seen from one of them."""

    # A client has one for each neighbour.
    __slots__ = ("_check", "_in", "_open", "_out", "_seal", "_vouch")

    def __init__(self, material: bytes, digest: bytes, own: int, other: int) -> None:
        parts = [material[start : start + KEY_BYTES] for start in range(0, 4 * KEY_BYTES, KEY_BYTES)]
        # Each direction has other keys, so that no message can be sent back to its sender.
        if own > other:
            parts = [parts[1], parts[0], parts[3], parts[2]]
        self._seal, self._open, self._vouch, self._check = parts
        self._out, self._in = _WAY.pack(digest, own, other), _WAY.pack(digest, other, own)

    def seal(self, content: bytes) -> bytes:
        """Seal with AES-256-GCM. The key seals one message of one round, pair and direction, so the nonce may be 0."""
        return AESGCM(self._seal).encrypt(bytes(12), content, self._out)

    def open(self, sealed: bytes) -> bytes | None:
        """Open what the neighbour sealed; None if the neighbour did not seal it."""
        try:
            return AESGCM(self._open).decrypt(bytes(12), sealed, self._in)
        except InvalidTag:
            return None

    def vouch(self, content: bytes) -> bytes:
        """A tag that proves to the neighbour alone that this client confirms the content."""
        return hmac.digest(self._vouch, content, "sha256")[:TAG_BYTES]

    def vouched(self, tag: bytes, content: bytes) -> bool:
        """Whether the tag is the neighbour's tag of this content.

        Args:
            tag: The tag that came.
            content: What it should confirm.
        """
        return hmac.compare_digest(hmac.digest(self._check, content, "sha256")[:TAG_BYTES], tag)


def pair_context(digest: bytes, own: int, own_key: bytes, other: int, other_key: bytes) -> bytes:
    """What the keys of a pair are bound to: parameters, both numbers, both public mask keys; equal on both sides.

    Args:
        digest: Digest of the parameters.
        own: Number of this client.
        own_key: Its public mask key.
        other: Number of the neighbour.
        other_key: The neighbour's public mask key.
    """
    if own < other:
        return _PAIR.pack(digest, own, other, own_key, other_key)
    return _PAIR.pack(digest, other, own, other_key, own_key)


def mask_stream_key(shared: bytes, context: bytes) -> bytes:
    """The key of the mask between two neighbours, from the secret that their mask keys share.

    Args:
        shared: What the two mask keys agree on.
        context: Result of :func:`pair_context`.
    """
    return _derive(shared, b"heathaze secagg 1 pair mask" + context, KEY_BYTES)


def pair_material(identities: bytes, masks: bytes, context: bytes) -> bytes:
    """Four keys: to seal and to vouch, each in both directions.

    Args:
        identities: What the two identities agree on.
        masks: What the two mask keys agree on.
        context: Result of :func:`pair_context`.
    """
    return _derive(identities + masks, b"heathaze secagg 1 pair keys" + context, 4 * KEY_BYTES)


def self_stream_key(seed: bytes, digest: bytes, index: int) -> bytes:
    """The key of a client's self mask, from its seed.

    Args:
        seed: The client's seed.
        digest: Digest of the parameters.
        index: Number of the client.
    """
    return _derive(seed, b"heathaze secagg 1 self mask" + _WAY.pack(digest, index, index), KEY_BYTES)


def commitment(seed: bytes, digest: bytes, index: int) -> bytes:
    """A commitment to a seed: the server checks the combined seed against it, and it tells nothing about the seed.

    Args:
        seed: The client's seed.
        digest: Digest of the parameters.
        index: Number of the client.
    """
    return _derive(seed, b"heathaze secagg 1 commitment" + _WAY.pack(digest, index, index), KEY_BYTES)


def verifies(public: bytes, signature: bytes, content: bytes) -> bool:
    """Whether the owner of this public identity signed this content.

    Args:
        public: A public identity.
        signature: 64 bytes.
        content: What was signed.
    """
    try:
        Ed25519PublicKey.from_public_bytes(public[:KEY_BYTES]).verify(signature, content)
    except (InvalidSignature, ValueError):
        return False
    return True


def draw_seed(randomness: Randomness) -> bytes:
    """Draw the 32 bytes that a self mask is made from."""
    return _bytes(randomness)


def _bytes(randomness: Randomness) -> bytes:
    return randomness.words(KEY_BYTES // 8).tobytes()


def _exchange(key: X25519PrivateKey, other: bytes) -> bytes:
    try:
        return key.exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError:
        # One of the few points of small order: the shared secret would be 0 for every key.
        raise InvalidInput("No secret can be agreed with this public key; its owner has to draw another.") from None


def _derive(secret: bytes, info: bytes, length: int) -> bytes:
    return HKDF(SHA256(), length, None, info).derive(secret)
