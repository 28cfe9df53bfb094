"""The ledger never overspends, never forgets, and shows every edit."""

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heathaze.errors import (
    AlreadyCharged,
    BudgetExceeded,
    CannotWrite,
    HeathazeError,
    InvalidInput,
    LedgerCorrupt,
    LedgerError,
    LedgerMismatch,
    PromiseBroken,
)
from heathaze.privacy import ledger as ledger_module
from heathaze.privacy.accountant import compose
from heathaze.privacy.events import (
    Composition,
    DecoyCounts,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    FineGaussian,
    NoiseShares,
    RandomizedReport,
)
from heathaze.privacy.guarantee import Adjacency, Guarantee, Trust, Unit
from heathaze.privacy.ledger import Budget, Entry, Ledger
from heathaze.privacy.loss import Number, PrivacyLoss, exact

DELTA = Fraction(1, 10**6)


def pay(ledger: Ledger, epsilon: Number, unit: Unit = Unit.PERSON, note: str = "") -> Entry:
    """Charge a pure ε with Laplace noise that costs exactly that."""
    amount = exact(epsilon)
    return ledger.charge(Guarantee(PrivacyLoss(amount), unit), DiscreteLaplace(1, 1 / amount), note)


def pay_gaussian(ledger: Ledger, sigma: int) -> Entry:
    event = DiscreteGaussian(1, Fraction(sigma))
    return ledger.charge(Guarantee(compose([event], DELTA), Unit.PERSON), event)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "visits.ledger"


@pytest.fixture
def ledger(path: Path) -> Ledger:
    return Ledger.open(path, total=2)


def pay_for_a_sum(ledger: Ledger, shape: Fraction = Fraction(1)) -> Entry:
    """Charge ε = 1/3 for one round of a survey."""
    guarantee = Guarantee(PrivacyLoss(Fraction(1, 3)), Unit.PERSON, Adjacency.ZERO_OUT, Trust.SECURE_SUM, 3)
    return ledger.charge(guarantee, NoiseShares(5, Fraction(15), shape), note="a round")


# ── the budget ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_new_ledger_is_full(ledger: Ledger, path: Path) -> None:
    assert (ledger.total, ledger.spent, ledger.remaining, ledger.delta) == (2, 0, 2, 0)
    assert (ledger.unit, ledger.adjacency, ledger.entries()) == (None, None, [])
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_charge_is_kept(ledger: Ledger, path: Path) -> None:
    entry = pay(ledger, 0.5, note="first map")
    assert (entry.number, entry.note, entry.guarantee.loss) == (1, "first map", PrivacyLoss(Fraction(1, 2)))
    again = Ledger.open(path)
    assert again.entries() == [entry]
    assert (again.total, again.spent, again.remaining, again.unit) == (2, Fraction(1, 2), Fraction(3, 2), Unit.PERSON)


def test_ten_tenths_exhaust_one_exactly(path: Path) -> None:
    ledger = Ledger.open(path, total=1.0)
    for _ in range(10):
        pay(ledger, 0.1)
    assert ledger.remaining == 0
    with pytest.raises(BudgetExceeded, match="The budget of this data is spent for good"):
        pay(ledger, 1e-6)
    assert len(ledger.entries()) == 10


def test_rounds_of_a_survey_are_charged_and_kept(ledger: Ledger, path: Path) -> None:
    for number in range(1, 7):
        entry = pay_for_a_sum(ledger, Fraction(number + 6, 7))
        assert (entry.number, entry.guarantee.colluders) == (number, 3)
    assert ledger.remaining == 0
    with pytest.raises(BudgetExceeded):
        pay_for_a_sum(ledger)
    again = Ledger.open(path)
    assert again.entries() == ledger.entries()
    assert (again.adjacency, again.entries()[0].guarantee.trust) == (Adjacency.ZERO_OUT, Trust.SECURE_SUM)
    assert again.entries()[-1].event == NoiseShares(5, Fraction(15), Fraction(12, 7))


