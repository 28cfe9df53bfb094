"""What the server sees does not depend on any one vector: the proof, made executable.

A mask is a keystream; in the proof it is a uniformly random vector that its key merely names. Here it is one too:
``Ideal`` keeps a table from keys to random vectors. For two sets of inputs with the same sum it is shown which masks to
exchange for which others so that every byte the server ever receives stays the same. Exchanging masks so is one-to-one,
and masks are uniform, so both inputs are equally likely behind these bytes.
"""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heathaze.errors import ShardAborted, UnexpectedMessage
from heathaze.privacy.randomness import Simulation
from heathaze.secagg import Parameters, Phase, Sum, keys, masks
from heathaze.secagg.envelope import SERVER, unwrap
from heathaze.secagg.messages import Masked, Revealed
from heathaze.testing.statistics import chi_square
from tests.secagg.parties import Shard, directory, small_parameters, some_vectors, total

Shift = dict[bytes, np.ndarray]


class Ideal:
    """Masks as the proof sees them: uniformly random, named by their key, some of them shifted."""

    def __init__(self, parameters: Parameters, shift: Shift | None = None) -> None:
        self.parameters, self.shift = parameters, shift or {}
        self.table: dict[bytes, np.ndarray] = {}
        self.pairs: dict[tuple[int, int], bytes] = {}
        self.selves: dict[int, bytes] = {}
        self.source = Simulation(99)
        self.pair_key, self.self_key = keys.mask_stream_key, keys.self_stream_key

    def add(self, total: np.ndarray, key: bytes, *, subtract: bool = False) -> None:
        if key not in self.table:
            self.table[key] = self.source.words(len(total)).astype(total.dtype)
        mask = self.table[key] + self.shift.get(key, total.dtype.type(0))
        total += -mask if subtract else mask

    def note_pair(self, shared: bytes, context: bytes) -> bytes:
        key = self.pair_key(shared, context)
        self.pairs[struct.unpack_from("<II", context, 32)] = key
        return key

    def note_self(self, seed: bytes, digest: bytes, index: int) -> bytes:
        self.selves[index] = self.self_key(seed, digest, index)
        return self.selves[index]

    def install(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(masks, "add", self.add)
        patch.setattr(keys, "mask_stream_key", self.note_pair)
        patch.setattr(keys, "self_stream_key", self.note_self)


def transcript(shard: Shard, lost: dict[Phase, list[int]]) -> tuple[list[bytes], Sum | None]:
    """All that the server ever receives or sends; what comes too late it reads all the same."""
    seen: list[bytes] = []
    silent: set[int] = set()
    messages = shard.begin()
    try:
        for phase in Phase:
            silent |= set(lost.get(phase, ()))
            in_time = {one: message for one, message in messages.items() if one not in silent}
            late = [message for one, message in messages.items() if one in silent]
            seen += [*in_time.values(), *late]
            parcels = shard.to_server(in_time)
            for message in late:
                with pytest.raises(UnexpectedMessage):
                    shard.server.receive(message)
            seen += [parcel.message for parcel in parcels]
            messages = shard.to_clients(parcel for parcel in parcels if parcel.recipient not in silent)
    except ShardAborted:
        return seen, None
    return seen, shard.server.sum


def spanning_shift(ideal: Ideal, near: dict[int, tuple[int, ...]], honest: set[int], change: np.ndarray) -> Shift:
    """By how much the masks along a tree of honest survivors change when their vectors do; the changes sum to 0."""
    root = min(honest)
    parent, order = {root: root}, [root]
    for one in order:
        for other in near[one]:
            if other in honest and other not in parent:
                parent[other] = one
                order.append(other)
    assert set(parent) == honest, "the honest survivors are not connected"
    owed = {one: change[one].copy() for one in honest}
    shift: Shift = {}
    for one in reversed(order[1:]):
        above = parent[one]
        # x + owed ± (mask + shift) = x ± mask: the lower number adds, so its shift is −owed; the other's is +owed.
        shift[ideal.pairs[min(one, above), max(one, above)]] = -owed[one] if one < above else owed[one]
        owed[above] += owed[one]
    assert not owed[root].any()
    return shift


@pytest.mark.parametrize(("clients", "neighbours"), [(6, None), (12, 6)])
@pytest.mark.parametrize("seed", range(4))
def test_inputs_with_the_same_sum_look_the_same(
    monkeypatch: pytest.MonkeyPatch, clients: int, neighbours: int | None, seed: int
) -> None:
    """All that the server sees, and all that t − 1 corrupt clients hold, byte by byte."""
    parameters = small_parameters(clients, neighbours, survivors_at_least=clients - 2, length=5)
    lost = {Phase.MASK: [2], Phase.AGREE: [4]}
    corrupt = set(range(clients))
    corrupt -= {0, 1, 2, 3, 4, 5} if clients > 6 else {0, 1, 3, 4}
    corrupt = set(sorted(corrupt)[: parameters.shares_needed - 1])
    honest = set(range(clients)) - corrupt - {2}
    vectors = some_vectors(parameters, seed)
    first = Ideal(parameters)
    first.install(monkeypatch)
    shard = Shard(parameters, vectors, Simulation(seed))
    seen, found = transcript(shard, lost)
    assert found is not None
    change = np.zeros((clients, 5), np.uint16)
    change[sorted(honest)] = Simulation(seed + 50).words(5 * len(honest)).astype(np.uint16).reshape(-1, 5)
    change[min(honest)] -= change.sum(axis=0, dtype=np.uint16)
    other_vectors = vectors.astype(np.uint16) + change
    assert (other_vectors != vectors).any(axis=1).sum() == len(honest)
    second = Ideal(parameters, spanning_shift(first, dict(shard.server._neighbours), honest, change))
    second.table = first.table
    second.install(monkeypatch)
    other = Shard(parameters, other_vectors, Simulation(seed))
    seen_again, found_again = transcript(other, lost)
    assert seen_again == seen
    assert found_again is not None
    assert found_again.values.tolist() == found.values.tolist() == total(vectors, found.survivors, 16)


def test_another_sum_does_not_look_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison above is no empty one: leave one mask unshifted, and the bytes differ."""
    parameters = small_parameters(4)
    Ideal(parameters).install(monkeypatch)
    vectors = some_vectors(parameters)
    seen, _ = transcript(Shard(parameters, vectors), {})
    changed = vectors.copy()
    changed[0, 0] ^= np.uint64(1)
    Ideal(parameters).install(monkeypatch)
    assert transcript(Shard(parameters, changed), {})[0] != seen


@pytest.mark.parametrize("lost", [{Phase.MASK: [0, 1]}, {Phase.MASK: [0, 1, 2, 3, 4]}])
def test_without_a_sum_no_input_matters_at_all(monkeypatch: pytest.MonkeyPatch, lost: dict[Phase, list[int]]) -> None:
    """A shard that is given up, though every vector reached the server in the end: any vectors look like any others."""
    parameters = small_parameters(6, survivors_at_least=5)
    vectors, others = some_vectors(parameters, 1), some_vectors(parameters, 2)
    first = Ideal(parameters)
    first.install(monkeypatch)
    seen, found = transcript(Shard(parameters, vectors), lost)
    assert found is None
    shift = {first.selves[one]: (vectors[one] - others[one]).astype(np.uint16) for one in range(6)}
    second = Ideal(parameters, shift)
    second.table = first.table
    second.install(monkeypatch)
    assert transcript(Shard(parameters, others), lost)[0] == seen


def test_a_vector_that_comes_too_late_stays_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server has opened the late client's pairwise masks by then; only the self mask is left, and it suffices."""
    parameters = small_parameters(5, survivors_at_least=4)
    vectors = some_vectors(parameters)
    first = Ideal(parameters)
    first.install(monkeypatch)
    shard = Shard(parameters, vectors)
    seen, found = transcript(shard, {Phase.MASK: [3]})
    assert found is not None
    assert found.survivors == (0, 1, 2, 4)
    opened = [unwrap(m, parameters, directory(5), SERVER).message for m in seen if m[42:46] == b"\xff" * 4]
    reveals = [message for message in opened if isinstance(message, Revealed)]
    assert len(reveals) == 4
    assert all(3 not in dict(message.seeds) and 3 in dict(message.mask_keys) for message in reveals)
    assert sum(isinstance(message, Masked) for message in opened) == 5
    others = vectors.copy()
    others[3] = 0
    second = Ideal(parameters, {first.selves[3]: (vectors[3] - others[3]).astype(np.uint16)})
    second.table = first.table
    second.install(monkeypatch)
    assert transcript(Shard(parameters, others), {Phase.MASK: [3]})[0] == seen


def masked_vectors(value: int, seeds: range) -> np.ndarray:
    """What the server receives when all numbers are this one, over many rounds with real masks."""
    rows = []
    for seed in seeds:
        parameters = small_parameters(5, length=200, bits=11, round=seed.to_bytes(16, "little"))
        messages = Shard(parameters, np.full((5, 200), value), Simulation(seed)).until(Phase.MASK)
        for message in messages.values():
            masked = unwrap(message, parameters, directory(5), SERVER).message
            assert isinstance(masked, Masked)
            rows.append(masked.vector)
    return np.array(rows)


@pytest.mark.parametrize("value", [0, 2**11 - 1])
def test_masked_vectors_are_uniform(value: int) -> None:
    """Equal vectors in, nothing but noise out: single numbers, and numbers of two clients of one round compared."""
    rows = masked_vectors(value, range(20)).astype(np.int64)
    for numbers in (
        rows.ravel(),
        (rows[0::5] - rows[1::5]).ravel() % 2**11,
        (rows[:, 1:] - rows[:, :-1]).ravel() % 2**11,
    ):
        assert chi_square(np.bincount(numbers // 16, minlength=128), np.full(128, len(numbers) / 128)) > 1e-6


def test_a_reused_mask_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the round left out of the keys, a second round would show the difference of two vectors."""
    rows = masked_vectors(0, range(2))
    assert (rows[:5] != rows[5:]).mean() > 0.99

    def forgetful(total: np.ndarray, key: bytes, *, subtract: bool = False) -> None:
        real(total, bytes(32), subtract=subtract)

    real = masks.add
    monkeypatch.setattr(masks, "add", forgetful)
    rows = masked_vectors(0, range(2))
    assert (rows[:5] == rows[5:]).all()


@given(seed=st.integers(0, 2**32), place=st.integers(0, 3))
@settings(max_examples=15)
def test_the_same_seed_in_two_rounds_gives_other_masks(seed: int, place: int) -> None:
    """Even with the same random bits, other parameters mean other masks."""
    one, two = small_parameters(4), small_parameters(4, round=bytes(16))
    vectors = np.zeros((4, 4), int)
    found = [Shard(parameters, vectors, Simulation(seed)).until(Phase.MASK)[place] for parameters in (one, two)]
    first, second = (
        unwrap(message, parameters, directory(4), SERVER).message
        for message, parameters in zip(found, (one, two), strict=True)
    )
    assert isinstance(first, Masked)
    assert isinstance(second, Masked)
    assert (first.vector != second.vector).any()
