"""The ledger: what was promised about one dataset so far, in a file that outlives crashes.

A SQLite file with one row for each charge. Row 0 holds the total, δ and a random id; every row carries the SHA-256 of
the row before it and of its own text, so that an edit, a hole or a swap shows. The chain is checked whenever the file
is opened and before every charge, inside the transaction that charges: processes that share a ledger cannot overspend
it together. A charge is on the disk (fsync) when :meth:`Ledger.charge` returns.

What the file alone cannot show is that its end was cut off or that an old copy was put back. Every release therefore
carries the number and hash of its entry, and :meth:`Ledger.knows` tells whether the file still holds it.
"""

from __future__ import annotations

import contextlib
import datetime
import glob
import hashlib
import json
import math
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from heathaze.errors import (
    AlreadyCharged,
    BudgetExceeded,
    CannotWrite,
    HeathazeError,
    InvalidInput,
    LedgerCorrupt,
    LedgerError,
    LedgerMismatch,
    PromiseBroken,
    expect,
)
from heathaze.files import flush
from heathaze.privacy.accountant import compose
from heathaze.privacy.events import DiscreteLaplace, Event, event_from_dict, event_to_dict, needs_delta
from heathaze.privacy.guarantee import Adjacency, Guarantee, Unit
from heathaze.privacy.loss import Number, decimal, parse_delta, parse_epsilon, warn_if_weak
from heathaze.privacy.randomness import fresh_bytes

_FORMAT = 1

_PATIENCE_SECONDS = 30.0
"""How long to wait for another process that holds the file."""

_SCHEMA = (
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, content TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TRIGGER appends_only BEFORE INSERT ON entries WHEN NEW.number <> (SELECT count(*) FROM entries)"
    " BEGIN SELECT RAISE(ABORT, 'entries are appended in order'); END",
    "CREATE TRIGGER keeps_all BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'entries are never deleted'); END",
    "CREATE TRIGGER keeps_each BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'entries are never changed'); END",
)


@dataclass(frozen=True)
class Entry:
    """One charge: what was promised, the event that pays for it, and its place in the chain."""

    number: int
    hash: str
    guarantee: Guarantee
    event: Event
    note: str
    time: str

    def reference(self) -> dict[str, Any]:
        """Number and hash, for a release: enough to find the entry, and nothing secret."""
        return {"entry": self.number, "hash": self.hash}


@dataclass(frozen=True)
class _First:
    """Row 0: what the ledger was begun with."""

    hash: str
    total: Fraction
    delta: Fraction