def test_something_is_charged_once_if_asked_for(ledger: Ledger) -> None:
    guarantee, event = Guarantee(PrivacyLoss(Fraction(1, 10)), Unit.PERSON), DiscreteLaplace(1, Fraction(10))
    ledger.charge(guarantee, event, note="round 1 final", once="round 1 ")
    with pytest.raises(AlreadyCharged, match="charged for 'round 1' before; nothing was charged"):
        ledger.charge(guarantee, event, note="round 1 of more", once="round 1 ")
    assert len(ledger.entries()) == 1
    ledger.charge(guarantee, event, note="round 1 final")
    ledger.charge(guarantee, event, note="round 11 final", once="round 11 ")
    assert len(ledger.entries()) == 3


def test_a_sum_of_too_few_is_not_charged(ledger: Ledger) -> None:
    with pytest.raises(PromiseBroken, match="must not be opened"):
        pay_for_a_sum(ledger, Fraction(6, 7))
    assert (ledger.entries(), ledger.remaining) == ([], 2)


def test_zeroing_out_is_another_change_than_removing(ledger: Ledger) -> None:
    pay(ledger, 1)
    with pytest.raises(LedgerMismatch, match=r"adjacency 'add-remove'.*'zero-out'"):
        pay_for_a_sum(ledger)
    assert ledger.remaining == 1


@pytest.mark.parametrize("note", ["\ud800", "map 1 \udcff", "\udc00\ud800"])
def test_a_note_with_a_lone_surrogate_is_refused_before_anything_is_charged(ledger: Ledger, note: str) -> None:
    """It cannot be printed or written as UTF-8, so whoever reads the ledger later would fail on it."""
    with pytest.raises(InvalidInput, match=r"lone surrogate \(U\+D.*\) at character \d+, .* Nothing was charged"):
        pay(ledger, 1, note=note)
    assert (ledger.spent, ledger.entries()) == (0, [])


def test_a_note_is_text(ledger: Ledger) -> None:
    with pytest.raises(InvalidInput, match="The note of a charge is an int; expected str"):
        pay(ledger, 1, note=7)  # type: ignore[arg-type]
    assert ledger.spent == 0
    entry = pay(ledger, 1, note="Zürich \U0001f5fa \x00\n")
    assert ledger.entries()[0].note == entry.note == "Zürich \U0001f5fa \x00\n"


def test_overspending_is_refused_with_the_numbers(ledger: Ledger, path: Path) -> None:
    pay(ledger, "5/3")
    with pytest.raises(BudgetExceeded) as caught:
        pay(ledger, 0.5)
    sentence = f"This charge costs ε = 0.5, and the ledger {path} has ε = 0.333333 left of 2; nothing was charged."
    assert str(caught.value) == f"{sentence} Take a smaller epsilon."
    assert (len(ledger.entries()), ledger.remaining) == (1, Fraction(1, 3))
    pay(ledger, "1/3")
    assert ledger.remaining == 0


def test_a_charge_may_be_looked_at_before_it_is_made(ledger: Ledger) -> None:
    """Whatever charging refuses is refused, whatever it takes is not; and nothing is charged either way."""
    pay(ledger, 1)
    for loss, unit, event, refusal in (
        (PrivacyLoss(Fraction(1)), Unit.PERSON, DiscreteLaplace(1, Fraction(1)), None),
        (PrivacyLoss(Fraction(3, 2)), Unit.PERSON, DiscreteLaplace(1, Fraction(1)), BudgetExceeded),
        (PrivacyLoss(Fraction(1)), Unit.VISIT, DiscreteLaplace(1, Fraction(1)), LedgerMismatch),
        (PrivacyLoss(Fraction(1, 2)), Unit.PERSON, DiscreteLaplace(1, Fraction(1)), PromiseBroken),
        (PrivacyLoss(Fraction(1), DELTA), Unit.PERSON, DiscreteGaussian(1, Fraction(50)), BudgetExceeded),
    ):
        charge = Guarantee(loss, unit), event
        if refusal is None:
            ledger.check(*charge)
        else:
            with pytest.raises(refusal) as looked:
                ledger.check(*charge)
            with pytest.raises(refusal) as charged:
                ledger.charge(*charge)
            assert str(looked.value) == str(charged.value)
        assert len(ledger.entries()) == 1


