"""Everything Heathaze raises on purpose.

    HeathazeError
    ├── InvalidInput          a value that the caller gave cannot be used (also a ValueError)
    │   ├── InvalidBounds     a box that is reversed, empty, outside the globe or probably swapped
    │   ├── UnreadableData    a file or table that cannot be read as visits
    │   └── UnknownFormat     an unknown file type
    ├── TooLarge              the request is well formed but does not fit (a dense map of 2^40 cells)
    ├── CannotWrite           the disk or the directory refused a file; nothing half-written is left
    ├── MissingExtra          an optional package is needed and not installed
    ├── PromiseBroken         going on would break the privacy guarantee
    │   ├── SensitivityExceeded   one unit has more mass than the noise is calibrated for
    │   └── SimulatedRelease      made with simulated randomness, so it must not be saved as a release
    ├── ProtocolError         a secure sum cannot go on as asked
    │   ├── UnexpectedMessage     garbled, foreign, of another version or out of turn; the receiver is unharmed
    │   ├── StoppedForGood        a client saw the rules broken and will never reveal anything more
    │   └── ShardAborted          the server gives the sum up; it learned nothing
    └── LedgerError           the ledger refuses
        ├── BudgetExceeded    the charge would overspend; nothing was charged
        ├── AlreadyCharged    something that may be charged once was charged before; nothing was charged
        ├── LedgerMismatch    opened with another total, charged in another unit, or of another format
        └── LedgerCorrupt     the file is damaged or was edited

There is one warning, ``WeakPrivacy``, for an ε above 10. It comes before anything is charged.

``sensors.Refused`` is not in this tree, because the file that raises it runs on sensors without the rest of Heathaze.

Every message is a sentence that says what is wrong, with which value, and what to do. No message contains a coordinate,
an id or a count from the data.
"""


class HeathazeError(Exception):
    """Root of everything Heathaze raises on purpose."""


class InvalidInput(HeathazeError, ValueError):
    """A value that the caller gave cannot be used."""


def expect(kind: type | tuple[type, ...], value: object, what: str) -> None:
    """Refuse a value of another type.

    Args:
        kind: The type that is expected, or several.
        value: What the caller gave.
        what: What the value is, for the error sentence.

    Raises:
        InvalidInput: The value has another type.

    >>> expect(bytes, "no", "A message")
    Traceback (most recent call last):
        ...
    heathaze.errors.InvalidInput: A message is of the kind str; expected bytes.
    """
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        wanted = " or ".join(one.__name__ for one in kinds)
        raise InvalidInput(f"{what} is of the kind {type(value).__name__}; expected {wanted}.")


class InvalidBounds(InvalidInput):
    """A box that is reversed, empty, outside the globe or probably swapped."""


class UnreadableData(InvalidInput):
    """A file or table that cannot be read as visits."""


class UnknownFormat(InvalidInput):
    """An unknown file type."""


class TooLarge(HeathazeError):
    """The request is well formed but does not fit."""


class CannotWrite(HeathazeError):
    """The disk or the directory refused a file; nothing half-written is left."""


class MissingExtra(HeathazeError):
    """An optional package is needed and not installed."""


class PromiseBroken(HeathazeError):
    """Going on would break the privacy guarantee."""


class SensitivityExceeded(PromiseBroken):
    """One unit has more mass than the noise is calibrated for."""


class SimulatedRelease(PromiseBroken):
    """Made with simulated randomness, so it must not be saved as a release."""


class ProtocolError(HeathazeError):
    """A secure sum cannot go on as asked."""


class UnexpectedMessage(ProtocolError):
    """A message that is garbled, foreign, of another version or out of turn; the receiver is unharmed.

    Args:
        what: Which part of the message is not as it should be.
        found: What it is.
        expected: What it should be.
        do: What to do about it.
    """

    def __init__(self, what: str, found: object, expected: object, do: str = "drop it") -> None:
        super().__init__(f"{what} is {found}, expected {expected}; {do}.")
        self.found = found
        self.expected = expected


class StoppedForGood(ProtocolError):
    """A client saw the rules broken and will never reveal anything more."""


class ShardAborted(ProtocolError):
    """The server gives the sum up; it learned nothing."""


class LedgerError(HeathazeError):
    """The ledger refuses."""


class BudgetExceeded(LedgerError):
    """The charge would overspend; nothing was charged."""


class AlreadyCharged(LedgerError):
    """Something that may be charged once was charged before; nothing was charged."""


class LedgerMismatch(LedgerError):
    """Opened with another total, charged in another unit, or of another format."""


class LedgerCorrupt(LedgerError):
    """The file is damaged or was edited."""


class WeakPrivacy(UserWarning):
    """An ε above 10 is about to be promised or budgeted. An ε above 1000 is refused."""
