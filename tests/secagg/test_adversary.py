"""A server that lies: what it may say to whom, and that no client ever opens both kinds of share of one neighbour."""

from __future__ import annotations

import dataclasses
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heathaze.errors import InvalidInput, ShardAborted, StoppedForGood, UnexpectedMessage
from heathaze.privacy.randomness import Simulation
from heathaze.secagg import Client, Phase, client, keys
from heathaze.secagg import shamir as shares
from heathaze.secagg.envelope import SERVER, unwrap, wrap
from heathaze.secagg.keys import MaskKey, PairKeys
from heathaze.secagg.messages import (
    Advertise,
    Agreed,
    Agreement,
    Forwarded,
    Message,
    Neighbours,
    Revealed,
    Shares,
    Survivors,
)
from tests.secagg.parties import Shard, directory, identities, operator, small_parameters, total

CLIENTS = 6
PARAMETERS = small_parameters(CLIENTS, survivors_at_least=4)
NEAR = set(range(1, CLIENTS))


def said(message: Message, to: int) -> bytes:
    """What the server says, with its own signature on it: it may say anything."""
    return wrap(message, PARAMETERS, operator(), SERVER, to)


def read(message: bytes) -> Message:
    return unwrap(message, PARAMETERS, directory(CLIENTS), SERVER).message


def everyone_masked() -> Shard:
    """A shard in which everybody has sent its masked vector."""
    shard = Shard(PARAMETERS)
    shard.to_server(shard.until(Phase.MASK))
    return shard


def stops(shard: Shard, one: int, message: Message, sentence: str) -> None:
    """The client stops for good, with that reason, and nothing ever comes out of it again."""
    with pytest.raises(StoppedForGood, match=f"Client {one} stopped for good: {sentence}"):
        shard.clients[one].receive(said(message, one))
    assert shard.clients[one].stopped
    for again in (message, Survivors(frozenset(range(CLIENTS))), Agreement(())):
        with pytest.raises(StoppedForGood, match=sentence):
            shard.clients[one].receive(said(again, one))
    with pytest.raises(StoppedForGood, match=sentence):
        shard.clients[one].begin()
    hidden = shard.clients[one]
    assert (hidden._vector, hidden._seed, hidden._mask_key, hidden._pairs, hidden._held) == (None, None, None, {}, {})


EVERYBODY, WITHOUT = frozenset(range(CLIENTS)), frozenset(range(CLIENTS - 1))
SETS = st.sampled_from([EVERYBODY] * 6 + [WITHOUT] * 3 + [frozenset({0, 1, 2, 3}), frozenset({0, 1, 2})])
STORIES = st.lists(SETS, min_size=1, max_size=2) | SETS.map(lambda one: [one])


OPENED: list[int] = []