def test_the_declared_loss_counts_even_if_the_event_costs_less(ledger: Ledger) -> None:
    ledger.charge(Guarantee(PrivacyLoss(Fraction(1)), Unit.PERSON), DiscreteLaplace(1, Fraction(4)))
    assert ledger.spent == 1


@pytest.mark.parametrize(
    ("event", "loss"),
    [
        (DiscreteLaplace(1, Fraction(1)), PrivacyLoss(Fraction(99, 100))),
        (Composition((DiscreteLaplace(1, Fraction(1)),) * 2), PrivacyLoss(Fraction(1))),
        (DiscreteGaussian(1, Fraction(5)), PrivacyLoss(Fraction(100))),
        (DiscreteGaussian(1, Fraction(5)), PrivacyLoss(Fraction(1, 10), DELTA)),
        (DiscreteLaplace(1, Fraction(0)), PrivacyLoss(Fraction(1))),
    ],
)
def test_an_event_that_costs_more_than_declared_is_refused(ledger: Ledger, event: Event, loss: PrivacyLoss) -> None:
    with pytest.raises(PromiseBroken):
        ledger.charge(Guarantee(loss, Unit.PERSON), event)
    assert ledger.entries() == []


def report(ledger: Ledger, epsilon: Number, adjacency: Adjacency = Adjacency.ANY_TWO) -> Entry:
    """Charge one report of a device."""
    amount = exact(epsilon)
    return ledger.charge(Guarantee(PrivacyLoss(amount), Unit.PERSON, adjacency, Trust.LOCAL), RandomizedReport(amount))


def test_reports_of_a_device_add_up(ledger: Ledger, path: Path) -> None:
    first = report(ledger, "2/3")
    report(ledger, "4/3")
    assert Ledger.open(path).spent == 2
    assert Ledger.open(path).entries()[0] == first
    assert (first.guarantee.trust, first.event) == (Trust.LOCAL, RandomizedReport(Fraction(2, 3)))
    with pytest.raises(BudgetExceeded):
        report(ledger, "1/1000000")


@pytest.mark.parametrize("adjacency", [Adjacency.ANY_TWO, Adjacency.PER_METRE, Adjacency.PER_LENGTH])
@pytest.mark.parametrize("other", [kind for kind in Adjacency if kind is not Adjacency.EARTH_MOVER])
def test_losses_of_different_kinds_do_not_add_up(ledger: Ledger, adjacency: Adjacency, other: Adjacency) -> None:
    """An ε per metre, per unit of length, for any two positions, for adding a person: none adds to another."""
    report(ledger, "1/2", adjacency)
    assert ledger.adjacency is adjacency
    if other is adjacency:
        report(ledger, "1/2", other)
        assert ledger.spent == 1
        return
    words = f"counts in adjacency '{adjacency.value}', and this charge is in adjacency '{other.value}'"
    with pytest.raises(LedgerMismatch, match=words):
        report(ledger, "1/2", other)
    assert ledger.spent == Fraction(1, 2)


def test_a_report_that_costs_more_than_declared_is_refused(ledger: Ledger) -> None:
    declared = Guarantee(PrivacyLoss(Fraction(1, 2)), Unit.PERSON, Adjacency.ANY_TWO, Trust.LOCAL)
    with pytest.raises(PromiseBroken, match="more than the declared"):
        ledger.charge(declared, RandomizedReport(Fraction(1)))
    assert ledger.spent == 0


def test_the_first_charge_fixes_the_unit(ledger: Ledger) -> None:
    pay(ledger, 0.1, Unit.VISIT)
    with pytest.raises(LedgerMismatch, match="counts in unit 'visit', and this charge is in unit 'person'"):
        pay(ledger, 0.1, Unit.PERSON)
    assert ledger.unit is Unit.VISIT
    assert len(ledger.entries()) == 1


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.fractions(min_value=Fraction(1, 10), max_value=3),
    st.lists(st.fractions(min_value=Fraction(1, 1000), max_value=2), max_size=6),
)
def test_any_sequence_of_charges_adds_up(path: Path, total: Fraction, amounts: list[Fraction]) -> None:
    path.unlink(missing_ok=True)
    ledger = Ledger.open(path, total)
    spent = Fraction(0)
    for amount in amounts:
        try:
            pay(ledger, amount)
            spent += amount
        except BudgetExceeded:
            assert spent + amount > total
    assert ledger.spent == spent <= total


