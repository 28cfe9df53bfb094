"""The ledger: the privacy budget of one dataset, in a file that survives crashes.

The file is a SQLite database with one row for each charge. Row 0 holds the total, δ and a random id. Every row carries
a SHA-256 hash of its own text and of the hash of the row before, so that an edited, missing or exchanged row is found.
This chain of hashes is checked whenever the file is opened, and again inside the transaction of every charge. Several
processes that share a ledger therefore cannot overspend it. A charge is on the disk (fsync) when :meth:`Ledger.charge`
returns.

The file alone cannot show that its last rows were removed or that an old copy was put back. Every release therefore
carries the number and the hash of its entry, and :meth:`Ledger.knows` says whether the file still holds that entry.
"""

from __future__ import annotations

import contextlib
import datetime
import glob
import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

from heathaze.errors import (
    AlreadyCharged,
    BudgetExceeded,
    CannotWrite,
    InvalidInput,
    LedgerCorrupt,
    LedgerError,
    LedgerMismatch,
    PromiseBroken,
    expect,
)
from heathaze.files import flush
from heathaze.privacy.accountant import compose
from heathaze.privacy.events import DiscreteLaplace, Event, event_from_dict, event_to_dict, is_shuffled, needs_delta
from heathaze.privacy.guarantee import Adjacency, Guarantee, Unit
from heathaze.privacy.loss import Number, decimal, decimal_down, parse_delta, parse_epsilon, warn_if_weak
from heathaze.privacy.randomness import fresh_bytes

_FORMAT = 2
"""The version of the file format. Format 1, of Heathaze 0.1, had other names in guarantees and events."""

_WAIT_SECONDS = 30.0
"""The time to wait for another process that has locked the file."""

_SCHEMA = (
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, content TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TRIGGER appends_only BEFORE INSERT ON entries WHEN NEW.number <> (SELECT count(*) FROM entries)"
    " BEGIN SELECT RAISE(ABORT, 'entries are appended in order'); END",
    "CREATE TRIGGER keeps_all BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'entries are never deleted'); END",
    "CREATE TRIGGER keeps_each BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'entries are never changed'); END",
)


@dataclass(frozen=True)
class Entry:
    """One charge in a ledger: the guarantee, the event that was paid for, a note, and the place in the ledger.

    ``number`` counts entries from 1. ``hash`` is the entry's hash in the chain. ``time`` is in UTC. The entries of a
    :class:`Budget` have an empty hash and time.
    """

    number: int
    hash: str
    guarantee: Guarantee
    event: Event
    note: str
    time: str

    def reference(self) -> dict[str, Any]:
        """Return the number and the hash of the entry, by which a release refers to it. Both are public."""
        return {"entry": self.number, "hash": self.hash}