class Ledger:
    """The privacy budget of one dataset, shared by all who publish from it. One verb: :meth:`charge`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger.open(Path(folder) / "visits.ledger", total=2)
    ...     print(ledger.total, ledger.spent, ledger.remaining)
    2 0 2
    """

    path: Path
    total: Fraction
    delta: Fraction

    def __init__(self, path: Path) -> None:
        """A ledger that exists; use :meth:`open`."""
        self.path = path
        self._seen: dict[int, str] = {}
        with self._transaction("DEFERRED") as connection:
            first, _ = self._read(connection)
        self.total, self.delta = first.total, first.delta

    @classmethod
    def open(cls, path: str | Path, total: Number | None = None, delta: Number | None = None) -> Ledger:
        """Open a ledger, or begin one if there is no such file.

        Args:
            path: The file. Keep it beside the data, on a local disk, and in the backup.
            total: All the ε that may ever be spent on the data; needed to begin, checked (if given) afterwards.
            delta: The δ at which Gaussian noise is accounted; 0 (pure ε only) if left out at the beginning.

        A total above 10 is warned of (:class:`heathaze.errors.WeakPrivacy`).

        Raises:
            LedgerMismatch: The file was begun with another total or delta.
            LedgerCorrupt: The file is no ledger, or was damaged or edited.
        """
        file = Path(path)
        wanted_total = None if total is None else parse_epsilon(total, "total")
        wanted_delta = None if delta is None else parse_delta(delta)
        if wanted_total is not None:
            warn_if_weak(wanted_total, "total")
        if not file.exists():
            if wanted_total is None:
                raise InvalidInput(f"There is no ledger at {file}; give a total, for example total=2, to begin one.")
            _begin(file, wanted_total, wanted_delta or Fraction(0))
        ledger = cls(file)
        for name, wanted, found in (("total", wanted_total, ledger.total), ("delta", wanted_delta, ledger.delta)):
            if wanted is not None and wanted != found:
                raise LedgerMismatch(
                    f"The ledger {file} was begun with {name} {found}, not {wanted}; open it with the same {name} or "
                    f"without one. A {name} once promised cannot be changed."
                )
        return ledger

    def charge(self, guarantee: Guarantee, event: Event, note: str = "", *, once: str | None = None) -> Entry:
        """Pay for a release before it is made: all or nothing, and on the disk on return.

        The declared loss counts, in exact rationals: Σ εᵢ. Once Gaussian noise is among the events, what counts is the
        price of all events together at the ledger's δ.

        Raises:
            PromiseBroken: The event costs more than the guarantee declares.
            BudgetExceeded: Less is left than this costs; nothing was charged.
            AlreadyCharged: There is an entry whose note begins with ``once``; nothing was charged.
            LedgerMismatch: The ledger was charged in another unit or adjacency before (errata X5).
            InvalidInput: The note is not a text that can be written as UTF-8; nothing was charged.
        """
        check_declared(guarantee, event)
        _check_note(note)
        with self._transaction("IMMEDIATE") as connection:
            first, entries = self._read(connection)
            _check_once(self, entries, once)
            _check_charge(self, entries, guarantee, event)
            number, previous = len(entries) + 1, (entries[-1] if entries else first).hash
            content = _canonical(
                {
                    "number": number,
                    "guarantee": {name: text for name, text in guarantee.to_dict().items() if name != "sentence"},
                    "event": event_to_dict(event),
                    "note": note,
                    "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                }
            )
            entry = _entry(content, _link(previous, content))
            connection.execute("INSERT INTO entries VALUES (?, ?, ?)", (number, content, entry.hash))
        self._seen[number] = entry.hash
        return entry

    def check(self, guarantee: Guarantee, event: Event) -> None:
        """Refuse what :meth:`charge` would refuse now, and charge nothing.

        For whoever has several ledgers to charge and wants all or none: look at each first. Another process may still
        come in between, so a charge afterwards can be refused all the same.
        """
        check_declared(guarantee, event)
        _check_charge(self, self.entries(), guarantee, event)

    def entries(self) -> list[Entry]:
        """All charges so far, oldest first."""
        with self._transaction("DEFERRED") as connection:
            return self._read(connection)[1]

    def verify(self) -> None:
        """Check the whole chain; raises :class:`LedgerCorrupt` if the file was damaged or edited."""
        self.entries()

    def knows(self, reference: Mapping[str, Any]) -> bool:
        """Does the file hold the entry a release refers to? If not, its end was cut off or an old copy was put back."""
        return any(entry.reference() == dict(reference) for entry in self.entries())

    @property
    def spent(self) -> Fraction:
        """The ε of all charges together."""
        return _cost([(entry.guarantee, entry.event) for entry in self.entries()], self.delta)

    @property
    def remaining(self) -> Fraction:
        """The ε left."""
        return self.total - self.spent

    @property
    def unit(self) -> Unit | None:
        """Whom the charges protect: fixed by the first one."""
        entries = self.entries()
        return entries[0].guarantee.unit if entries else None

    @property
    def adjacency(self) -> Adjacency | None:
        """Which change the charges speak of: fixed by the first one."""
        entries = self.entries()
        return entries[0].guarantee.adjacency if entries else None

    def __repr__(self) -> str:
        return f"<Ledger: {self.path}, total ε = {decimal(self.total)}>"

    # ── the file ────────────────────────────────────────────────────────────────────────────────────────────────────

    @contextlib.contextmanager
    def _transaction(self, kind: str) -> Iterator[sqlite3.Connection]:
        if not self.path.exists():
            raise LedgerCorrupt(
                f"The ledger {self.path} is no longer there; put it back: a new one would forget what was spent."
            )
        _check_one_name(self.path)
        with _sentences(self.path), contextlib.closing(_connect(self.path, "rw")) as connection:
            connection.execute(f"BEGIN {kind}")
            yield connection  # an error leaves by closing, which rolls back
            connection.execute("COMMIT")

    def _read(self, connection: sqlite3.Connection) -> tuple[_First, list[Entry]]:
        """Row 0 and all entries, if the chain is whole and holds what this object has seen before."""
        schema = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master")}
        if schema != set(_SCHEMA):
            raise _corrupt(self.path, "it is not laid out as one")
        rows = connection.execute("SELECT number, content, hash FROM entries ORDER BY number").fetchall()
        links: list[str] = []
        for number, (found, content, link) in enumerate(rows):
            if found != number or link != _link(links[-1] if links else "", content):
                raise _corrupt(self.path, f"its chain breaks at entry {number}")
            links.append(link)
        if any(number >= len(links) or links[number] != link for number, link in self._seen.items()):
            raise _corrupt(self.path, "entries seen a moment ago are gone")
        try:
            first = _first(rows[0][1], links[0])
            entries = [_entry(content, link) for _, content, link in rows[1:]]
        except (ValueError, LookupError, TypeError, AttributeError, ZeroDivisionError, PromiseBroken):
            raise _corrupt(self.path, "it has an entry that cannot be read") from None
        self._seen = {0: links[0], len(links) - 1: links[-1]}
        return first, entries


class Budget:
    """A ledger in memory: it counts charges as :class:`Ledger` does, and forgets them when the process ends.

    Args:
        total: All the ε that may be spent.

    >>> Budget(2).remaining
    Fraction(2, 1)
    """

    delta = Fraction(0)

    def __init__(self, total: Number) -> None:
        self.total = parse_epsilon(total, "budget")
        self._entries: list[Entry] = []

    def charge(self, guarantee: Guarantee, event: Event, note: str = "", *, once: str | None = None) -> Entry:
        """Pay for a release before it is made, as :meth:`Ledger.charge` does."""
        check_declared(guarantee, event)
        _check_note(note)
        _check_once(self, self._entries, once)
        _check_charge(self, self._entries, guarantee, event)
        entry = Entry(len(self._entries) + 1, "", guarantee, event, note, "")
        self._entries.append(entry)
        return entry

    def entries(self) -> list[Entry]:
        """All charges so far, oldest first."""
        return list(self._entries)

    @property
    def remaining(self) -> Fraction:
        """The ε left."""
        return self.total - _cost([(entry.guarantee, entry.event) for entry in self._entries], self.delta)

    def __repr__(self) -> str:
        return f"<Budget: total ε = {decimal(self.total)}>"


def _named(ledger: Ledger | Budget) -> str:
    return f"the ledger {ledger.path}" if isinstance(ledger, Ledger) else "the budget"


# ── what a charge must satisfy ──────────────────────────────────────────────────────────────────────────────────────


def _check_once(ledger: Ledger | Budget, entries: Sequence[Entry], once: str | None) -> None:
    if once is not None and any(entry.note.startswith(once) for entry in entries):
        raise AlreadyCharged(f"T{_named(ledger)[1:]} was charged for {once.strip()!r} before; nothing was charged.")


def _check_charge(ledger: Ledger | Budget, entries: Sequence[Entry], guarantee: Guarantee, event: Event) -> None:
    if entries:
        _check_same_unit(ledger, entries[0].guarantee, guarantee)
    if guarantee.loss.delta > ledger.delta:
        raise BudgetExceeded(
            f"This charge has δ = {decimal(guarantee.loss.delta)}, and {_named(ledger)} allows "
            f"δ = {decimal(ledger.delta)}; nothing was charged. Take a δ no larger than that, or a ledger that "
            "was begun with a larger delta."
        )
    before = [(entry.guarantee, entry.event) for entry in entries]
    spent = _cost(before, ledger.delta)
    after = _cost([*before, (guarantee, event)], ledger.delta)
    if after > ledger.total:
        left = ledger.total - spent
        raise BudgetExceeded(
            f"This charge costs ε = {decimal(max(after - spent, Fraction(0)))}, and {_named(ledger)} has "
            f"ε = {_floor(left)} left of {decimal(ledger.total)}; nothing was charged. "
            + ("Take a smaller epsilon." if left > 0 else "The budget of this data is spent for good.")
        )


def _check_same_unit(ledger: Ledger | Budget, first: Guarantee, now: Guarantee) -> None:
    for name, before, given in (
        ("unit", first.unit.value, now.unit.value),
        ("adjacency", first.adjacency.value, now.adjacency.value),
        ("reach", first.reach, now.reach),
    ):
        if before != given:
            raise LedgerMismatch(
                f"T{_named(ledger)[1:]} counts in {name} {before!r}, and this charge is in {name} {given!r}; "
                "losses in different units do not add up, so nothing was charged. Use the same "
                "unit, or another ledger for other data."
            )


def _check_one_name(path: Path) -> None:
    """SQLite names its journal after the path: with two hard links, a crash through one undoes charges of the other."""
    if path.stat().st_nlink == 1:
        return
    for draft in path.parent.glob(f".{glob.escape(path.name)}.*.new"):
        # Left by whoever began this ledger, still at it or killed; the ledger itself is whole.
        with contextlib.suppress(OSError):
            if draft.samefile(path):
                draft.unlink()
    if path.stat().st_nlink > 1:
        raise LedgerError(f"The ledger {path} has a second name (a hard link); remove it, or make it a symbolic link.")


def check_declared(guarantee: Guarantee, event: Event) -> None:
    """The event, priced at the declared δ, must not cost more than the declared ε."""
    if needs_delta(event) and guarantee.loss.delta == 0:
        raise PromiseBroken("A pure epsilon is declared, and the event has Gaussian noise, which has none.")
    cost = compose([event], guarantee.loss.delta).epsilon
    if cost > guarantee.loss.epsilon:
        raise PromiseBroken(
            f"The event costs ε = {decimal(cost)}, more than the declared ε = {decimal(guarantee.loss.epsilon)}; "
            "nothing was charged."
        )


def _check_note(note: str) -> None:
    """A note must be text that every reader of the ledger can print; half a surrogate pair is not."""
    expect(str, note, "The note of a charge")
    try:
        note.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"The note of the charge has a lone surrogate (U+{ord(note[error.start]):04X}) at character "
            f"{error.start + 1}, which is not text; remove it. Nothing was charged."
        ) from None