# ── Gaussian noise ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_gaussian_charges_count_together(path: Path) -> None:
    ledger = Ledger.open(path, total=2, delta=1e-6)
    entries = [pay_gaussian(ledger, 10) for _ in range(3)]
    assert ledger.spent == compose([DiscreteGaussian(1, Fraction(10))] * 3, DELTA).epsilon
    assert ledger.spent < sum(entry.guarantee.loss.epsilon for entry in entries)
    pay(ledger, 0.1)
    assert ledger.spent <= compose([DiscreteGaussian(1, Fraction(10))] * 3, DELTA).epsilon + Fraction(1, 10)
    with pytest.raises(BudgetExceeded, match="left of 2"):
        pay_gaussian(ledger, 2)
    assert len(ledger.entries()) == 4


def test_a_pure_charge_beside_gaussian_ones_costs_what_it_declares(path: Path) -> None:
    ledger = Ledger.open(path, total=2, delta=1e-6)
    pay_gaussian(ledger, 10)
    before = ledger.spent
    pay(ledger, 0.1)
    assert ledger.spent == before + Fraction(1, 10)


def test_a_pure_ledger_takes_no_delta(ledger: Ledger) -> None:
    with pytest.raises(BudgetExceeded, match=r"has δ = 1e-06, and the ledger .* allows δ = 0; nothing was charged"):
        pay_gaussian(ledger, 10)
    assert ledger.entries() == []


# ── shuffled messages ───────────────────────────────────────────────────────────────────────────────────────────────


STUDY = DecoyCounts(people=2000, nodes=4, decoys=Fraction(1, 10))


def mixed(epsilon: Fraction, delta: Fraction) -> Guarantee:
    loss = PrivacyLoss(epsilon, delta)
    return Guarantee(loss, Unit.PERSON, Adjacency.REPLACE, Trust.SHUFFLER, people=2000)


def pay_study(budget: Budget, epsilon: float, delta: Fraction = DELTA) -> Entry:
    return budget.charge(mixed(Fraction(epsilon), delta), STUDY)


def test_studies_with_a_shuffler_add_up(path: Path) -> None:
    """Their joint loss at one δ is smaller, but an attacker may choose the second study in view of the first."""
    for budget in (Ledger.open(path, total=10, delta=2.5e-6), Budget(10, delta=2.5e-6)):
        pay_study(budget, 1)
        pay_study(budget, 1)
        assert compose([STUDY], DELTA).epsilon < 1 < compose([STUDY] * 2, DELTA).epsilon < 2 == budget.spent
        with pytest.raises(BudgetExceeded, match=r"has δ = 1e-06, and the .* has δ = 5e-07 left of 2.5e-06; nothing"):
            pay_study(budget, 1.5)
        assert len(budget.entries()) == 2


def test_gaussian_noise_beside_a_study_is_accounted_at_the_delta_that_is_left() -> None:
    noise = DiscreteGaussian(1, Fraction(10))
    budget, full = Budget(5, delta=2e-6), Budget(5, delta=1e-6)
    pay_study(budget, 1.5)
    budget.charge(mixed(Fraction(1), DELTA), noise)
    assert budget.spent == Fraction(3, 2) + compose([noise], DELTA).epsilon
    with pytest.raises(BudgetExceeded, match="The δ of studies with a shuffler add up"):
        pay_study(budget, 1.5)  # no δ would be left for the Gaussian noise
    pay_study(full, 1.5)
    with pytest.raises(BudgetExceeded, match="has δ = 0 left of 1e-06"):
        full.charge(mixed(Fraction(1), DELTA), noise)
    assert (len(budget.entries()), len(full.entries())) == (2, 1)


# ── opening ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_new_ledger_needs_a_total(path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"There is no ledger at .*; give a total"):
        Ledger.open(path)
    assert not path.exists()


@pytest.mark.parametrize("total", [0, -1, float("nan"), float("inf"), "much"])
def test_a_bad_total_is_refused(path: Path, total: Number) -> None:
    with pytest.raises(InvalidInput, match="total is"):
        Ledger.open(path, total)
    assert not path.exists()


