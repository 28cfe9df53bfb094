"""A study: what device, shuffler and server agree on before anything is sent, and the messages between them.

    device ── Submission: sealed messages of one person ──▶ shuffler ── Batch: sealed messages, sorted ──▶ server

The device seals every message for the server (HPKE, RFC 9180: X25519, HKDF-SHA256, AES-128-GCM), so the shuffler cannot
read it. Every message has its own encapsulated key and the same size: two messages under one key, or in one ciphertext,
would stay together when they are mixed. The study is bound to every ciphertext, so a message of another study does not
open.
"""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from heathaze.checks import whole
from heathaze.errors import InvalidInput, UnexpectedMessage, UnreadableData
from heathaze.files import replacing
from heathaze.shuffle.mechanism import Sender, fingerprint

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.hpke import Suite

KEY_BYTES, TAG_BYTES, NAME_BYTES = 32, 16, 16
"""Bytes of an encapsulated key, of an authentication tag, and of the name under which the shuffler knows a person."""

_SUBMISSION, _BATCH = b"HZSS2", b"HZSB2"


@functools.cache
def suite() -> Suite:
    """The cipher suite of all studies."""
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)


@dataclass(frozen=True)
class Study:
    """The public facts of a study.

    Args:
        mechanism: The mechanism; device and server use it, and the shuffler needs its public numbers only.
        key: The server's public key, 32 bytes.
        colluders: How many people of a batch may reveal their messages to the server. The shuffler waits for this
            number of people in addition to those that the mechanism needs, because messages that the server knows hide
            nobody.

    Raises:
        InvalidInput: The key has another length, ``colluders`` is not a whole number, or a batch needs more people than
            the mechanism can count.

    >>> from heathaze.domain.grid import Grid
    >>> from heathaze.shuffle import Decoys, Server
    >>> server = Server(Decoys(Grid.plane(x=(0, 1), y=(0, 1), size=4), epsilon=2, people=1000))
    >>> Study(server.study.mechanism, server.study.key).digest == server.study.digest
    True
    """

    mechanism: Sender
    key: bytes
    colluders: int = 0

    def __post_init__(self) -> None:
        if type(self.key) is not bytes or len(self.key) != KEY_BYTES:
            raise InvalidInput(f"A public key of a server has {KEY_BYTES} bytes; give Server.study.key.")
        whole(self.colluders, "colluders", "people who may reveal their messages", least=0)
        most = self.mechanism.most_people
        if most is not None and self.least_people > most:
            raise InvalidInput(
                f"A batch needs {self.least_people} people, {self.colluders} colluders among them, and sums of more "
                f"than {most} do not fit; give the protocol a larger most."
            )

    @functools.cached_property
    def digest(self) -> bytes:
        """16 bytes that name the study: a hash of all its public facts."""
        text = f"{fingerprint(self.mechanism)} {self.key.hex()} {self.colluders}"
        return hashlib.sha256(text.encode()).digest()[:NAME_BYTES]

    @property
    def least_people(self) -> int:
        """The least number of people in a batch."""
        return self.mechanism.people + self.colluders

    @property
    def width(self) -> int:
        """The number of bytes of one number of a message: enough for every number that may be sent."""
        return max(1, -(-(self.mechanism.limit - 1).bit_length() // 8))

    @property
    def sealed_bytes(self) -> int:
        """The number of bytes of every sealed message."""
        return KEY_BYTES + self.mechanism.numbers * self.width + TAG_BYTES


@dataclass(frozen=True, repr=False)
class Submission:
    """The sealed messages of one person, as the device sends them to the shuffler.

    Args:
        study: The digest of the study.
        name: 16 bytes under which the shuffler knows the person in this study. The server never sees this name.
        sealed: The sealed messages.
        simulated: Whether they were drawn with simulated randomness, which protects nobody.

    >>> from heathaze.domain.grid import Grid
    >>> from heathaze.shuffle import Decoys, Device, Server
    >>> server = Server(Decoys(Grid.plane(x=(0, 1), y=(0, 1), size=4), epsilon=2, people=1000))
    >>> block = Device(server.study).submit((0.2, 0.2)).to_bytes()
    >>> Submission.from_bytes(block).study == server.study.digest
    True
    """

    study: bytes
    name: bytes
    sealed: tuple[bytes, ...]
    simulated: bool = False

    def __repr__(self) -> str:
        return f"<Submission: {len(self.sealed)} sealed messages>"

    def to_bytes(self) -> bytes:
        """Encode the submission: 5 letters, digest, name, simulated or not, number and size of messages, messages.

        Returns:
            The bytes.
        """
        size = len(self.sealed[0]) if self.sealed else 0
        head = _SUBMISSION + self.study + self.name + bytes([self.simulated])
        return head + len(self.sealed).to_bytes(4, "big") + size.to_bytes(4, "big") + b"".join(self.sealed)

    @classmethod
    def from_bytes(cls, block: bytes) -> Submission:
        """Decode a submission.

        Args:
            block: The bytes of one submission.

        Returns:
            The submission.

        Raises:
            UnexpectedMessage: The block is cut short, too long, or no submission.
        """
        start = len(_SUBMISSION) + 2 * NAME_BYTES + 1
        number, size = (int.from_bytes(block[at : at + 4], "big") for at in (start, start + 4))
        if (
            not block.startswith(_SUBMISSION)
            or len(block) != start + 8 + number * size
            or ((number and not size) or block[start - 1] > 1)
        ):
            raise UnexpectedMessage("a submission", f"{len(block)} bytes", "a whole submission of Heathaze")
        body = block[start + 8 :]
        sealed = tuple(body[at : at + size] for at in range(0, len(body), size)) if size else ()
        study, name = (block[at : at + NAME_BYTES] for at in (len(_SUBMISSION), len(_SUBMISSION) + NAME_BYTES))
        return cls(study, name, sealed, block[start - 1] == 1)


@dataclass(frozen=True, repr=False)
class Batch:
    """The sealed messages of many people in sorted order, as the shuffler passes them to the server.

    Args:
        study: The digest of the study.
        people: The number of people who sent the messages.
        size: The number of bytes of every sealed message.
        sealed: All sealed messages, one after the other.
        simulated: Whether some of them were drawn with simulated randomness, which protects nobody.

    >>> from heathaze.domain.grid import Grid
    >>> from heathaze.shuffle import Decoys, Device, Server, Shuffler
    >>> server = Server(Decoys(Grid.plane(x=(0, 1), y=(0, 1), size=2), epsilon=9, people=20, delta=0.01))
    >>> shuffler = Shuffler(server.study)
    >>> for _ in range(20):
    ...     shuffler.accept(Device(server.study).submit((0.2, 0.2)))
    >>> batch = shuffler.mix()
    >>> batch, batch.study == server.study.digest
    (<Batch: sealed messages of 20 people>, True)
    """

    study: bytes
    people: int
    size: int
    sealed: bytes
    simulated: bool = False

    def __repr__(self) -> str:
        return f"<Batch: sealed messages of {self.people} people>"

    def __len__(self) -> int:
        return len(self.sealed) // self.size

    def to_bytes(self) -> bytes:
        """Encode the batch: a line of JSON, the sealed messages, and a SHA-256 of both.

        Returns:
            The bytes.
        """
        fields = {"study": self.study.hex(), "people": self.people, "size": self.size, "messages": len(self)}
        fields |= {"simulated": self.simulated}
        text = _BATCH + json.dumps(fields).encode() + b"\n" + self.sealed
        return text + hashlib.sha256(text).digest()

    def save(self, path: str | Path) -> Path:
        """Write the batch to a file, as :meth:`to_bytes` encodes it.

        Args:
            path: The file; an existing file is replaced.

        Returns:
            The path.

        Raises:
            CannotWrite: The file cannot be written.
        """
        with replacing(Path(path)) as [draft]:
            draft.write_bytes(self.to_bytes())
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Batch:
        """Read a batch from a file.

        Args:
            path: The file.

        Returns:
            The batch.

        Raises:
            UnreadableData: The file is missing, damaged, cut short or no batch.
        """
        try:
            whole_file = Path(path).read_bytes()
            text, checksum = whole_file[:-32], whole_file[-32:]
            if not text.startswith(_BATCH) or hashlib.sha256(text).digest() != checksum:
                raise ValueError
            head, _, sealed = text[len(_BATCH) :].partition(b"\n")
            fields = json.loads(head)
            people, size, number = (fields[name] for name in ("people", "size", "messages"))
            if not all(type(n) is int and n > 0 for n in (people, size, number)) or len(sealed) != size * number:
                raise ValueError
            if type(fields["simulated"]) is not bool:
                raise ValueError
            return cls(bytes.fromhex(fields["study"]), people, size, sealed, fields["simulated"])
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            raise UnreadableData(f"{path} is no whole batch of sealed messages; fetch it again.") from None
