"""Time the shuffler on a million messages and the server on its part of them, and whole maps of 100,000 people.

python benchmarks/shuffle.py

Times are processor seconds of one process. The time of all parties together, with every message sealed and opened,
supposes two cores: the devices, which do not wait for each other, are divided between them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

MESSAGES, OPENED, PEOPLE, DEVICES = 1_000_000, 50_000, 100_000, 5_000
WANTED_MIX, WANTED_OPEN, WANTED_MAP = 10, 90, 120


def main() -> None:
    """Print the times of mixing, sealing and opening, and of whole maps."""
    from heathaze.shuffle import Server

    _say(f"{MESSAGES:,} opaque messages accepted and mixed", _mixing(Server(_reports(MESSAGES)).study, 1), WANTED_MIX)
    opening = _opening()
    _whole_maps(opening)


def _mixing(study: Any, each: int) -> float:
    """Mix messages that only the server could read: here random bytes, so many of each person."""
    from heathaze.privacy.randomness import fresh_bytes
    from heathaze.shuffle import Shuffler, Submission

    people = study.least_people
    submissions = [
        Submission(study.digest, fresh_bytes(16), tuple(fresh_bytes(study.sealed_bytes) for _ in range(each)))
        for _ in range(people)
    ]

    def mixed() -> Any:
        shuffler = Shuffler(study)
        for submission in submissions:
            shuffler.accept(submission)
        return shuffler.mix()

    seconds, batch = _timed(mixed)
    if len(batch) != people * each:
        raise AssertionError("Messages were lost.")
    return seconds


def _opening() -> float:
    """Seal, mix and open reports, and extrapolate to a million. Returns the time of opening one message."""
    from heathaze.shuffle import Device, Server, Shuffler

    server = Server(_reports(OPENED))
    shuffler = Shuffler(server.study)
    points = np.random.default_rng(1).random((OPENED, 2))
    sealing, submissions = _timed(lambda: [Device(server.study).submit(point) for point in points])
    print(f"{OPENED:,} devices draw and seal one report each: {1e6 * sealing / OPENED:.0f} µs for each")
    for submission in submissions:
        shuffler.accept(submission)
    batch = shuffler.mix()
    opening, found = _timed(lambda: server.open(batch))
    if len(found) != OPENED:
        raise AssertionError("Messages were lost.")
    what = f"{MESSAGES:,} messages opened, from {OPENED:,} ({1e6 * opening / OPENED:.0f} µs for each)"
    _say(what, opening * MESSAGES / OPENED, WANTED_OPEN)
    return opening / OPENED


def _reports(people: int) -> Any:
    import heathaze as hz

    grid = hz.Grid.plane(x=(0, 1), y=(0, 1), size=256)
    return hz.shuffle.ShuffledReports(hz.local.DiskArea(grid, 8), people)


def _whole_maps(opening: float) -> None:
    """From positions to a map with intervals: the law alone, and all parties with sealed messages."""
    import heathaze as hz
    from heathaze.shuffle import Decoys, Device, Server, ShuffledReports, estimate, simulate

    grid = hz.Grid.plane(x=(0, 1), y=(0, 1), size=256)
    rng = np.random.default_rng(1)
    points = np.clip(rng.normal((0.4, 0.6), (0.1, 0.15), (PEOPLE, 2)), 0, 0.999)
    for kind in (Decoys, ShuffledReports.calibrated):

        def made(kind: Any = kind) -> Any:
            mechanism = kind(grid, 1, PEOPLE)
            return estimate(simulate(mechanism, points))

        seconds, release = _timed(made)
        name = release.provenance.mechanism
        print(f"{name}: {PEOPLE:,} people on 256 × 256 cells, plan, messages without seals, and map: {seconds:.1f} s")
        study = Server(kind(grid, 1, PEOPLE)).study
        devices, sent = _timed(lambda study=study: [Device(study).submit(point) for point in points[:DEVICES]])
        messages = sum(len(one.sealed) for one in sent) / DEVICES
        devices *= PEOPLE / DEVICES
        # The shuffler's work is a little more here: every person has the most messages.
        mixing, opened = _mixing(study, study.mechanism.most_messages), opening * messages * PEOPLE
        print(
            f"  sealed, {messages:.1f} messages a person: devices {devices:.0f} s (from {DEVICES:,} of them), ", end=""
        )
        print(f"shuffler {mixing:.0f} s, opening {opened:.0f} s (extrapolated)")
        _say("  all parties and the map, devices on two cores", devices / 2 + mixing + opened + seconds, WANTED_MAP)


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.process_time()
    found = work()
    return time.process_time() - begun, found


def _say(what: str, seconds: float, wanted: float) -> None:
    print(f"{what}: {seconds:.1f} s")
    print(f"  wanted under {wanted:g} s: {'reached' if seconds < wanted else 'MISSED'}")


if __name__ == "__main__":
    main()