@pytest.mark.parametrize("delta", [-0.1, 1, float("nan"), float("inf"), "much"])
def test_a_bad_delta_is_refused(path: Path, delta: Number) -> None:
    with pytest.raises(InvalidInput, match="delta is"):
        Ledger.open(path, 1, delta)
    assert not path.exists()


def test_another_total_or_delta_is_refused(path: Path) -> None:
    Ledger.open(path, total=2, delta=1e-6)
    with pytest.raises(LedgerMismatch, match="begun with total 2, not 3"):
        Ledger.open(path, total=3)
    with pytest.raises(LedgerMismatch, match="begun with delta 1/1000000, not 0"):
        Ledger.open(path, total=2, delta=0)
    assert Ledger.open(path, total=2.0, delta="1e-6").delta == DELTA
    assert Ledger.open(path).total == 2


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        (
            1,
            r"The ledger .*visits\.ledger has format 1, of Heathaze 0\.1, .* a new ledger with that as its total\.",
        ),
        (3, r"The ledger .*visits\.ledger was written by a newer version of Heathaze; use that version\."),
    ],
)
def test_another_format_is_refused_by_name(
    path: Path, written: int, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as then:
        then.setattr(ledger_module, "_FORMAT", written)
        ledger_module._begin(path, Fraction(2), Fraction(0))
    before = path.read_bytes()
    for total in (None, 2):
        with pytest.raises(LedgerMismatch, match=sentence):
            Ledger.open(path, total)
    assert path.read_bytes() == before


@pytest.mark.parametrize("place", ["nowhere/visits.ledger", "file/visits.ledger"])
def test_a_directory_that_is_not_there_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(CannotWrite, match=r"exists? and can be written to"):
        Ledger.open(tmp_path / place, total=1)


def test_a_ledger_that_vanishes_is_not_begun_anew(ledger: Ledger, path: Path) -> None:
    path.unlink()
    with pytest.raises(LedgerCorrupt, match="is no longer there; put it back"):
        pay(ledger, 1)
    assert not path.exists()


def test_odd_names_work(tmp_path: Path) -> None:
    for name in ("ümlaut ledger", "what?mode=ro#x", "100%.ledger"):
        ledger = Ledger.open(tmp_path / name, total=1)
        pay(ledger, 1)
        assert (tmp_path / name).is_file()
        assert ledger.remaining == 0


# ── damage ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _full(path: Path, charges: int = 5) -> list[Entry]:
    ledger = Ledger.open(path, total=10)
    return [pay(ledger, 1, note=f"map {k}") for k in range(charges)]


@pytest.mark.parametrize("content", [b"", b"not a ledger\n", b"SQLite format 3\x00", bytes(5000), b"PK\x03\x04" * 999])
def test_a_file_that_is_no_ledger_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(LedgerCorrupt, match=r"is not a sound ledger: .*Put back its last good copy"):
        Ledger.open(path, total=1)
    assert path.read_bytes() == content


def test_another_database_is_refused(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE entries (number INTEGER PRIMARY KEY, content TEXT, hash TEXT)")
    connection.close()
    with pytest.raises(LedgerCorrupt):
        Ledger.open(path, total=1)


def test_a_directory_is_refused(path: Path) -> None:
    path.mkdir()
    with pytest.raises(HeathazeError):
        Ledger.open(path, total=1)


@pytest.mark.filterwarnings("ignore::heathaze.errors.WeakPrivacy")
def test_a_truncated_file_is_refused(path: Path) -> None:
    ledger = Ledger.open(path, total=100)
    for _ in range(30):
        pay(ledger, 1)
    whole = path.read_bytes()
    for length in range(1, len(whole), 997):
        path.write_bytes(whole[:length])
        with pytest.raises(LedgerCorrupt):
            Ledger.open(path)


def test_a_changed_byte_is_seen_or_harmless(path: Path) -> None:
    entries = _full(path)
    whole = path.read_bytes()
    seen = 0
    for place in range(0, len(whole), 41):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x15]) + whole[place + 1 :])
        try:
            assert Ledger.open(path).entries() == entries
        except HeathazeError:
            seen += 1
    assert seen > 20