@given(
    told=st.lists(STORIES, min_size=CLIENTS, max_size=CLIENTS) | SETS.map(lambda one: [[one]] * CLIENTS),
    # What is passed on from whom to whom: nothing, the first tag it made, or zeros.
    mixed=st.lists(
        st.lists(st.sampled_from([0, 1, 1, 1, 1, 1, 2]), min_size=CLIENTS, max_size=CLIENTS),
        min_size=CLIENTS,
        max_size=CLIENTS,
    ),
    rounds=st.integers(1, 3),
)
@settings(max_examples=40)
def test_never_both_kinds(told: list[list[frozenset[int]]], mixed: list[list[int]], rounds: int) -> None:
    """The server tells everyone sets of its own choice, several times, and passes on tags as it likes."""
    shard = everyone_masked()
    tags: dict[tuple[int, int], list[bytes]] = defaultdict(list)
    accepted: dict[int, frozenset[int]] = {}
    for one, sets in enumerate(told):
        for members in sets:
            try:
                (answer,) = shard.clients[one].receive(said(Survivors(members), one))
            except StoppedForGood:
                continue
            agreed = read(answer)
            assert isinstance(agreed, Agreed)
            accepted[one] = members
            for other, tag in zip(sorted(members - {one}), agreed.tags, strict=True):
                tags[one, other].append(tag)
    opened: dict[tuple[int, int], set[str]] = defaultdict(set)
    for _ in range(rounds):
        for one in range(CLIENTS):
            rows = []
            for other in range(CLIENTS):
                choice = [*tags.get((other, one), []), bytes(16)]
                if other != one and mixed[one][other]:
                    rows.append((other, choice[0 if mixed[one][other] == 1 else -1]))
            try:
                (answer,) = shard.clients[one].receive(said(Agreement(tuple(rows)), one))
            except (StoppedForGood, UnexpectedMessage):
                continue
            revealed = read(answer)
            assert isinstance(revealed, Revealed)
            for kind, found in (("seed", revealed.seeds), ("mask key", revealed.mask_keys)):
                for owner, _ in found:
                    opened[one, owner].add(kind)
            # Enough others were told the very same set.
            assert len(set(told[one])) == 1
            OPENED.append(one)
            same = [other for other in range(CLIENTS) if other != one and accepted.get(other) == accepted[one]]
            assert len(same) >= PARAMETERS.shares_needed
    assert all(len(kinds) == 1 for kinds in opened.values())
    for owner in range(CLIENTS):
        for kind in ("seed", "mask key"):
            other_kind = {"seed": "mask key", "mask key": "seed"}[kind]
            holders = [one for one in range(CLIENTS) if kind in opened[one, owner]]
            others = [one for one in range(CLIENTS) if other_kind in opened[one, owner]]
            assert len(holders) < PARAMETERS.shares_needed or len(others) < PARAMETERS.shares_needed


def test_the_liar_above_sometimes_gets_an_answer() -> None:
    """Otherwise it would show nothing."""
    OPENED.clear()
    test_never_both_kinds()
    assert len(OPENED) > 20


def test_two_halves_told_two_stories_open_nothing() -> None:
    """The attack that double masking alone does not stop: client 5 survives for some and is lost for the others."""
    shard = everyone_masked()
    everybody, without = frozenset(range(6)), frozenset(range(5))
    stories = {0: everybody, 1: everybody, 2: everybody, 3: without, 4: without}
    tags: dict[int, dict[int, bytes]] = {}
    for one, members in stories.items():
        agreed = read(shard.clients[one].receive(said(Survivors(members), one))[0])
        assert isinstance(agreed, Agreed)
        tags[one] = dict(zip(sorted(members - {one}), agreed.tags, strict=True))
    for one in stories:
        rows = tuple((other, tags[other][one]) for other in sorted(tags) if other != one)
        story = min(other for other in stories if stories[other] != stories[one])
        stops(shard, one, Agreement(rows), f"client {story} was told other survivors")


