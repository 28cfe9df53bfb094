"""Keys of a secure sum: long-lived identities, mask keys for one round, and keys that two neighbours derive from both.

An :class:`Identity` is long-lived, and its public half is in a directory that all clients trust. A :class:`MaskKey` is
used for one round. Two neighbours use both kinds of keys to derive common keys; "·" is a key exchange (X25519):

    key of their mask = HKDF(mask · mask)                      the server can derive it if one of the two clients is
    lost pair keys         = HKDF(identity · identity, mask · mask) only these two clients can derive them

Pair keys need no signature. A client that does not own its identity in the directory, or that received a wrong mask
key, derives different pair keys. Messages that are encrypted with different pair keys cannot be decrypted.
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
"""The number of bytes that sealing (authenticated encryption) adds to a message."""

_PAIR = struct.Struct("<32sII32s32s")
_WAY = struct.Struct("<32sII")


class Identity(Secret):
    """The long-lived keys of a client or server: Ed25519 to sign, X25519 to agree on secrets with neighbours.

    Args:
        randomness: The source of the secret keys.

    >>> from heathaze.privacy.randomness import Simulation
    >>> identity = Identity(Simulation(1))
    >>> verifies(identity.public, identity.sign(b"hello"), b"hello"), identity
    (True, <Identity>)
    """

    def __init__(self, randomness: Randomness) -> None:
        self._load(draw_seed(randomness) + draw_seed(randomness))

    @classmethod
    def from_bytes(cls, secret: bytes) -> Identity:
        """Load an identity from the 64 secret bytes of :meth:`to_bytes`.

        Args:
            secret: The secret bytes.

        Returns:
            The identity.

        Raises:
            InvalidInput: The number of bytes is not 64.
        """
        if len(secret) != IDENTITY_BYTES:
            raise InvalidInput(f"An identity of {len(secret)} bytes, expected {IDENTITY_BYTES}; draw a new one.")
        identity = cls.__new__(cls)
        identity._load(secret)
        return identity

    def to_bytes(self) -> bytes:
        """The identity as 64 secret bytes, for the key store of the device."""
        return self._signing.private_bytes_raw() + self._agreement.private_bytes_raw()

    def _load(self, secret: bytes) -> None:
        self._signing = Ed25519PrivateKey.from_private_bytes(secret[:KEY_BYTES])
        self._agreement = X25519PrivateKey.from_private_bytes(secret[KEY_BYTES:])
        self.public = self._signing.public_key().public_bytes_raw() + self._agreement.public_key().public_bytes_raw()
        """64 bytes for the directory: the Ed25519 key, then the X25519 key."""

    def sign(self, content: bytes) -> bytes:
        """Sign bytes with Ed25519; the signature has 64 bytes.

        Args:
            content: The bytes to sign.

        Returns:
            The signature.
        """
        return self._signing.sign(content)

    def agree(self, other: bytes) -> bytes:
        """The secret shared with the owner of another public identity.

        Args:
            other: The other public identity.
        """
        return _exchange(self._agreement, other[KEY_BYTES:])


class MaskKey(Secret):
    """The X25519 key of one client for one round, made from 32 secret bytes. Masks are derived from it."""

    def __init__(self, secret: bytes) -> None:
        self._key = X25519PrivateKey.from_private_bytes(secret)
        self.secret = secret
        self.public = self._key.public_key().public_bytes_raw()

    @classmethod
    def draw(cls, randomness: Randomness) -> MaskKey:
        """Draw a fresh mask key."""
        return cls(draw_seed(randomness))

    def agree(self, other: bytes) -> bytes:
        """The secret shared with the owner of another public mask key."""
        return _exchange(self._key, other)


class PairKeys(Secret):
    """The keys that two neighbours share in one round, from the point of view of one of them."""

    # A client has one object for each neighbour, so slots save memory.
    __slots__ = ("_check", "_in", "_open", "_out", "_seal", "_vouch")

    def __init__(self, material: bytes, digest: bytes, own: int, other: int) -> None:
        parts = [material[start : start + KEY_BYTES] for start in range(0, 4 * KEY_BYTES, KEY_BYTES)]
        # The two directions have different keys, so that no message can be sent back to its sender.
        if own > other:
            parts = [parts[1], parts[0], parts[3], parts[2]]
        self._seal, self._open, self._vouch, self._check = parts
        self._out, self._in = _WAY.pack(digest, own, other), _WAY.pack(digest, other, own)

    def seal(self, content: bytes) -> bytes:
        """Encrypt a message for the neighbour with AES-256-GCM.

        A key encrypts only one message, so the nonce may be 0.
        """
        return AESGCM(self._seal).encrypt(bytes(12), content, self._out)

    def open(self, sealed: bytes) -> bytes | None:
        """Decrypt a message that the neighbour sealed; None if the neighbour did not seal it."""
        try:
            return AESGCM(self._open).decrypt(bytes(12), sealed, self._in)
        except InvalidTag:
            return None

    def vouch(self, content: bytes) -> bytes:
        """Make a tag that proves to the neighbour, and to nobody else, that this client confirms the content."""
        return hmac.digest(self._vouch, content, "sha256")[:TAG_BYTES]

    def vouched(self, tag: bytes, content: bytes) -> bool:
        """Whether a tag proves that the neighbour confirms the content.

        Args:
            tag: The tag that was received.
            content: The content that the tag should confirm.
        """
        return hmac.compare_digest(hmac.digest(self._check, content, "sha256")[:TAG_BYTES], tag)


def pair_context(digest: bytes, own: int, own_key: bytes, other: int, other_key: bytes) -> bytes:
    """The context to which the keys of two neighbours are bound: parameters, both indices, both public mask keys.

    Both neighbours compute the same context.

    Args:
        digest: Digest of the parameters.
        own: Index of this client.
        own_key: Public mask key of this client.
        other: Index of the neighbour.
        other_key: The neighbour's public mask key.
    """
    if own < other:
        return _PAIR.pack(digest, own, other, own_key, other_key)
    return _PAIR.pack(digest, other, own, other_key, own_key)


def mask_stream_key(shared: bytes, context: bytes) -> bytes:
    """Derive the key of the mask between two neighbours, from the secret that their mask keys share.

    Args:
        shared: The shared secret of the two mask keys.
        context: Result of :func:`pair_context`.
    """
    return _derive(shared, b"heathaze secagg 1 pair mask" + context, KEY_BYTES)


def pair_material(identities: bytes, masks: bytes, context: bytes) -> bytes:
    """Derive the four pair keys of two neighbours: to encrypt and to confirm, each in both directions.

    Args:
        identities: The shared secret of the two identities.
        masks: The shared secret of the two mask keys.
        context: Result of :func:`pair_context`.
    """
    return _derive(identities + masks, b"heathaze secagg 1 pair keys" + context, 4 * KEY_BYTES)


def self_stream_key(seed: bytes, digest: bytes, index: int) -> bytes:
    """Derive the key of a client's self mask from its seed.

    Args:
        seed: The client's seed.
        digest: Digest of the parameters.
        index: Index of the client.
    """
    return _derive(seed, b"heathaze secagg 1 self mask" + _WAY.pack(digest, index, index), KEY_BYTES)


def commitment(seed: bytes, digest: bytes, index: int) -> bytes:
    """A commitment to the seed of a self mask. It reveals nothing about the seed.

    The server checks a seed that it reconstructs from shares against the commitment.

    Args:
        seed: The client's seed.
        digest: Digest of the parameters.
        index: Index of the client.
    """
    return _derive(seed, b"heathaze secagg 1 commitment" + _WAY.pack(digest, index, index), KEY_BYTES)


def verifies(public: bytes, signature: bytes, content: bytes) -> bool:
    """Whether the owner of this public identity signed this content.

    Args:
        public: A public identity.
        signature: The signature, 64 bytes.
        content: The bytes that were signed.
    """
    try:
        Ed25519PublicKey.from_public_bytes(public[:KEY_BYTES]).verify(signature, content)
    except (InvalidSignature, ValueError):
        return False
    return True


def draw_seed(randomness: Randomness) -> bytes:
    """Draw the seed of a self mask or of a key, 32 random bytes."""
    return randomness.words(KEY_BYTES // 8).tobytes()


def _exchange(key: X25519PrivateKey, other: bytes) -> bytes:
    try:
        return key.exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError:
        # The public key is one of the few points of small order, for which every shared secret would be 0.
        raise InvalidInput("No secret can be agreed with this public key; its owner has to draw another.") from None


def _derive(secret: bytes, info: bytes, length: int) -> bytes:
    return HKDF(SHA256(), length, None, info).derive(secret)
