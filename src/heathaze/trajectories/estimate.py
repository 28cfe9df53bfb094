"""Server of the local model for journeys: it makes up journeys from reports, and never receives a journey.

The reports are already private, so this is post-processing: it costs no privacy and may be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from heathaze.errors import InvalidInput, kind_of
from heathaze.local.catalogue import damaged, mechanism_among
from heathaze.local.chunks import unpack_chunks
from heathaze.local.reports import unpack_rows
from heathaze.privacy.guarantee import Unit
from heathaze.privacy.loss import decimal, warn_if_weak
from heathaze.privacy.provenance import Provenance
from heathaze.privacy.randomness import Randomness, SecureRandomness
from heathaze.trajectories.ldp_trace import LdpTrace
from heathaze.trajectories.local_journeys import LocalJourneys, enough_reports
from heathaze.trajectories.made_up import MadeUp
from heathaze.trajectories.mechanism import JourneyMechanism, promise
from heathaze.trajectories.pivot_trace import PivotTrace
from heathaze.trajectories.reports import JourneyReports, joined
from heathaze.trajectories.synthesis import number_of_journeys

MECHANISMS = (LocalJourneys, LdpTrace, PivotTrace)
"""The classes of all local mechanisms for journeys; a file of reports may name any of them."""


def read_reports(path: str | Path) -> JourneyReports:
    """Read a file of reports about journeys. Its chunks must have the same parameters.

    Args:
        path: The file, which anyone may have written.

    Returns:
        The reports of all chunks.

    Raises:
        UnreadableData: The file is damaged, cut short, of another version, or holds reports of positions.
        InvalidInput: Its chunks have different parameters or units, or a chunk occurs twice.

    >>> import tempfile
    >>> from heathaze.domain.grid import Grid
    >>> from heathaze.domain.lines import Lines
    >>> from heathaze.trajectories.device import randomize
    >>> mechanism = LocalJourneys(Grid.plane(x=(0, 8), y=(0, 8), size=8), epsilon=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = randomize(mechanism, Lines.from_points([[(1, 1), (7, 7)]] * 3)).save(Path(folder) / "rides.reports")
    ...     len(read_reports(path))
    3
    """
    source = Path(path)
    return joined(_from_chunk(source, fields, body) for fields, body in unpack_chunks(source, journeys=True))


def _from_chunk(source: Path, fields: Mapping[str, Any], body: bytes) -> JourneyReports:
    """Decode the reports of a chunk whose checksum is correct. The fields may come from a hostile sender."""
    mechanism: JourneyMechanism = mechanism_among(MECHANISMS, fields, source)
    values, _ = unpack_rows(source, fields, mechanism, body)
    try:
        return JourneyReports(mechanism, values, Unit(fields["unit"]), chunks=(fields["chunk"],))
    except (ValueError, KeyError):
        raise damaged(source) from None


def estimate(reports: JourneyReports, *, number: int | None = None, randomness: Randomness | None = None) -> MadeUp:
    """Infer a model from reports, and make up journeys.

    Args:
        reports: The reports, of devices or from :func:`read_reports`.
        number: How many journeys to make up, 1 to 10^7. If left out, as many as there are reports (a server
            counts them, so their number is not secret), but at most 100,000.
        randomness: The source of the random bits of the synthesis; the operating system if left out.

    Returns:
        The made-up journeys.

    Raises:
        InvalidInput: There are no reports, or a report cannot come from its mechanism.

    >>> from heathaze.domain.grid import Grid
    >>> from heathaze.domain.lines import Lines
    >>> from heathaze.trajectories.device import randomize
    >>> mechanism = LocalJourneys(Grid.plane(x=(0, 8), y=(0, 8), size=8), epsilon=2, squares=16)
    >>> made = estimate(randomize(mechanism, Lines.from_points([[(1, 1), (7, 7)]] * 50)), number=5)
    >>> len(made.lines), made.guarantee.trust.value
    (5, 'local')
    """
    if not isinstance(reports, JourneyReports):
        raise InvalidInput(
            f"estimate takes JourneyReports (read_reports reads files), not {kind_of(reports)}; journeys are "
            "randomised on the device and never reach the server."
        )
    if not len(reports):
        raise InvalidInput("There are no reports to make up journeys from; collect at least one report.")
    wanted = number_of_journeys(number, len(reports))
    mechanism = reports.mechanism
    warn_if_weak(mechanism.epsilon)
    model = mechanism.estimate(reports.values)
    lines = model.sample(wanted, SecureRandomness() if randomness is None else randomness)
    provenance = Provenance.of_devices(mechanism, mechanism.event, reports.simulated)
    caution = _caution(len(reports), mechanism.epsilon)
    return MadeUp(mechanism.grid, lines, model, promise(mechanism, reports.unit), provenance, caution=caution)


def _caution(reports: int, epsilon: Fraction) -> str:
    """Warn readers of journeys that come from few reports; reports of any number are used."""
    enough = enough_reports(epsilon)
    if reports >= enough:
        return ""
    return (
        f"These journeys come from few reports for ε = {decimal(epsilon)} ({reports:,}, and about {enough:,} are "
        "needed): rely on the rough extent of the places at most, not on how many people are where, how far they go, "
        "or from where to where."
    )