class Budget:
    """A privacy budget in memory. It counts charges like a :class:`Ledger`, but is lost when the process ends.

    Args:
        total: The ε that may be spent in all, from 1e-6 to 1000.
        delta: The δ that may be spent: 0 for pure ε only, or from 2^-80 up to below 1.

    Raises:
        InvalidInput: The total is not a usable ε, or delta is not a usable δ.

    >>> Budget(2).remaining
    Fraction(2, 1)
    """

    total: Fraction
    delta: Fraction

    def __init__(self, total: Number, delta: Number = 0) -> None:
        self.total = parse_epsilon(total, "budget")
        self.delta = parse_delta(delta)
        self._entries: list[Entry] = []
        self._lock = threading.Lock()
        self._process = os.getpid()

    def charge(self, guarantee: Guarantee, event: Event, note: str = "", *, once: str | None = None) -> Entry:
        """Pay for a release before it is made, as :meth:`Ledger.charge` does."""
        if os.getpid() != self._process:
            raise PromiseBroken(
                "The budget was made in another process, which would not see this charge; use a Ledger (a file). "
                "Nothing was charged."
            )
        self._check_text(guarantee, event, note)
        with self._lock:  # check and charge as one step: threads cannot overspend the budget together
            self._check_charge(self._entries, guarantee, event, once)
            entry = Entry(len(self._entries) + 1, "", guarantee, event, note, "")
            self._entries.append(entry)
        return entry

    def check(self, guarantee: Guarantee, event: Event) -> None:
        """Raise the error that :meth:`charge` would raise now, and charge nothing.

        A caller who has to charge either all of several ledgers or none of them checks each ledger first. Another
        process may charge a ledger after this check, so the charge can still be refused.

        Args:
            guarantee: The guarantee of the release.
            event: The description of the noise that would be added.

        Raises:
            PromiseBroken, BudgetExceeded, LedgerMismatch: As :meth:`Ledger.charge`.
        """
        check_declared(guarantee, event)
        self._check_charge(self.entries(), guarantee, event)

    def entries(self) -> list[Entry]:
        """Return all charges so far, oldest first."""
        return list(self._entries)

    @property
    def spent(self) -> Fraction:
        """The ε of all charges together."""
        return _cost([(entry.guarantee, entry.event) for entry in self.entries()], self.delta)

    @property
    def remaining(self) -> Fraction:
        """The ε that is left: the total minus the spent ε."""
        return self.total - self.spent

    @property
    def unit(self) -> Unit | None:
        """The protected unit of all charges. The first charge fixes it; None before the first charge."""
        entries = self.entries()
        return entries[0].guarantee.unit if entries else None

    @property
    def adjacency(self) -> Adjacency | None:
        """The adjacency of all charges. The first charge fixes it; None before the first charge."""
        entries = self.entries()
        return entries[0].guarantee.adjacency if entries else None

    @property
    def name(self) -> str:
        """How error sentences refer to the budget."""
        return "the budget"

    def __repr__(self) -> str:
        return f"<Budget: total ε = {decimal(self.total)}>"

    def __deepcopy__(self, memo: object) -> Budget:
        return self.__reduce__()

    def __reduce__(self) -> NoReturn:
        raise TypeError("A Budget cannot be copied or pickled: the copy could be spent again. Use a Ledger instead.")

    # ── what a charge must satisfy ──────────────────────────────────────────────────────────────────────────────────

    def _check_charge(
        self, entries: Sequence[Entry], guarantee: Guarantee, event: Event, once: str | None = None
    ) -> None:
        if once is not None and any(entry.note.startswith(once) for entry in entries):
            raise AlreadyCharged(f"T{self.name[1:]} was charged for {once.strip()!r} before; nothing was charged.")
        if entries:
            self._check_same_unit(entries[0].guarantee, guarantee)
        before = [(entry.guarantee, entry.event) for entry in entries]
        self._check_delta(before, guarantee, event)
        spent = _cost(before, self.delta)
        after = _cost([*before, (guarantee, event)], self.delta)
        if after > self.total:
            left = self.total - spent
            raise BudgetExceeded(
                f"This charge costs ε = {decimal(max(after - spent, Fraction(0)))}, and {self.name} has "
                f"ε = {decimal_down(max(left, Fraction(0)))} left of {decimal(self.total)}; nothing was charged. "
                + ("Take a smaller epsilon." if left > 0 else "The budget of this data is spent for good.")
            )

    def _check_delta(self, before: Sequence[tuple[Guarantee, Event]], guarantee: Guarantee, event: Event) -> None:
        spent = _spent_delta(before)
        left = self.delta - spent - _spent_delta([(guarantee, event)])
        others = any(needs_delta(one) and not is_shuffled(one) for _, one in [*before, (guarantee, event)])
        if guarantee.loss.delta > self.delta - spent or (others and left <= 0 < self.delta):
            allowed = f"allows δ = {decimal(self.delta)}"
            if spent:
                allowed = f"has δ = {decimal_down(max(self.delta - spent, Fraction(0)))} left of {decimal(self.delta)}"
            raise BudgetExceeded(
                f"This charge has δ = {decimal(guarantee.loss.delta)}, and {self.name} {allowed}; nothing was charged. "
                "Take a smaller δ, or a ledger with a larger delta. (The δ of studies with a shuffler add up.)"
            )

    def _check_same_unit(self, first: Guarantee, now: Guarantee) -> None:
        for name, before, given in (
            ("unit", first.unit.value, now.unit.value),
            ("adjacency", first.adjacency.value, now.adjacency.value),
            ("reach", first.reach, now.reach),
        ):
            if before != given:
                raise LedgerMismatch(
                    f"T{self.name[1:]} counts in {name} {before!r}, and this charge is in {name} {given!r}; privacy "
                    f"losses in different units do not add up, so nothing was charged. Use the same {name}, or another "
                    "ledger for other data."
                )

    @staticmethod
    def _check_text(guarantee: Guarantee, event: Event, note: str) -> None:
        """Check the parts of a charge that do not depend on earlier charges: the declared loss and the note."""
        check_declared(guarantee, event)
        expect(str, note, "The note of a charge")
        try:
            note.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput(
                f"The note of the charge has a lone surrogate (U+{ord(note[error.start]):04X}) at character "
                f"{error.start + 1}, which is not text; remove it. Nothing was charged."
            ) from None