def _cost(charges: Sequence[tuple[Guarantee, Event]], delta: Fraction) -> Fraction:
    """ε of all charges together: the sum of what was declared, or the joint price once there is Gaussian noise."""
    pure = [guarantee.loss.epsilon for guarantee, event in charges if not needs_delta(event)]
    gaussian = [event for _, event in charges if needs_delta(event)]
    if not gaussian:
        return sum(pure, Fraction(0))
    # Laplace noise of scale 1/ε stands for a pure charge of ε as declared, which may be more than its event costs.
    return compose([*gaussian, *(DiscreteLaplace(1, 1 / epsilon) for epsilon in pure if epsilon)], delta).epsilon


def _begin(path: Path, total: Fraction, delta: Fraction) -> None:
    """Write a new ledger beside ``path`` and link it into place: whoever comes second keeps the first one's file.

    Never half a ledger under this name, whenever the process dies.
    """
    content = _canonical(
        {
            "number": 0,
            "format": _FORMAT,
            "id": fresh_bytes(16).hex(),
            "total": str(total),
            "delta": str(delta),
        }
    )
    draft = path.with_name(f".{path.name}.{fresh_bytes(8).hex()}.new")
    try:
        with _sentences(path), contextlib.closing(_connect(draft, "rwc")) as connection:
            connection.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA:
                connection.execute(statement)
            connection.execute("INSERT INTO entries VALUES (0, ?, ?)", (content, _link("", content)))
            connection.execute("COMMIT")
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
            flush(path.parent)
    except OSError as error:
        reason = error.strerror or "the disk refused"
        raise CannotWrite(
            f"The ledger {path} cannot be begun ({reason}); choose a directory on a local disk that exists and can be "
            "written to."
        ) from None
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=_PATIENCE_SECONDS, isolation_level=None
    )
    connection.execute("PRAGMA synchronous = EXTRA")
    connection.execute("PRAGMA fullfsync = ON")
    return connection


