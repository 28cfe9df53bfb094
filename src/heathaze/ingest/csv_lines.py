"""Check CSV files: refuse a file that two CSV readers could read differently.

CSV readers disagree about a line break inside quotes, a stray quotation mark, or a row that is too short. Because of
such a disagreement, one person's row can swallow or forge the rows of others. So every byte of a file is checked before
an engine reads it. Each line must be one row of this form:

    line  = field (separator field)* line-end       the same number of fields as the header; blank lines are skipped
    field = plain | '"' (any sign but '"' | '""')* '"'
    plain = no '"' inside

Line ends are all LF or all CRLF. There is no line break inside a field, no NUL byte, and all text is UTF-8.

The check does not use the strict modes of the engines, because these modes differ between engines and between versions.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import BinaryIO

import numba as nb
import numpy as np
import numpy.typing as npt

from heathaze.errors import UnreadableData

LONGEST_LINE = 2**20
"""The largest length of a line in bytes; DuckDB refuses lines of more than 2,000,000 bytes."""

_CHUNK = 2**22


NONE, OPEN_QUOTE, STRAY_QUOTE, FEWER_FIELDS, MORE_FIELDS, OTHER_LINE_END, CARRIAGE_RETURN, NUL, TOO_LONG = range(9)
"""The faults of a CSV line."""

_SENTENCES = {
    OPEN_QUOTE: "opens a quotation mark that does not close on the same line; each line must be one row: take line "
    "breaks and unpaired quotation marks out of the fields, or save the table as Parquet",
    STRAY_QUOTE: "has a quotation mark inside a field; quote the whole field and write the mark twice, or save the "
    "table as Parquet",
    FEWER_FIELDS: "has fewer fields than the header; give one field for each column",
    MORE_FIELDS: "has more fields than the header; quote fields that contain the separator",
    OTHER_LINE_END: "ends in another way than the first line; end all lines with LF, or all with CRLF",
    CARRIAGE_RETURN: "has a carriage return inside; end all lines with LF, or all with CRLF",
    NUL: "has a NUL byte; save the file as UTF-8 text",
    TOO_LONG: f"is longer than {LONGEST_LINE:,} bytes; shorten it, or save the table as Parquet",
}

_LF, _CR, _QUOTE = 10, 13, 34
_FIELD_BEGINS, _PLAIN, _QUOTED, _CLOSED = range(4)


def check_csv(file: BinaryIO, shown: str, separator: str, fields: int) -> int:
    """Refuse a CSV file that two readers could read differently, and count its rows.

    Args:
        file: The uncompressed bytes of the file, from its beginning.
        shown: The name of the file in errors.
        separator: The separator of fields, one ASCII character.
        fields: The number of fields that every line must have.

    Returns:
        The number of rows after the header, to check later that an engine read all of them.

    Raises:
        UnreadableData: A line breaks a rule. The error names the number of the first such line and quotes no value.

    Cost:
        One pass, about a second for each gigabyte.
    """
    before, rows, crlf = 0, -1, -1
    for lines in _whole_lines(file):
        try:
            lines.decode("utf-8")
        except UnicodeDecodeError:
            raise UnreadableData(
                f"{shown} is not written in UTF-8; save it as UTF-8, or declare its encoding."
            ) from None
        if not before:
            lines = _without_mark(lines, shown, separator)
        if not lines.endswith(b"\n"):
            lines += b"\r\n" if crlf == 1 else b"\n"
        fault, line, found, crlf = _check(np.frombuffer(lines, dtype=np.uint8), ord(separator), fields, crlf)
        if fault != NONE:
            raise UnreadableData(f"Line {before + line} of {shown} {_SENTENCES[fault]}.")
        before, rows = before + line, rows + found
    return rows


def _without_mark(lines: bytes, shown: str, separator: str) -> bytes:
    """Remove the byte order mark from the first lines of a CSV file."""
    text = lines.removeprefix(codecs.BOM_UTF8)
    first_name = text.split(b'"')[1] if text.startswith(b'"') and text.count(b'"') > 1 else b""
    if text != lines and separator.encode() in first_name:
        # DuckDB does not recognise a quoted name after a byte order mark, and then reads no row at all.
        raise UnreadableData(
            f"Line 1 of {shown} has a byte order mark before a quoted name that contains the separator; rename the "
            "first column, or save the file without the mark."
        )
    return text


def _whole_lines(file: BinaryIO) -> Iterator[bytes]:
    """Read a CSV file in parts of whole lines."""
    rest = b""
    while part := file.read(_CHUNK):
        end = part.rfind(b"\n") + 1
        if end:
            yield rest + part[:end]
            rest = part[end:]
        else:
            rest += part
            if len(rest) > LONGEST_LINE:
                break
    if rest:
        yield rest


@nb.njit(cache=True)
def _check(text: npt.NDArray[np.uint8], separator: int, fields: int, crlf: int) -> tuple[int, int, int, int]:
    """Check some whole lines of a CSV file.

    Returns the first fault, the number of its line (from 1; if there is no fault, that of the last line), the number of
    lines that are not blank, and ``crlf``. ``crlf`` is 1 if lines end with CRLF, 0 if with LF, and −1 as long as it is
    not known.
    """
    line, start, found, state, filled = 1, 0, 1, _FIELD_BEGINS, 0
    for at in range(len(text)):
        sign = text[at]
        if sign == _LF:
            has_cr = 1 if at > start and text[at - 1] == _CR else 0
            length = at - start - has_cr
            if state == _QUOTED:
                return OPEN_QUOTE, line, filled, crlf
            if crlf >= 0 and has_cr != crlf:
                return OTHER_LINE_END, line, filled, crlf
            if length > LONGEST_LINE:
                return TOO_LONG, line, filled, crlf
            if length and found < fields:
                return FEWER_FIELDS, line, filled, crlf
            if length and found > fields:
                return MORE_FIELDS, line, filled, crlf
            filled += 1 if length else 0
            line, start, found, state, crlf = line + 1, at + 1, 1, _FIELD_BEGINS, has_cr
        elif sign == 0:
            return NUL, line, filled, crlf
        elif sign == _CR and text[at + 1] != _LF:
            return CARRIAGE_RETURN, line, filled, crlf
        elif sign == _QUOTE:
            if state == _PLAIN:
                return STRAY_QUOTE, line, filled, crlf
            # Two quotation marks in a row stand for one mark inside the field, so the field continues.
            state = _CLOSED if state == _QUOTED else _QUOTED
        elif state == _QUOTED or sign == _CR:
            continue
        elif sign == separator:
            found, state = found + 1, _FIELD_BEGINS
        elif state == _CLOSED:
            return STRAY_QUOTE, line, filled, crlf
        else:
            state = _PLAIN
    return NONE, line - 1, filled, crlf