def check_declared(guarantee: Guarantee, event: Event) -> None:
    """Refuse an event whose privacy loss, at the δ of the guarantee, is larger than the ε of the guarantee.

    Args:
        guarantee: The declared guarantee.
        event: The description of the noise that will be added.

    Raises:
        PromiseBroken: The event costs more than the guarantee declares.
    """
    if needs_delta(event) and guarantee.loss.delta == 0:
        raise PromiseBroken("The guarantee declares a pure epsilon, and the event has noise that needs a delta.")
    cost = compose([event], guarantee.loss.delta).epsilon
    if cost > guarantee.loss.epsilon:
        raise PromiseBroken(
            f"The event costs ε = {decimal(cost)}, more than the declared ε = {decimal(guarantee.loss.epsilon)}; "
            "nothing was charged."
        )


def _cost(charges: Sequence[tuple[Guarantee, Event]], delta: Fraction) -> Fraction:
    """Compute the ε of all charges together: the declared ε add up, but Gaussian noise is composed.

    Charges with shuffled messages count with their declared ε and δ, which add up. Their joint loss at one δ is
    smaller, but it holds only if all studies are fixed before the first, and a later study may be chosen in view of
    earlier results.
    """
    added = [guarantee.loss.epsilon for guarantee, event in charges if is_shuffled(event) or not needs_delta(event)]
    gaussian = [event for _, event in charges if needs_delta(event) and not is_shuffled(event)]
    if not gaussian:
        return sum(added, Fraction(0))
    # A charge without Gaussian noise counts with its declared ε, which may exceed the cost of its event. It therefore
    # enters the composition as Laplace noise of scale 1/ε.
    left = delta - _spent_delta(charges)
    return compose([*gaussian, *(DiscreteLaplace(1, 1 / epsilon) for epsilon in added if epsilon)], left).epsilon


def _spent_delta(charges: Sequence[tuple[Guarantee, Event]]) -> Fraction:
    """Add up the δ of charges with shuffled messages. Gaussian charges share what is left of δ."""
    return sum((guarantee.loss.delta for guarantee, event in charges if is_shuffled(event)), Fraction(0))