@contextlib.contextmanager
def _sentences(path: Path) -> Iterator[None]:
    """SQLite's errors as sentences."""
    try:
        yield
    except sqlite3.Error as error:
        raise _explained(path, error) from None


def _explained(path: Path, error: sqlite3.Error) -> HeathazeError:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    if code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LedgerError(
            f"Another process has held the ledger {path} for more than {_PATIENCE_SECONDS:g} seconds; nothing was "
            "charged. Try again when it is done."
        )
    unwritable = (
        sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM
    )  # fmt: skip
    if code & 0xFF in unwritable and code != sqlite3.SQLITE_IOERR_SHORT_READ:
        return CannotWrite(
            f"The ledger {path} cannot be written ({error}); nothing was charged. See that the disk has room and that "
            "the file and its directory exist and can be written to."
        )
    return _corrupt(path, "it cannot be read as one")


def _corrupt(path: Path, found: str) -> LedgerCorrupt:
    return LedgerCorrupt(
        f"{path} is not a whole ledger: {found}. Put back its last good copy, and compare it with the releases made "
        "since (Ledger.knows); beginning anew would forget what was spent."
    )


def _first(content: str, link: str) -> _First:
    fields = json.loads(content)
    if fields["format"] != _FORMAT:
        raise LedgerMismatch("This ledger was written by a newer version of Heathaze; use that one.")
    return _First(link, Fraction(fields["total"]), Fraction(fields["delta"]))


def _entry(content: str, link: str) -> Entry:
    fields = json.loads(content)
    guarantee = Guarantee.from_dict(fields["guarantee"])
    return Entry(fields["number"], link, guarantee, event_from_dict(fields["event"]), fields["note"], fields["time"])


def _canonical(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _link(previous: str, content: str) -> str:
    """SHA-256 of the row before and of this row's text."""
    return hashlib.sha256(f"{previous}\n{content}".encode()).hexdigest()


def _floor(value: Fraction) -> str:
    """What is left, for the reader: six digits, never rounded up."""
    if value <= 0:
        return "0"
    step = Fraction(10) ** (math.floor(math.log10(value)) - 5)
    return f"{float(value // step * step):.6g}"
