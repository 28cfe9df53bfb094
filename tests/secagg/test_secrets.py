"""Secrets neither print nor copy, the public face is small, and bad arguments get a sentence."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heathaze.secagg as secagg
from heathaze.errors import InvalidInput, PromiseBroken, UnexpectedMessage
from heathaze.privacy.randomness import Simulation
from heathaze.secagg import Client, Identity, Phase, Server
from heathaze.secagg.envelope import SERVER, unwrap, wrap
from heathaze.secagg.keys import MaskKey, PairKeys
from heathaze.secagg.messages import Neighbours
from tests.secagg.parties import Shard, directory, identities, operator, small_parameters, some_vectors

PARAMETERS = small_parameters(5, survivors_at_least=4)


def test_the_public_names() -> None:
    assert set(secagg.__all__) == {
        "Client", "FailureBounds", "Identity", "Parameters", "Parcel", "Phase", "Server", "Sum", "run_shard",
    }  # fmt: skip


def test_the_page_has_its_sections() -> None:
    page = Path(secagg.__file__).with_name("secagg.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## (.+)$", page, re.MULTILINE)
    wanted = [
        "Promise",
        "Assumptions",
        "Protocol",
        "Sending the messages",
        "Theorem",
        "Neighbours",
        "Departures from the paper",
        "Cost",
        "Status",
    ]
    assert sections == wanted
    assert all(len(body.strip()) > 100 for body in re.split(r"^## .+$", page, flags=re.MULTILINE)[1:])


def holders() -> list[object]:
    shard = Shard(PARAMETERS)
    shard.to_server(shard.until(Phase.MASK))
    source = Simulation(1)
    pair = PairKeys(bytes(128), bytes(32), 0, 1)
    return [identities()[0], MaskKey.draw(source), pair, shard.clients[0], shard.server]


@pytest.mark.parametrize("holder", holders(), ids=lambda holder: type(holder).__name__)
@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, pickle.dumps])
def test_no_copies(holder: object, clone: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match=f"A {type(holder).__name__} cannot be"):
        clone(holder)


@pytest.mark.parametrize("holder", holders(), ids=lambda holder: type(holder).__name__)
def test_a_holder_says_only_what_it_is(holder: object) -> None:
    assert repr(holder) == str(holder) == f"<{type(holder).__name__}>"


def test_messages_do_not_print_what_they_carry() -> None:
    shard = Shard(PARAMETERS)
    messages, printed = shard.begin(), ""
    for phase in Phase:
        for message in messages.values():
            opened = unwrap(message, PARAMETERS, directory(5), SERVER)
            printed += repr(opened) + repr(opened.message)
        if phase is Phase.MASK:
            del messages[3]
        parcels = shard.to_server(messages)
        for recipient, block in parcels:
            printed += repr(unwrap(block, PARAMETERS, {SERVER: operator().public}, recipient))
        messages = shard.to_clients(parcels)
    printed += repr(shard.server.sum)
    assert "Revealed()" in printed
    assert "<Sum: 4 numbers over 4 clients>" in printed
    # Senders' numbers, and the sum's two; nothing longer.
    assert max(len(digits) for digits in re.findall("[0-9]+", printed)) <= len(str(SERVER))
    assert not re.search(r"\\x|[0-9a-f]{12}", printed)


def test_a_finished_client_has_forgotten() -> None:
    shard = Shard(PARAMETERS)
    vector = shard.vectors[0].astype(np.uint16)
    messages = shard.until(Phase.REVEAL)
    one = shard.clients[0]
    assert one.finished
    assert (one._vector, one._seed, one._mask_key, one._pairs, one._held, one._stream_keys) == (None,) * 3 + ({},) * 3
    shard.to_server(messages)
    assert shard.server.sum is not None
    for kept in vars(one).values():
        assert not (isinstance(kept, np.ndarray) and np.array_equal(kept, vector))
    with pytest.raises(UnexpectedMessage, match="expected none, the round is over"):
        shard.server.receive(wrap(Neighbours(()), PARAMETERS, identities()[0], 0, SERVER))


def client(**changed: Any) -> Client:
    given: dict[str, Any] = {
        "parameters": PARAMETERS,
        "index": 0,
        "identity": identities()[0],
        "directory": directory(5),
        "server_key": operator().public,
        "vector": some_vectors(PARAMETERS)[0],
        "randomness": Simulation(1),
        "breach": 1,
    }
    return Client(**(given | changed))


@pytest.mark.parametrize(
    ("changed", "error", "sentence"),
    [
        ({"index": 5}, InvalidInput, "The client's number is 5, expected 0 to 4"),
        ({"index": -1}, InvalidInput, "The client's number is -1, expected 0 to 4"),
        ({"index": 1}, InvalidInput, "The directory names another identity for client 1"),
        ({"directory": {}}, InvalidInput, "The directory names another identity for client 0"),
        ({"server_key": bytes(32)}, InvalidInput, "The public identity of the server is 32 bytes, expected 64 bytes"),
        ({"server_key": "key"}, InvalidInput, "The public identity of the server is str, expected 64 bytes"),
        ({"vector": [0, 0, 0]}, InvalidInput, r"The vector has the shape \(3,\), expected \(4,\)"),
        ({"vector": [0, 0, 0, 65536]}, InvalidInput, r"outside 0 … 2\^16 − 1"),
        (
            {"parameters": small_parameters(5, corrupt_at_most=3, survivors_at_least=5), "breach": 2**-40},
            PromiseBroken,
            "With these parameters the server learns more than the sum with probability up to 1, "
            "expected at most 9.1e-13",
        ),
    ],
)
def test_bad_arguments(changed: dict[str, Any], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        client(**changed)


def test_no_sentence_tells_a_vector() -> None:
    with pytest.raises(InvalidInput) as refused:
        client(vector=[0, 0, 0, 987_654])
    assert "987" not in str(refused.value)


def test_a_server_needs_everyone_in_the_directory() -> None:
    with pytest.raises(InvalidInput, match="The directory has no identity for client 3"):
        Server(PARAMETERS, operator(), {k: v for k, v in directory(5).items() if k != 3}, Simulation(1))
    with pytest.raises(InvalidInput, match="The public identity of client 3 is 1 bytes, expected 64 bytes"):
        Server(PARAMETERS, operator(), directory(5) | {3: b"x"}, Simulation(1))


def test_a_client_begins_before_it_answers() -> None:
    shard = Shard(PARAMETERS)
    parcels = shard.to_server(shard.begin())
    silent = client()
    with pytest.raises(UnexpectedMessage, match=r"is Neighbours, expected begin\(\) first"):
        silent.receive(parcels[0].message)
    assert silent.begin() == silent.begin()


def test_other_parameters_for_another_client_do_not_go_through() -> None:
    """A server that tells one client to accept fewer survivors is not understood by it."""
    shard = Shard(PARAMETERS)
    weaker = client(parameters=small_parameters(5, survivors_at_least=5))
    weaker.begin()
    parcels = shard.to_server(shard.begin())
    with pytest.raises(UnexpectedMessage, match=r"The digest of the terms is .*; drop it, or compare the parameters"):
        weaker.receive(parcels[0].message)


def test_an_identity_is_kept_in_64_bytes() -> None:
    identity = Identity(Simulation(1))
    again = Identity.from_bytes(identity.to_bytes())
    other = Identity(Simulation(2))
    assert again.public == identity.public
    assert again.agree(other.public) == other.agree(identity.public)
    assert again.sign(b"x") == identity.sign(b"x")
    with pytest.raises(InvalidInput, match="An identity of 63 bytes, expected 64"):
        Identity.from_bytes(identity.to_bytes()[:-1])
