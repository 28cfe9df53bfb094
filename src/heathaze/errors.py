"""The exceptions and the warning that Heathaze raises on purpose.

    HeathazeError
    ├── InvalidInput          a value that the caller gave cannot be used (also a ValueError)
    │   ├── InvalidBounds     a box that is reversed, empty, outside the globe or probably swapped
    │   ├── UnreadableData    a file or table that cannot be read as visits
    │   └── UnknownFormat     an unknown file type
    ├── TooLarge              the request is valid but needs too much memory (a dense map of 2^40 cells)
    ├── CannotWrite           a file cannot be written; no half-written file is left
    ├── MissingExtra          an optional package is needed and not installed
    ├── PromiseBroken         continuing would break the privacy guarantee
    │   ├── SensitivityExceeded   one unit has more mass than the noise is calibrated for
    │   └── SimulatedRelease      a release with simulated randomness is not private and must not be saved
    ├── ProtocolError         a secure sum cannot continue
    │   ├── UnexpectedMessage     a message is garbled, out of turn or of another round; it was not used
    │   ├── StoppedForGood        a client saw a violation of the protocol and sends nothing more
    │   └── ShardAborted          the server gave up the sum of a shard and learned nothing
    └── LedgerError           a ledger cannot be used
        ├── BudgetExceeded    the charge would exceed the budget; nothing was charged
        ├── AlreadyCharged    a charge that is allowed only once was made before; nothing was charged
        ├── LedgerMismatch    the ledger has another total, δ, unit, adjacency, reach or format
        └── LedgerCorrupt     the file is damaged or was edited

There is one warning, ``WeakPrivacy``, for an ε above 10. Heathaze warns before it charges a ledger.

``sensors.Refused`` is not in this tree, because the file that raises it runs on sensors without the rest of Heathaze.

Every message is a sentence that says what is wrong, with which value, and what to do. No message contains a coordinate,
an id or a count from the data.
"""


class HeathazeError(Exception):
    """The base class of all exceptions that Heathaze raises on purpose."""


class InvalidInput(HeathazeError, ValueError):
    """A value that the caller gave cannot be used."""


def expect(kind: type | tuple[type, ...], value: object, what: str) -> None:
    """Raise InvalidInput unless an argument has the expected type.

    Args:
        kind: The expected type, or a tuple of allowed types.
        value: The argument that the caller gave.
        what: A name of the argument that begins the error sentence, such as "The cohort".

    Raises:
        InvalidInput: The value has another type.

    >>> expect(bytes, "no", "A message")
    Traceback (most recent call last):
        ...
    heathaze.errors.InvalidInput: A message is a str; expected bytes.
    """
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        wanted = " or ".join(one.__name__ for one in kinds)
        raise InvalidInput(f"{what} is {kind_of(value)}; expected {wanted}.")


def kind_of(value: object) -> str:
    """Name the type of a value in an error sentence, with its article.

    >>> kind_of(3), kind_of("x"), kind_of(None)
    ('an int', 'a str', 'None')
    """
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


class InvalidBounds(InvalidInput):
    """A box is reversed, empty or outside the globe, or its longitudes and latitudes are probably swapped."""


class UnreadableData(InvalidInput):
    """A file or table cannot be read as visits."""


class UnknownFormat(InvalidInput):
    """A file has a type that Heathaze does not know."""


class TooLarge(HeathazeError):
    """The request is valid but needs too much memory, or numbers beyond 64 bits."""


class CannotWrite(HeathazeError):
    """A file cannot be written, because of the disk or the directory; no half-written file is left."""


class MissingExtra(HeathazeError):
    """An optional package is needed and not installed."""


class PromiseBroken(HeathazeError):
    """Continuing would break the privacy guarantee."""


class SensitivityExceeded(PromiseBroken):
    """One unit has more mass than the noise is calibrated for."""


class SimulatedRelease(PromiseBroken):
    """A release was made with simulated randomness, so it is not private and must not be saved."""


class ProtocolError(HeathazeError):
    """A secure sum cannot continue."""


class UnexpectedMessage(ProtocolError):
    """A message is garbled, out of turn, or of another round or version. The receiver did not use the message.

    Args:
        what: The part of the message that is wrong, which begins the error sentence.
        found: The value of that part.
        expected: The value that the part should have.
        do: The remedy, which ends the error sentence.
    """

    def __init__(self, what: str, found: object, expected: object, do: str = "drop it") -> None:
        super().__init__(f"{what} is {found}, expected {expected}; {do}.")
        self.found = found
        self.expected = expected


class StoppedForGood(ProtocolError):
    """A client saw a violation of the secure-sum protocol and sends nothing more."""


class ShardAborted(ProtocolError):
    """The server gave up the sum of a shard and learned nothing about its devices."""


class LedgerError(HeathazeError):
    """A ledger cannot be used."""


class BudgetExceeded(LedgerError):
    """The charge would exceed the privacy budget; nothing was charged."""


class AlreadyCharged(LedgerError):
    """A charge that is allowed only once was made before; nothing was charged."""


class LedgerMismatch(LedgerError):
    """The ledger has another total, δ, unit, adjacency, reach or format than the caller gave."""


class LedgerCorrupt(LedgerError):
    """The file of a ledger is damaged or was edited."""


class WeakPrivacy(UserWarning):
    """Warn that an ε above 10, which is about to be promised or budgeted, protects hardly at all.

    An ε above 1000 is refused instead.
    """