class Ledger(Budget):
    """The privacy budget of one dataset, in a file that all publishers of the dataset share. Use :meth:`open`.

    Args:
        path: The file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger.open(Path(folder) / "visits.ledger", total=2)
    ...     print(ledger.total, ledger.spent, ledger.remaining)
    2 0 2
    """

    path: Path

    def __init__(self, path: Path) -> None:
        """Open a ledger that exists; use :meth:`open`."""
        self.path = path
        self._seen: dict[int, str] = {}
        with self._transaction("DEFERRED") as connection:
            (self.total, self.delta), _, _ = self._read(connection)

    @classmethod
    def open(cls, path: str | Path, total: Number | None = None, delta: Number | None = None) -> Ledger:
        """Open a ledger, or begin one if there is no such file.

        A total above 10 raises the warning :class:`heathaze.errors.WeakPrivacy`.

        Args:
            path: The file. Keep it beside the data, on a local disk, and in the backup.
            total: The ε that may ever be spent on the data, from 1e-6 to 1000. It is needed to begin a ledger. If it is
                given for an existing ledger, it must be the same.
            delta: The δ at which Gaussian noise is accounted: 0 for pure ε only, or from 2^-80 up to below 1. A new
                ledger without it has δ = 0. If it is given for an existing ledger, it must be the same.

        Returns:
            The ledger.

        Raises:
            InvalidInput: There is no such file and no total, or a value is out of range.
            LedgerMismatch: The file was begun with another total or delta, or has another format.
            LedgerCorrupt: The file is not a ledger, or was damaged or edited.
            CannotWrite: The ledger cannot be created there.
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
                    f"without one. The {name} of a ledger cannot be changed."
                )
        return ledger

    def charge(self, guarantee: Guarantee, event: Event, note: str = "", *, once: str | None = None) -> Entry:
        """Pay for a release before it is made. The charge is written completely or not at all, and on disk on return.

        The declared ε of all charges are added in exact rationals. Events with Gaussian noise count with their composed
        loss at the ledger's δ instead. The δ of studies with a shuffler are added too. Only
        :func:`heathaze.privacy.door.pay` calls this method.

        Args:
            guarantee: The guarantee of the release.
            event: The description of the noise that will be added.
            note: A text for the entry.
            once: If given, the charge is refused if the note of an earlier entry begins with this text.

        Returns:
            The new entry.

        Raises:
            PromiseBroken: The event costs more than the guarantee declares.
            BudgetExceeded: The event costs more than the ledger has left; nothing was charged.
            AlreadyCharged: The note of an entry begins with ``once``; nothing was charged.
            LedgerMismatch: The ledger was charged in another unit, adjacency or reach before (errata X5).
            InvalidInput: The note is not a text that can be written as UTF-8; nothing was charged.
        """
        self._check_text(guarantee, event, note)
        with self._transaction("IMMEDIATE") as connection:
            _, entries, last = self._read(connection)
            self._check_charge(entries, guarantee, event, once)
            number = len(entries) + 1
            content = _canonical(
                {
                    "number": number,
                    "guarantee": {name: text for name, text in guarantee.to_dict().items() if name != "sentence"},
                    "event": event_to_dict(event),
                    "note": note,
                    "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                }
            )
            entry = _entry(content, _link(last, content))
            connection.execute("INSERT INTO entries VALUES (?, ?, ?)", (number, content, entry.hash))
        self._seen[number] = entry.hash
        return entry

    def entries(self) -> list[Entry]:
        """Check the chain of hashes and return all charges so far, oldest first.

        Returns:
            One entry for each charge.

        Raises:
            LedgerCorrupt: The file was damaged or edited.
        """
        with self._transaction("DEFERRED") as connection:
            return self._read(connection)[1]

    def verify(self) -> None:
        """Check the chain of hashes of the whole ledger.

        Raises:
            LedgerCorrupt: The file was damaged or edited.
        """
        self.entries()

    def knows(self, reference: Mapping[str, Any]) -> bool:
        """Return whether the file holds the entry that a release refers to.

        If the entry is missing, the last rows of the file were removed or an old copy was put back.

        Args:
            reference: The result of :meth:`Entry.reference`, which a release keeps as ``provenance.ledger_entry``.
        """
        return any(entry.reference() == dict(reference) for entry in self.entries())

    @property
    def name(self) -> str:
        """How error sentences refer to the ledger."""
        return f"the ledger {self.path}"

    def __deepcopy__(self, memo: object) -> Ledger:
        return type(self)(self.path)

    def __reduce__(self) -> tuple[Any, ...]:  # type: ignore[override]
        return type(self), (self.path,)

    def __repr__(self) -> str:
        return f"<Ledger: {self.path}, total ε = {decimal(self.total)}>"

    # ── the file ────────────────────────────────────────────────────────────────────────────────────────────────────

    @contextlib.contextmanager
    def _transaction(self, kind: str) -> Iterator[sqlite3.Connection]:
        if not self.path.exists():
            raise LedgerCorrupt(
                f"The ledger {self.path} is no longer there; put it back, because a new one would not know what was "
                "spent."
            )
        if self.path.is_dir():
            raise LedgerError(f"The ledger {self.path} is a directory; name a file.")
        _check_one_name(self.path)
        with _sqlite_errors(self.path), contextlib.closing(_connect(self.path, "rw")) as connection:
            connection.execute(f"BEGIN {kind}")
            yield connection  # an error closes the connection, which rolls the transaction back
            connection.execute("COMMIT")

    def _read(self, connection: sqlite3.Connection) -> tuple[tuple[Fraction, Fraction], list[Entry], str]:
        """Read and check the ledger; return (total, δ), all entries, and the last hash.

        The chain of hashes must be complete and contain the entries that this object has seen before.
        """
        schema = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master")}
        if schema != set(_SCHEMA):
            raise _corrupt(self.path, "its tables are not those of a ledger")
        rows = connection.execute("SELECT number, content, hash FROM entries ORDER BY number").fetchall()
        links: list[str] = []
        for number, (found, content, link) in enumerate(rows):
            if found != number or link != _link(links[-1] if links else "", content):
                raise _corrupt(self.path, f"its chain breaks at entry {number}")
            links.append(link)
        if any(number >= len(links) or links[number] != link for number, link in self._seen.items()):
            raise _corrupt(self.path, "entries that were there before are gone")
        try:
            budget = _begun_with(self.path, rows[0][1])
            entries = [_entry(content, link) for _, content, link in rows[1:]]
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, PromiseBroken):
            raise _corrupt(self.path, "it has an entry that cannot be read") from None
        self._seen = {0: links[0], len(links) - 1: links[-1]}
        return budget, entries, links[-1]


def _check_one_name(path: Path) -> None:
    """Refuse a ledger file with two hard links.

    SQLite names its journal after the path of the file. After a crash, a journal of one name would remain unnoticed by
    programs that use the other name. Its rollback would later undo the charges of these programs.
    """
    if path.stat().st_nlink == 1:
        return
    for draft in path.parent.glob(f".{glob.escape(path.name)}.*.new"):
        # The process that created this ledger has not yet removed its draft, or was killed. The ledger is complete.
        with contextlib.suppress(OSError):
            if draft.samefile(path):
                draft.unlink()
    if path.stat().st_nlink > 1:
        raise LedgerError(f"The ledger {path} has a second name (a hard link); remove it, or make it a symbolic link.")


def _begin(path: Path, total: Fraction, delta: Fraction) -> None:
    """Create a ledger file: write it under a draft name and link it to ``path`` when it is complete.

    If two processes create the same ledger, the second process keeps the file of the first.
    """
    content = _canonical(
        {"number": 0, "format": _FORMAT, "id": fresh_bytes(16).hex(), "total": str(total), "delta": str(delta)}
    )
    draft = path.with_name(f".{path.name}.{fresh_bytes(8).hex()}.new")
    try:
        with _sqlite_errors(path), contextlib.closing(_connect(draft, "rwc")) as connection:
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
            f"The ledger {path} cannot be created ({reason}); choose a directory on a local disk that exists and can "
            "be written to."
        ) from None
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=_WAIT_SECONDS, isolation_level=None
    )
    connection.execute("PRAGMA synchronous = EXTRA")
    connection.execute("PRAGMA fullfsync = ON")
    return connection


_UNWRITABLE = (
    sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM
)  # fmt: skip


@contextlib.contextmanager
def _sqlite_errors(path: Path) -> Iterator[None]:
    """Replace errors of SQLite with Heathaze's errors about a ledger."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
        if code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise LedgerError(
                f"Another process has held the ledger {path} for more than {_WAIT_SECONDS:g} seconds; nothing was "
                "charged. Try again when it is done."
            ) from None
        if code & 0xFF in _UNWRITABLE and code != sqlite3.SQLITE_IOERR_SHORT_READ:
            raise CannotWrite(
                f"The ledger {path} cannot be written ({error}); nothing was charged. Check that the disk has room and "
                "that the file and its directory exist and can be written to."
            ) from None
        raise _corrupt(path, "it cannot be read as one") from None


