"""Device, shuffler and server: what each sees, and every way in which a protocol of this kind has leaked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import heathaze as hz
from heathaze.errors import (
    AlreadyCharged,
    BudgetExceeded,
    CannotWrite,
    InvalidInput,
    PromiseBroken,
    ProtocolError,
    UnexpectedMessage,
    UnreadableData,
)
from heathaze.local import LocalHashing, RandomizedResponse
from heathaze.privacy.ledger import Budget
from heathaze.shuffle import (
    Batch,
    Decoys,
    Device,
    Server,
    ShuffledReports,
    Shuffler,
    Study,
    Submission,
    estimate,
    mix_files,
)
from heathaze.shuffle.mechanism import cells_of

GRID = hz.Grid.plane(x=(0, 4), y=(0, 4), size=4)
SMALL = Decoys(GRID, 9, people=40, delta=0.01)
LARGE = hz.Grid.plane(x=(0, 4), y=(0, 4), size=64)
WIDE = ShuffledReports(RandomizedResponse(LARGE, "9.9"), 40, 0.01)  # a number has two bytes, and often only one is used
PLACES = [(x + 0.5, y + 0.5) for x in range(4) for y in range(4)]


@pytest.fixture(scope="module")
def server() -> Server:
    return Server(SMALL)


@pytest.fixture(scope="module")
def submissions(server: Server) -> list[Submission]:
    return [Device(server.study).submit(PLACES[k % 4]) for k in range(40)]


def mixed_by(server: Server, submissions: list[Submission]) -> Batch:
    shuffler = Shuffler(server.study)
    for submission in submissions:
        shuffler.accept(submission)
    return shuffler.mix()


# ── the whole path ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "mechanism",
    [SMALL, ShuffledReports(RandomizedResponse(GRID, 5), 40, 0.01), WIDE, ShuffledReports(LocalHashing(LARGE, 5), 40)],
    ids=["decoys", "reports", "two bytes", "two numbers"],
)
def test_what_devices_draw_is_what_the_server_counts(tmp_path: Path, mechanism: Decoys | ShuffledReports) -> None:
    """The same random bits, once through sealed messages and once without: the same messages arrive."""
    server = Server(mechanism)
    shuffler, direct = Shuffler(server.study), []
    for k in range(40):
        shuffler.accept(Device(server.study).submit(PLACES[k % 4], randomness=hz.Simulation(k)))
        direct.append(mechanism.draw(cells_of(mechanism.grid, [PLACES[k % 4]]), hz.Simulation(k))[0])
    batch = shuffler.mix()
    assert not Batch.load(Batch(b"", 1, 1, b"?").save(tmp_path / "real.batch")).simulated
    opened = server.open(Batch.load(batch.save(tmp_path / "simulated.batch")))
    assert opened.simulated
    assert sorted(opened.messages.tolist()) == sorted(np.concatenate(direct).tolist())
    assert (opened.messages.max() >= 256) == (mechanism.limit > 256)
    assert opened.people == 40


@pytest.mark.parametrize("point", [(5.5, 2.0), (200.0, 300.0), (-4.5, 1.0)])
def test_a_position_that_is_probably_a_mistake_is_refused(point: tuple[float, float]) -> None:
    wide = Server(Decoys(hz.Grid.plane(x=(0, 4), y=(5, 9), size=4), 9, people=40, delta=0.01))
    budget = Budget(20, delta=0.1)
    device = Device(wide.study, ledger=budget)
    with pytest.raises(InvalidInput, match="Nothing was charged and nothing reported"):
        device.submit(point)
    assert budget.remaining == 20
    assert device.submit(point, far=True)


def test_a_map_end_to_end(server: Server, submissions: list[Submission]) -> None:
    again = Server(SMALL, key=server._key.private_bytes_raw())
    release = estimate(again.open(mixed_by(server, submissions)))
    assert release.guarantee.people == 40
    assert release.density.values[:, 0].sum() > 0.5


def test_files_carry_the_same(tmp_path: Path, server: Server, submissions: list[Submission]) -> None:
    paths = []
    for k, submission in enumerate(submissions):
        paths.append(tmp_path / f"{k}.submission")
        paths[-1].write_bytes(submission.to_bytes())
    found = Batch.load(mix_files(server.study, paths, tmp_path / "one.batch", tmp_path / "names"))
    assert found == mixed_by(server, submissions)
    with pytest.raises(UnexpectedMessage, match="taken part"):
        mix_files(server.study, paths, tmp_path / "two.batch", tmp_path / "names")
    assert not (tmp_path / "two.batch").exists()


# ── what the shuffler and the server see ────────────────────────────────────────────────────────────────────────────


def test_every_message_has_its_own_key_and_the_same_size(server: Server, submissions: list[Submission]) -> None:
    sealed = [message for submission in submissions for message in submission.sealed]
    assert {len(message) for message in sealed} == {server.study.sealed_bytes}
    assert len({message[:32] for message in sealed}) == len(sealed)


@pytest.mark.parametrize("mechanism", [SMALL, WIDE], ids=["decoys", "two bytes"])
def test_number_and_size_of_messages_do_not_depend_on_the_place(mechanism: Decoys | ShuffledReports) -> None:
    server, numbers = Server(mechanism), set()
    seen = set()
    for place in [*PLACES, (0.01, 0.01)]:
        one = Device(server.study).submit(place, randomness=hz.Simulation(1))
        seen.add((len(one.sealed), len(one.to_bytes()), *{len(message) for message in one.sealed}))
        numbers |= {_opened(server, message) for message in one.sealed}
    assert seen == {(*next(iter(seen))[:2], server.study.sealed_bytes)}
    assert min(numbers) < 256 < max(numbers) or mechanism.limit <= 256


def test_the_true_node_is_not_always_first(server: Server) -> None:
    """Messages leave the device in random order."""
    plain = Server(SMALL, key=server._key.private_bytes_raw())
    first = set()
    for seed in range(20):
        submission = Device(server.study).submit(PLACES[0], randomness=hz.Simulation(seed))
        opened = [_opened(plain, message) for message in submission.sealed]
        first.add(opened[0])
    assert len(first) > 3


def _opened(server: Server, sealed: bytes) -> int:
    from heathaze.shuffle.study import suite

    return int.from_bytes(suite().decrypt(sealed, server._key, server.study.digest), "big")


def test_a_batch_says_nothing_of_order_and_senders(server: Server, submissions: list[Submission]) -> None:
    batch = mixed_by(server, submissions)
    assert batch == mixed_by(server, submissions[::-1])
    assert not any(submission.name in batch.sealed for submission in submissions)
    sealed = [batch.sealed[at : at + batch.size] for at in range(0, len(batch.sealed), batch.size)]
    assert sealed == sorted(sealed)


def test_names_in_two_studies_differ_and_in_one_study_are_equal(server: Server) -> None:
    other, secret = Server(SMALL), b"a secret of sixteen bytes"
    names = [Device(study, secret=secret).submit(PLACES[0]).name for study in (server.study, server.study, other.study)]
    assert names[0] == names[1] != names[2]


def test_secrets_are_not_printed(server: Server, submissions: list[Submission]) -> None:
    assert repr(server) == "<Server>"
    assert repr(Device(server.study)) == "<Device>"
    assert "sealed messages" in repr(submissions[0])
    with pytest.raises(TypeError, match="cannot be pickled"):
        server.__reduce__()


# ── the shuffler refuses ────────────────────────────────────────────────────────────────────────────────────────────

Edit = Callable[[Submission], Submission]
EDITS: dict[str, Edit] = {
    "the study": lambda one: dataclasses.replace(one, study=bytes(16)),
    "the name": lambda one: dataclasses.replace(one, name=b"short"),
    "the number of messages": lambda one: dataclasses.replace(one, sealed=one.sealed[:1]),
    "the number of": lambda one: dataclasses.replace(one, sealed=one.sealed * 3),
    "the size of a message": lambda one: dataclasses.replace(one, sealed=(one.sealed[0] + b"0", *one.sealed[1:])),
    "the encapsulated key": lambda one: dataclasses.replace(one, sealed=(one.sealed[1], *one.sealed[1:])),
}


@pytest.mark.parametrize("what", EDITS)
def test_a_person_is_accepted_whole_or_not_at_all(what: str, server: Server, submissions: list[Submission]) -> None:
    shuffler = Shuffler(server.study)
    with pytest.raises(UnexpectedMessage, match=what):
        shuffler.accept(EDITS[what](submissions[0]))
    assert len(shuffler) == 0
    shuffler.accept(submissions[0])  # nothing of the refused submission was kept
    assert len(shuffler) == 1


def test_repeats_and_copies_are_refused_also_in_later_batches(
    tmp_path: Path, server: Server, submissions: list[Submission]
) -> None:
    shuffler = Shuffler(server.study, tmp_path / "names")
    for submission in submissions:
        shuffler.accept(submission)
    with pytest.raises(UnexpectedMessage, match="each person once"):
        shuffler.accept(submissions[0])
    with pytest.raises(UnexpectedMessage, match="used before"):
        shuffler.accept(dataclasses.replace(submissions[0], name=bytes(16)))
    shuffler.mix()
    for later in (shuffler, Shuffler(server.study, tmp_path / "names")):
        with pytest.raises(UnexpectedMessage, match="each person once"):
            later.accept(submissions[3])
        # The server would see the copied messages in both batches, and know that one person sent them.
        with pytest.raises(UnexpectedMessage, match="used before"):
            later.accept(dataclasses.replace(submissions[3], name=bytes(16)))
    with pytest.raises(UnreadableData, match="not the memory"):
        Shuffler(Server(SMALL).study, tmp_path / "names")


def test_a_damaged_memory_is_refused(tmp_path: Path, server: Server, submissions: list[Submission]) -> None:
    """A shuffler that forgot people would pass them on again."""
    memory = tmp_path / "names"
    shuffler = Shuffler(server.study, memory)
    for submission in submissions:
        shuffler.accept(submission)
    shuffler.mix()
    whole = memory.read_bytes()
    for end in (16, 32, 48, 160, len(whole) - 16, len(whole) - 1):
        memory.write_bytes(whole[:end])
        with pytest.raises(UnreadableData, match="damaged"):
            Shuffler(server.study, memory)
    memory.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(UnreadableData, match="damaged"):
        Shuffler(server.study, memory)
    with pytest.raises(UnreadableData, match="cannot be read"):
        Shuffler(server.study, tmp_path)
    memory.write_bytes(whole)
    with pytest.raises(UnexpectedMessage, match="each person once"):
        Shuffler(server.study, memory).accept(submissions[0])


def test_two_shufflers_with_one_memory_pass_nobody_on_twice(
    tmp_path: Path, server: Server, submissions: list[Submission]
) -> None:
    first, second = (Shuffler(server.study, tmp_path / "names") for _ in range(2))
    for submission in submissions:
        first.accept(submission)
        second.accept(submission)
    first.mix()
    with pytest.raises(PromiseBroken, match="Another shuffler"):
        second.mix()
    third = Shuffler(server.study, tmp_path / "names")
    fresh = [Device(server.study).submit(PLACES[0]) for _ in range(40)]
    for submission in fresh:
        third.accept(submission)
    third.mix()
    for submission in (submissions[0], fresh[0]):
        with pytest.raises(UnexpectedMessage, match="taken part"):
            Shuffler(server.study, tmp_path / "names").accept(submission)


def test_a_batch_that_cannot_be_written_is_not_remembered(
    tmp_path: Path, server: Server, submissions: list[Submission]
) -> None:
    paths = [tmp_path / f"{k}.submission" for k in range(40)]
    for path, submission in zip(paths, submissions, strict=True):
        path.write_bytes(submission.to_bytes())
    with pytest.raises(CannotWrite):
        mix_files(server.study, paths, tmp_path / "no such folder" / "one.batch", tmp_path / "names")
    with pytest.raises(UnreadableData, match="cannot be read"):
        mix_files(server.study, [*paths, tmp_path / "missing"], tmp_path / "one.batch", tmp_path / "names")
    assert mix_files(server.study, paths, tmp_path / "one.batch", tmp_path / "names").exists()


def test_a_small_batch_waits(server: Server, submissions: list[Submission]) -> None:
    shuffler = Shuffler(server.study)
    for submission in submissions[:-1]:
        shuffler.accept(submission)
    with pytest.raises(PromiseBroken, match="at least 40"):
        shuffler.mix()
    shuffler.accept(submissions[-1])
    assert shuffler.mix().people == 40


def test_colluders_do_not_count_as_people() -> None:
    server = Server(SMALL, colluders=2)
    shuffler = Shuffler(server.study)
    for _ in range(41):
        shuffler.accept(Device(server.study).submit(PLACES[0]))
    with pytest.raises(PromiseBroken, match="at least 42"):
        shuffler.mix()
    with pytest.raises(PromiseBroken, match="at least 40"):
        server.open(Batch(server.study.digest, 41, server.study.sealed_bytes, bytes(server.study.sealed_bytes)))


# ── the server refuses, and decodes nothing ─────────────────────────────────────────────────────────────────────────


def test_bad_batches_are_refused_by_name(server: Server, submissions: list[Submission]) -> None:
    batch = mixed_by(server, submissions)
    size = batch.size
    twice = batch.sealed[:-size] + batch.sealed[:size]
    cases = {
        "the study": (dataclasses.replace(batch, study=bytes(16)), UnexpectedMessage),
        "at least 40": (dataclasses.replace(batch, people=39), PromiseBroken),
        "the number of messages": (dataclasses.replace(batch, sealed=batch.sealed[:size]), UnexpectedMessage),
        "messages of": (dataclasses.replace(batch, sealed=batch.sealed[:-1]), UnexpectedMessage),
        "a batch": (dataclasses.replace(batch, size=size + 1), UnexpectedMessage),
        "cannot be opened": (dataclasses.replace(batch, sealed=batch.sealed[:-1] + b"?"), ProtocolError),
        "new messages": (
            dataclasses.replace(batch, sealed=twice),
            UnexpectedMessage,
        ),
    }
    again = Server(SMALL, key=server._key.private_bytes_raw())
    for sentence, (bad, error) in cases.items():
        with pytest.raises(error, match=sentence):
            again.open(bad)
    again.open(batch)
    backwards = b"".join(batch.sealed[at : at + size] for at in range(len(batch.sealed) - size, -1, -size))
    for repeated in (batch, dataclasses.replace(batch, sealed=backwards)):
        with pytest.raises(UnexpectedMessage, match="opened before"):
            again.open(repeated)


def test_a_message_of_another_study_does_not_open(server: Server, submissions: list[Submission]) -> None:
    other = Server(SMALL, colluders=1, key=server._key.private_bytes_raw())
    batch = dataclasses.replace(mixed_by(server, submissions), study=other.study.digest, people=41)
    with pytest.raises(ProtocolError):
        other.open(batch)


def test_messages_that_the_shuffler_adds_are_refused(server: Server, submissions: list[Submission]) -> None:
    """Padding by the shuffler would be counted as decoys of people; the number of messages gives it away."""
    batch = mixed_by(server, submissions)
    padded = dataclasses.replace(batch, sealed=batch.sealed * 4)
    with pytest.raises(UnexpectedMessage, match="number of messages"):
        Server(SMALL, key=server._key.private_bytes_raw()).open(padded)


def test_a_number_that_is_never_sent_is_refused(server: Server) -> None:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    from heathaze.shuffle.study import suite

    key = X25519PublicKey.from_public_bytes(server.study.key)
    sealed = [
        suite().encrypt(b"\xff" * server.study.width, key, server.study.digest)
        for _ in range(40 * SMALL.least_messages)
    ]
    batch = Batch(server.study.digest, 40, server.study.sealed_bytes, b"".join(sealed))
    with pytest.raises(InvalidInput, match="never sends"):
        server.open(batch)


@settings(max_examples=50, deadline=None)
@given(cut=st.integers(0, 10**6), flip=st.integers(0, 10**6))
def test_damaged_files_are_refused(tmp_path_factory: pytest.TempPathFactory, cut: int, flip: int) -> None:
    folder = tmp_path_factory.mktemp("batch")
    path = Batch(bytes(16), 3, 50, bytes(150)).save(folder / "a.batch")
    whole = path.read_bytes()
    broken = bytearray(whole)
    broken[flip % len(whole)] ^= 1
    for text in (whole[: cut % len(whole)], bytes(broken)):
        path.write_bytes(text)
        with pytest.raises(UnreadableData):
            Batch.load(path)


@given(st.binary(max_size=200))
def test_blocks_that_are_no_submissions_are_refused(block: bytes) -> None:
    with pytest.raises(UnexpectedMessage):
        Submission.from_bytes(block)


def test_a_submission_survives_its_bytes(submissions: list[Submission]) -> None:
    assert Submission.from_bytes(submissions[0].to_bytes()) == submissions[0]
    with pytest.raises(UnexpectedMessage):
        Submission.from_bytes(submissions[0].to_bytes()[:-1])


# ── payment ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_study_is_paid_and_none_twice(tmp_path: Path, server: Server) -> None:
    ledger = Budget(20, delta=0.03)
    device = Device(server.study, ledger=ledger)
    device.submit(PLACES[0])
    spent = ledger.spent
    assert spent > 1
    with pytest.raises(AlreadyCharged):
        device.submit(PLACES[1])
    assert ledger.spent == spent
    Device(Server(SMALL).study, ledger=ledger).submit(PLACES[0])
    assert ledger.spent == 2 * spent  # a second study of the same people costs again, whatever the first one showed
    poor = hz.Ledger.open(tmp_path / "poor.ledger", total=1, delta=0.03)
    with pytest.raises(BudgetExceeded):
        Device(server.study, ledger=poor).submit(PLACES[0])


@pytest.mark.parametrize("point", [(0.5,), (float("nan"), 0.0), [(0.5, 0.5), (1.5, 0.5)], "ab"])
def test_wrong_positions_are_refused_before_anything_is_paid(tmp_path: Path, server: Server, point: object) -> None:
    ledger = hz.Ledger.open(tmp_path / "own.ledger", total=10, delta=0.01)
    with pytest.raises(InvalidInput):
        Device(server.study, ledger=ledger).submit(point)
    assert ledger.spent == 0


def test_a_key_that_seals_nothing_is_refused_before_anything_is_paid(tmp_path: Path) -> None:
    ledger = hz.Ledger.open(tmp_path / "ledger", total=10, delta=0.02)
    with pytest.raises(InvalidInput, match="no message can be sealed"):
        Device(Study(SMALL, bytes(32)), ledger=ledger).submit((0.5, 0.5))
    assert ledger.spent == 0


def test_keys_and_secrets_of_wrong_length_are_refused(server: Server) -> None:
    for make in (
        lambda: Server(SMALL, key=b"short"),
        lambda: Study(SMALL, b"short"),
        lambda: Device(server.study, secret=b"short"),
        lambda: Study(SMALL, bytes(32), colluders=-1),
    ):
        with pytest.raises(InvalidInput):
            make()