def test_a_changed_text_is_seen(path: Path) -> None:
    _full(path)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"epsilon":"1"', b'"epsilon":"0"', 1))
    with pytest.raises(LedgerCorrupt, match="its chain breaks at entry"):
        Ledger.open(path)


def _edit(path: Path, *statements: str, keep_triggers: bool = True) -> None:
    """Tamper as someone would who knows SQLite."""
    connection = sqlite3.connect(path)
    for name in ("appends_only", "keeps_all", "keeps_each"):
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        connection.execute(statement)
    if keep_triggers:
        for statement in ledger_module._SCHEMA[1:]:
            connection.execute(statement)
    connection.commit()
    connection.close()


TAMPERING = {
    "edited": [
        'UPDATE entries SET content = replace(content, \'"epsilon":"1"\', \'"epsilon":"1/9"\') WHERE number = 2'
    ],
    "another total": [
        'UPDATE entries SET content = replace(content, \'"total":"10"\', \'"total":"99"\') WHERE number = 0'
    ],
    "another note": ["UPDATE entries SET content = replace(content, 'map 1', 'map 7')"],
    "a hole": ["DELETE FROM entries WHERE number = 3"],
    "a hole closed": [
        "DELETE FROM entries WHERE number = 3",
        "UPDATE entries SET number = number - 1 WHERE number > 3",
    ],
    "no beginning": ["DELETE FROM entries WHERE number = 0"],
    "nothing": ["DELETE FROM entries"],
    "swapped": [
        "UPDATE entries SET number = -1 WHERE number = 2",
        "UPDATE entries SET number = 2 WHERE number = 3",
        "UPDATE entries SET number = 3 WHERE number = -1",
    ],
    "another hash": [f"UPDATE entries SET hash = '{'0' * 64}' WHERE number = 5"],
    "no text": ["UPDATE entries SET content = x'FF00' WHERE number = 4"],
    "an addition": ["INSERT INTO entries VALUES (6, '{}', 'x')"],
}


@pytest.mark.parametrize("how", TAMPERING)
def test_tampering_is_seen(path: Path, how: str) -> None:
    _full(path)
    _edit(path, *TAMPERING[how])
    with pytest.raises(LedgerCorrupt):
        Ledger.open(path)


def test_missing_triggers_are_seen(path: Path) -> None:
    _full(path)
    _edit(path, keep_triggers=False)
    with pytest.raises(LedgerCorrupt, match="its tables are not those of a ledger"):
        Ledger.open(path)


def test_tampering_under_an_open_ledger_stops_the_next_charge(path: Path) -> None:
    _full(path)
    ledger = Ledger.open(path)
    _edit(path, *TAMPERING["edited"])
    with pytest.raises(LedgerCorrupt):
        pay(ledger, 1)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET hash = ''",
        "DELETE FROM entries",
        "INSERT INTO entries VALUES (9, '', '')",
        "INSERT OR REPLACE INTO entries VALUES (1, '', '')",
    ],
)
def test_rows_are_only_appended(path: Path, statement: str) -> None:
    entries = _full(path)
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.Error):
        connection.execute(statement)
    connection.close()
    assert Ledger.open(path).entries() == entries


NESTED = '{"kind":"composition","events":['
UNREADABLE = {
    "no fields": '{"number":2}',
    "a long number": '{"number":' + "9" * 5000 + "}",
    "nested": '{"event":' + 5000 * NESTED + 5000 * "]}" + "}",
}