def _corrupt(path: Path, found: str) -> LedgerCorrupt:
    return LedgerCorrupt(
        f"{path} is not a sound ledger: {found}. Put back its last good copy, and compare it with the releases made "
        "since (Ledger.knows). Do not begin a new one, which would not know what was spent."
    )


def _begun_with(path: Path, content: str) -> tuple[Fraction, Fraction]:
    """Read the total and δ of a ledger from the text of its row 0."""
    fields = json.loads(content)
    if fields["format"] == 1:
        raise LedgerMismatch(
            f"The ledger {path} has format 1, of Heathaze 0.1, and this version reads format {_FORMAT}. Look up what "
            "is left with version 0.1 (heathaze ledger show), and begin a new ledger with that as its total."
        )
    if fields["format"] != _FORMAT:
        raise LedgerMismatch(f"The ledger {path} was written by a newer version of Heathaze; use that version.")
    return Fraction(fields["total"]), Fraction(fields["delta"])


def _entry(content: str, link: str) -> Entry:
    fields = json.loads(content)
    guarantee = Guarantee.from_dict(fields["guarantee"])
    return Entry(fields["number"], link, guarantee, event_from_dict(fields["event"]), fields["note"], fields["time"])


def _canonical(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _link(previous: str, content: str) -> str:
    """Compute the hash of a ledger's row: SHA-256 of the previous row's hash and of this row's text."""
    return hashlib.sha256(f"{previous}\n{content}".encode()).hexdigest()
