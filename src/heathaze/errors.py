"""Everything Heathaze raises on purpose.

    HeathazeError
    ├── InvalidInput          a value the caller gave cannot be used (also a ValueError)
    │   ├── InvalidBounds     a box that is reversed, empty, outside the globe or probably swapped
    │   ├── UnreadableData    a file or table that cannot be read as visits
    │   └── UnknownFormat     a file ending nobody knows
    ├── TooLarge              the request is well formed but does not fit (a dense map of 2^40 cells)
    ├── CannotWrite           the disk or the directory refused a file; nothing half-written is left
    ├── MissingExtra          an optional package is needed and not installed
    ├── PromiseBroken         going on would break the privacy promise
    │   ├── SensitivityExceeded   one unit weighs more than the mechanism was calibrated for
    │   └── SimulatedRelease      made with simulated randomness, so never to be saved as a release
    ├── ProtocolError         a secure sum cannot go on as asked
    │   ├── UnexpectedMessage     garbled, foreign, of another version or out of turn; whoever got it is unharmed
    │   ├── StoppedForGood        a client saw the rules broken and will never reveal anything more
    │   └── ShardAborted          the server gives the sum up; it learned nothing
    └── LedgerError           the ledger refuses
        ├── BudgetExceeded    the charge would overspend; nothing was charged
        ├── AlreadyCharged    what may be charged once was charged before; nothing was charged
        ├── LedgerMismatch    opened with another total, or charged in another unit
        └── LedgerCorrupt     the file is damaged or was edited

One warning: ``WeakPrivacy``, for an ε above 10. Turned into an error, it stops before anything is charged.

One stands apart: ``sensors.Refused`` is raised by a file that runs on sensors without the rest of Heathaze.

Every message is a sentence: what is wrong, with which value, what to do. No message carries a coordinate, an id or a
count taken from the data.
"""


class HeathazeError(Exception):
    """Root of everything Heathaze raises on purpose."""


class InvalidInput(HeathazeError, ValueError):
    """A value the caller gave cannot be used."""


def expect(kind: type | tuple[type, ...], value: object, what: str) -> None:
    """Refuse a value of another kind, in a sentence.

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
    """A file ending nobody knows."""


class TooLarge(HeathazeError):
    """The request is well formed but does not fit."""


class CannotWrite(HeathazeError):
    """The disk or the directory refused a file; nothing half-written is left."""


class MissingExtra(HeathazeError):
    """An optional package is needed and not installed."""


class PromiseBroken(HeathazeError):
    """Going on would break the privacy promise."""


class SensitivityExceeded(PromiseBroken):
    """One unit weighs more than the mechanism was calibrated for."""


class SimulatedRelease(PromiseBroken):
    """Made with simulated randomness, so never to be saved as a release."""


class ProtocolError(HeathazeError):
    """A secure sum cannot go on as asked."""


class UnexpectedMessage(ProtocolError):
    """A message that is garbled, foreign, of another version or out of turn; whoever got it is unharmed.

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
    """What may be charged once was charged before; nothing was charged."""


class LedgerMismatch(LedgerError):
    """Opened with another total, or charged in another unit."""


class LedgerCorrupt(LedgerError):
    """The file is damaged or was edited."""


class WeakPrivacy(UserWarning):
    """An ε above 10 is about to be promised or budgeted; above 1000 it is refused."""