@pytest.mark.parametrize("content", UNREADABLE.values(), ids=UNREADABLE)
def test_an_entry_that_cannot_be_read_is_refused(path: Path, content: str) -> None:
    _full(path, 1)
    connection = sqlite3.connect(path)
    (previous,) = connection.execute("SELECT hash FROM entries WHERE number = 1").fetchone()
    connection.execute("INSERT INTO entries VALUES (2, ?, ?)", (content, ledger_module._link(previous, content)))
    connection.commit()
    connection.close()
    with pytest.raises(LedgerCorrupt, match="cannot be read"):
        Ledger.open(path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_budget_cannot_be_spent_again_by_a_forked_process() -> None:
    budget = Budget(1)
    event = DiscreteLaplace(1, Fraction(1))
    guarantee = Guarantee(PrivacyLoss(Fraction(1)), Unit.PERSON)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            budget.charge(guarantee, event)
        except PromiseBroken as refused:
            code = 0 if "made in another process" in str(refused) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    budget.charge(guarantee, event)
    assert budget.remaining == 0


def test_an_old_copy_is_found_by_its_releases(path: Path) -> None:
    ledger = Ledger.open(path, total=10)
    early = pay(ledger, 1)
    shutil.copy(path, old := path.with_name("old"))
    late = pay(ledger, 1)
    assert ledger.knows(early.reference())
    assert ledger.knows(json.loads(json.dumps(late.reference())))
    shutil.copy(old, path)
    # The file alone looks whole; who has seen more of it knows better.
    assert Ledger.open(path).spent == 1
    assert not Ledger.open(path).knows(late.reference())
    with pytest.raises(LedgerCorrupt, match="entries that were there before are gone"):
        pay(ledger, 1)


def test_another_ledger_put_in_place_is_seen(path: Path, tmp_path: Path) -> None:
    ledger = Ledger.open(path, total=1)
    Ledger.open(tmp_path / "other", total=1)
    shutil.copy(tmp_path / "other", path)
    with pytest.raises(LedgerCorrupt):
        pay(ledger, 1)


def test_a_reference_holds_nothing_but_number_and_hash(ledger: Ledger) -> None:
    reference = pay(ledger, 1, note="a secret note").reference()
    assert set(reference) == {"entry", "hash"}
    assert reference["entry"] == 1
    assert len(bytes.fromhex(reference["hash"])) == 32


# ── the disk ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_ledger_in_use_gets_a_sentence(ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "_WAIT_SECONDS", 0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(LedgerError, match=r"Another process has held the ledger .* nothing was charged"):
        pay(ledger, 1)
    other.execute("ROLLBACK")
    other.close()
    assert ledger.entries() == []


def test_a_read_only_file_gets_a_sentence(ledger: Ledger, path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[18] = 3  # a "write version" above 2 makes SQLite open the file for reading only, even for root
    path.write_bytes(bytes(whole))
    with pytest.raises(CannotWrite, match=r"cannot be written .* nothing was charged"):
        pay(ledger, 1)
    assert ledger.entries() == []


FULL_DISK = """
import resource, sys
from fractions import Fraction
from heathaze.errors import CannotWrite
from heathaze.privacy.events import (DiscreteLaplace)
from heathaze.privacy.guarantee import Guarantee
from heathaze.privacy.ledger import Ledger
from heathaze.privacy.loss import PrivacyLoss
from heathaze.privacy.guarantee import Unit
path, begin = sys.argv[1], sys.argv[2] == "begin"
ledger = None if begin else Ledger.open(path)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    if ledger is None:
        Ledger.open(path, total=1)
    else:
        ledger.charge(Guarantee(PrivacyLoss(Fraction(1)), Unit.PERSON), DiscreteLaplace(1, Fraction(1)))
except CannotWrite as error:
    print(error)
    sys.exit(0)
sys.exit(1)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
@pytest.mark.parametrize("when", ["begin", "charge"])
def test_a_full_disk_gets_a_sentence(path: Path, when: str) -> None:
    if when == "charge":
        Ledger.open(path, total=1)
    done = subprocess.run([sys.executable, "-c", FULL_DISK, path, when], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Check that the disk has room" in done.stdout
    if when == "charge":
        assert Ledger.open(path).entries() == []
    else:
        assert list(path.parent.iterdir()) == []


# ── many processes, and their deaths ────────────────────────────────────────────────────────────────────────────────

PREAMBLE = """
import pathlib, sys, time
from fractions import Fraction
from heathaze.errors import BudgetExceeded
from heathaze.privacy.events import (DiscreteLaplace)
from heathaze.privacy.guarantee import Guarantee
from heathaze.privacy.ledger import Ledger
from heathaze.privacy.loss import PrivacyLoss
from heathaze.privacy.guarantee import Unit

path = pathlib.Path(sys.argv[1])

def pay(ledger, amount):
    return ledger.charge(Guarantee(PrivacyLoss(amount), Unit.PERSON), DiscreteLaplace(1, 1 / amount))
"""

RACER = (
    PREAMBLE
    + """
print("ready", flush=True)
while not (path.parent / "go").exists():
    time.sleep(0.001)
try:
    pay(Ledger.open(path, total=2), Fraction(1))
    sys.exit(0)
except BudgetExceeded:
    sys.exit(7)
"""
)


def _start(script: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", script, *map(str, arguments)], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(("spent", "winners"), [(1, 1), (0, 2)], ids=["for the last unit", "to begin the ledger"])
def test_eight_processes_race(path: Path, spent: int, winners: int) -> None:
    if spent:
        pay(Ledger.open(path, total=2), spent)
    racers = [_start(RACER, path) for _ in range(8)]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    (path.parent / "go").touch()
    for racer in racers:
        racer.communicate(timeout=60)
    assert sorted(racer.returncode for racer in racers) == [0] * winners + [7] * (8 - winners)
    assert Ledger.open(path).remaining == 0
    assert {file.name for file in path.parent.iterdir()} == {path.name, "go"}


SLEEPER = (
    PREAMBLE
    + """
from heathaze.domain.grid import Grid
from heathaze.central import Flat
from heathaze.publishing import publish
from heathaze.testing import neighbouring_counts

class Slow(Flat):
    def run(self, counts, randomness):
        print("paid", flush=True)
        time.sleep(600)

grid = Grid.plane(x=(0, 1), y=(0, 1), size=2)
publish(Slow(grid, 1), neighbouring_counts(grid)[0].second, ledger=Ledger.open(path))
"""
)


def test_a_process_killed_between_charge_and_run_leaves_the_charge(path: Path) -> None:
    ledger = Ledger.open(path, total=2)
    sleeper = _start(SLEEPER, path)
    assert sleeper.stdout is not None
    assert sleeper.stdout.readline() == "paid\n"
    sleeper.kill()
    sleeper.communicate()
    assert ledger.spent == 1
    with pytest.raises(BudgetExceeded):
        pay(ledger, 1.5)


SPENDER = (
    PREAMBLE
    + """
ledger = Ledger.open(path)
print(0, flush=True)
while True:
    print(pay(ledger, Fraction(1, 1000)).number, flush=True)
"""
)


@pytest.mark.filterwarnings("ignore::heathaze.errors.WeakPrivacy")
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_a_process_killed_at_any_moment_leaves_a_whole_ledger(path: Path) -> None:
    ledger = Ledger.open(path, total=1000)
    moments = random.Random(1)
    for _ in range(5):
        before = len(ledger.entries())
        spender = _start(SPENDER, path)
        assert spender.stdout is not None
        assert spender.stdout.readline() == "0\n"
        time.sleep(moments.uniform(0.005, 0.2))
        os.kill(spender.pid, signal.SIGKILL)
        numbers = [int(line) for line in spender.communicate()[0].split()]
        after = len(ledger.entries())  # verifies the whole chain
        # Every charge that was acknowledged is there; at most one more was on its way.
        assert after in (max([before, *numbers]), max([before, *numbers]) + 1)
    assert ledger.spent == Fraction(len(ledger.entries()), 1000)
    assert ledger.entries()


def test_the_first_charge_fixes_how_far_sources_may_move(path: Path) -> None:
    ledger = Ledger.open(path, total=3, delta=1e-5)

    def moved(reach: str) -> Guarantee:
        loss = PrivacyLoss(Fraction(1), Fraction(1, 10**5))
        return Guarantee(loss, Unit.SOURCE, Adjacency.EARTH_MOVER, Trust.SENSORS, reach=reach)

    event = FineGaussian(2**19, 2**21, 50)
    ledger.charge(moved("0.5 metres"), event)
    with pytest.raises(LedgerMismatch, match=r"counts in reach '0.5 metres', and this charge is in reach '1 metre'"):
        ledger.charge(moved("1 metre"), event)
    ledger.charge(moved("0.5 metres"), event)
    # Two releases cost less than twice one: Gaussian noise composes by the square.
    assert ledger.spent == compose([event, event], Fraction(1, 10**5)).epsilon < 2