def test_a_client_that_does_not_compare_would_open_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same attack with the comparison taken out: it is the comparison that the test above tests."""
    monkeypatch.setattr(PairKeys, "vouched", lambda *_: True)
    shard = everyone_masked()
    stories = {one: frozenset(range(6)) if one < 3 else frozenset(range(5)) for one in range(5)}
    opened = defaultdict(set)
    for one, members in stories.items():
        shard.clients[one].receive(said(Survivors(members), one))
    for one in stories:
        rows = tuple((other, bytes(16)) for other in stories if other != one)
        revealed = read(shard.clients[one].receive(said(Agreement(rows), one))[0])
        assert isinstance(revealed, Revealed)
        for owner, _ in revealed.seeds:
            opened[owner].add("seed")
        for owner, _ in revealed.mask_keys:
            opened[owner].add("mask key")
    assert opened[5] == {"seed", "mask key"}


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        (frozenset({0, 1, 2}), "3 vectors are to be summed, expected at least 4"),
        (frozenset(range(1, 6)), "it sent its vector and is not among the survivors"),
    ],
)
def test_survivors_that_a_client_does_not_accept(members: frozenset[int], sentence: str) -> None:
    stops(everyone_masked(), 0, Survivors(members), sentence)


def test_a_survivor_that_never_sent_shares() -> None:
    shard = Shard(PARAMETERS)
    messages = shard.until(Phase.SHARE)
    shard.to_clients(shard.to_server({one: messages[one] for one in range(5)}))
    stops(shard, 0, Survivors(frozenset(range(6))), "client 5 is named as a survivor and never sent it shares")


def test_a_survivor_whom_nobody_knows() -> None:
    shard = everyone_masked()
    shard.clients[0]._directory = {one: public for one, public in directory(CLIENTS).items() if one != 5}
    stops(shard, 0, Survivors(frozenset(range(6))), "a survivor is named who is not in the directory")


@pytest.mark.parametrize(
    ("kinds", "sentence"),
    [
        ("few", "2 neighbours agree on the survivors, expected at least 3"),
        ("zero", "client 1 was told other survivors"),
        ("own", "client 0 is said to agree and is no surviving neighbour"),
        ("lost", "client 5 is said to agree and is no surviving neighbour"),
    ],
)
def test_agreements_that_a_client_does_not_accept(kinds: str, sentence: str) -> None:
    shard = everyone_masked()
    members = frozenset(range(5))
    tags = {}
    for one in range(5):
        agreed = read(shard.clients[one].receive(said(Survivors(members), one))[0])
        assert isinstance(agreed, Agreed)
        tags[one] = dict(zip(sorted(members - {one}), agreed.tags, strict=True))
    good = [(other, tags[other][0]) for other in range(1, 5)]
    rows = {
        "few": good[:2],
        "zero": [(1, bytes(16)), *good[1:]],
        "own": [(0, bytes(16)), *good],
        "lost": [*good, (5, bytes(16))],
    }[kinds]
    stops(shard, 0, Agreement(tuple(rows)), sentence)


def test_two_different_messages_of_one_kind() -> None:
    """An honest server never says two things; the second one is the last this client hears."""
    shard = everyone_masked()
    everybody = said(Survivors(frozenset(range(6))), 0)
    assert shard.clients[0].receive(everybody) == shard.clients[0].receive(everybody)
    stops(shard, 0, Survivors(frozenset(range(5))), "the server sent two different messages of the kind Survivors")


def test_neighbours_that_a_client_does_not_accept() -> None:
    public = [(one, MaskKey.draw(Simulation(one)).public) for one in range(CLIENTS)]
    for rows, sentence in [
        (public[1:3], "it got 2 neighbours, expected 3 to 5"),
        (public[:5], "it is named as its own neighbour"),
        ([*public[1:5], (5, bytes(32))], "with its neighbour 5 nothing can be agreed"),
    ]:
        shard = Shard(PARAMETERS)
        shard.begin()
        stops(shard, 0, Neighbours(tuple(rows)), sentence)


@pytest.mark.parametrize("double", [False, True], ids=["missing", "twice"])
def test_a_directory_names_everybody_and_nobody_twice(double: bool) -> None:
    known = {one: public for one, public in directory(CLIENTS).items() if one != 4}
    if double:
        known[4] = known[3]
    with pytest.raises(InvalidInput, match="a different identity for each of the 6 clients"):
        Client(PARAMETERS, 0, identities()[0], known, operator().public, [0] * 4, Simulation(1), breach=1)


def test_a_neighbour_who_is_no_longer_in_the_directory() -> None:
    one = Client(
        PARAMETERS, 0, identities()[0], directory(CLIENTS), operator().public, [0] * 4, Simulation(1), breach=1
    )
    one._directory = {other: public for other, public in directory(CLIENTS).items() if other != 4}
    one.begin()
    rows = tuple((other, MaskKey.draw(Simulation(other)).public) for other in range(1, CLIENTS))
    with pytest.raises(StoppedForGood, match="its neighbour 4 is not in the directory"):
        one.receive(said(Neighbours(rows), 0))


def test_a_mask_key_that_the_server_made_up_opens_nothing() -> None:
    """The server in the middle: it shows client 0 its own key in the name of client 1, and forwards what it gets."""
    shard = Shard(PARAMETERS)
    parcels = shard.to_server(shard.begin())
    forged = MaskKey.draw(Simulation(77))
    answers = {}
    for recipient, message in parcels:
        if recipient == 0:
            shown = unwrap(message, PARAMETERS, {SERVER: operator().public}, 0).message
            assert isinstance(shown, Neighbours)
            rows = tuple((other, forged.public if other == 1 else key) for other, key in shown.keys)
            message = said(Neighbours(rows), 0)
        answers[recipient] = shard.clients[recipient].receive(message)[0]
    forwarded = {parcel.recipient: parcel.message for parcel in shard.to_server(answers)}
    for one, other in ((0, 1), (1, 0)):
        with pytest.raises(StoppedForGood, match=f"what client {other} is said to have sealed does not open"):
            shard.clients[one].receive(forwarded[one])


def test_a_server_in_the_middle_cannot_read_what_is_sealed() -> None:
    """It knows both mask keys, since one is its own; the identities of the two are what it lacks."""
    shard = Shard(PARAMETERS)
    parcels = shard.to_server(shard.begin())
    forged = MaskKey.draw(Simulation(77))
    (first,) = (message for recipient, message in parcels if recipient == 0)
    shown = unwrap(first, PARAMETERS, {SERVER: operator().public}, 0).message
    (other,) = (message for recipient, message in parcels if recipient == 1)
    of_one = unwrap(other, PARAMETERS, {SERVER: operator().public}, 1).message
    assert isinstance(shown, Neighbours)
    assert isinstance(of_one, Neighbours)
    honest = dict(of_one.keys)[0]
    rows = tuple((one, forged.public if one == 1 else key) for one, key in shown.keys)
    sent = read(shard.clients[0].receive(said(Neighbours(rows), 0))[0])
    assert isinstance(sent, Shares)
    sealed = sent.sealed[[one for one, _ in rows].index(1)]
    context = keys.pair_context(PARAMETERS.digest, 0, honest, 1, forged.public)
    for guess in (b"", bytes(32), operator().agree(directory(CLIENTS)[0])):
        material = keys.pair_material(guess, forged.agree(honest), context)
        assert PairKeys(material, PARAMETERS.digest, 1, 0).open(sealed) is None


def test_shares_that_do_not_open() -> None:
    shard = Shard(PARAMETERS)
    messages = shard.until(Phase.SHARE)
    parcels = {parcel.recipient: parcel.message for parcel in shard.to_server(messages)}
    real = unwrap(parcels[0], PARAMETERS, {SERVER: operator().public}, 0).message
    assert isinstance(real, Forwarded)
    for rows, sentence in [
        (real.sealed[:2], "only 2 neighbours are left, expected at least 3"),
        (((1, bytes(82)), *real.sealed[1:]), "what client 1 is said to have sealed does not open"),
        (((1, real.sealed[1][1]), *real.sealed[1:]), "what client 1 is said to have sealed does not open"),
        (((0, bytes(82)), *real.sealed), "what client 0 is said to have sealed does not open"),
    ]:
        shard = Shard(PARAMETERS)
        shard.until(Phase.SHARE)
        stops(shard, 0, Forwarded(tuple(rows)), sentence)


def resigned(answer: bytes, sender: int, message: Message) -> bytes:
    """What a client would have sent had it lied: the same envelope around another message."""
    assert unwrap(answer, PARAMETERS, directory(CLIENTS), SERVER).sender == sender
    return wrap(message, PARAMETERS, identities()[sender], sender, SERVER)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("seeds", "the shares of the seed of client 1 do not fit its commitment"),
        ("mask_keys", "the shares of the mask key of client 5 do not fit its public key"),
    ],
)
def test_a_wrong_share_is_no_wrong_sum(kind: str, sentence: str) -> None:
    shard = Shard(PARAMETERS)
    masked = shard.until(Phase.MASK)
    del masked[5]
    messages = shard.to_clients(shard.to_server(masked))
    messages = shard.to_clients(shard.to_server(messages))
    lie = read(messages[0])
    assert isinstance(lie, Revealed)
    wrong = tuple((owner, (share + 1) % shares.PRIME) for owner, share in getattr(lie, kind))
    messages[0] = resigned(messages[0], 0, dataclasses.replace(lie, **{kind: wrong}))
    with pytest.raises(ShardAborted, match=sentence):
        shard.to_server(messages)
    assert shard.server.sum is None


def test_messages_of_a_client_that_do_not_fit() -> None:
    """Refused with what was found and what was expected; then the true one is welcome and the sum comes out right."""
    shard = Shard(PARAMETERS)
    messages = shard.begin()
    lies: dict[Phase, tuple[Message, str]] = {
        Phase.SHARE: (Shares(bytes(32), (bytes(82),)), "The number of sealed shares is 1, expected 5"),
        Phase.AGREE: (Agreed(bytes(32), ()), "The survivors of client 0 is 0000000000000000, expected"),
        Phase.REVEAL: (Revealed((), ()), "The owners of seed shares is 0 others, expected its surviving neighbours"),
    }
    for phase in Phase:
        if phase in lies:
            lie, sentence = lies[phase]
            with pytest.raises(UnexpectedMessage, match=sentence):
                shard.server.receive(resigned(messages[0], 0, lie))
        if phase is Phase.REVEAL:
            true = read(messages[0])
            assert isinstance(true, Revealed)
            both = dataclasses.replace(true, mask_keys=true.seeds)
            with pytest.raises(UnexpectedMessage, match="The owners of key shares is 5 others, expected its lost"):
                shard.server.receive(resigned(messages[0], 0, both))
        if phase is Phase.AGREE:
            true_digest = client.survivors_digest(frozenset(range(6)), PARAMETERS)
            with pytest.raises(UnexpectedMessage, match="The number of tags is 1, expected 5"):
                shard.server.receive(resigned(messages[0], 0, Agreed(true_digest, (bytes(16),))))
        messages = shard.to_clients(shard.to_server(messages))
    assert shard.server.sum is not None
    assert shard.server.sum.values.tolist() == total(shard.vectors, range(6), 16)


def test_a_second_different_message_is_refused_and_the_first_one_counts() -> None:
    shard = Shard(PARAMETERS)
    masked = shard.until(Phase.MASK)
    shard.server.receive(masked[0])
    true = read(masked[0])
    other = dataclasses.replace(true, vector=true.vector ^ 1)  # type: ignore[call-arg,union-attr]
    with pytest.raises(UnexpectedMessage, match="A second Masked of client 0 is different, expected the same again"):
        shard.server.receive(resigned(masked[0], 0, other))
    assert shard.server.receive(masked[0]) == ()
    for _ in range(2):
        masked = shard.to_clients(shard.to_server(masked))
    shard.to_server(masked)
    assert shard.server.sum is not None
    assert shard.server.sum.values.tolist() == total(shard.vectors, range(6), 16)


def test_a_mask_key_of_small_order_is_refused() -> None:
    shard = Shard(PARAMETERS)
    lie = wrap(Advertise(bytes(32)), PARAMETERS, identities()[0], 0, SERVER)
    with pytest.raises(UnexpectedMessage, match="The mask key of client 0 is of small order, expected a random one"):
        shard.server.receive(lie)
    shard.to_server(shard.begin())
    assert shard.server.phase is Phase.SHARE
