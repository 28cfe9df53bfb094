"""``heathaze market``: a purchase on a made-up market, and every refusal before anything is paid or written."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from PIL import Image

from heathaze.cli import marketplace, marketplace_report
from heathaze.datasets.owners import market
from heathaze.marketplace.study import Study
from heathaze.privacy.events import DiscreteLaplace
from heathaze.privacy.guarantee import Guarantee, Unit
from heathaze.privacy.ledger import Ledger
from heathaze.privacy.loss import PrivacyLoss
from tests.cli.conftest import Heathaze, Said

OWNERS = ("coast.parquet", "hills.parquet", "new_suburbs.parquet")
BUY = ("market", "--target", "town.parquet", "--owners", *OWNERS, "--study", "study.toml", "--points", 60)
PRICE = ("--epsilon", 4, "--delta", "1e-6")


def _write(path: str, table: dict[str, Any]) -> None:
    with duckdb.connect() as connection:
        connection.register("made", table)
        connection.sql("select * from made").write_parquet(path)


def _read(path: str) -> list[dict[str, Any]]:
    found = duckdb.sql(f"select * from '{path}'")
    return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]


def _query(text: str, path: str) -> None:
    """Rewrite a file by a query on itself."""
    duckdb.sql(f"create or replace temp table kept as {text.format(path=path)}")
    duckdb.sql(f"copy kept to '{path}' (format parquet)")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small market."""
    folder = tmp_path_factory.mktemp("market")
    made = market(5, target=150, each=300)
    _write(f"{folder}/town.parquet", made.target)
    for owner in OWNERS:
        _write(f"{folder}/{owner}", made.owners[owner.removesuffix(".parquet")])
    Study.of(made.columns, frequencies=30, seed=7).write(folder / "study.toml")
    return folder


@pytest.fixture
def town(heathaze: Heathaze, files: Path) -> Heathaze:
    """The market in the current folder."""
    shutil.copytree(files, Path(), dirs_exist_ok=True)
    return heathaze


def _fine(said: Said) -> Said:
    assert said.code == 0, said.err
    return said


# ── what a purchase is ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_purchase(town: Heathaze) -> None:
    said = _fine(town(*BUY, *PRICE, "--out", "chosen.parquet", "--report", "report.json", "--picture", "purchase.png"))
    before, after = said.out.split("\nowner")
    assert "The noise of the target's mean hash is 1" in before
    assert "% of the greatest possible signal (above 100 % a purchase is refused)" in before
    assert "To each record of the target: ε = 4, δ = 1e-06 differential privacy · unit: record" in before
    assert "To each record of an owner: ε = 4" in before
    assert "To each record of the target: If any one record is replaced by another, the chance of" in after
    assert "Whether any one record is in the data changes the chance of any messages to the other owners" in after
    assert "parsimony 2.00" in said.out
    assert "Not private: for the consumer" in said.out
    assert "--ledger-owners" in said.err
    chosen = _read("chosen.parquet")
    assert len(chosen) == 60
    assert list(chosen[0])[-3:] == ["kwh", "owner", "row"]
    sources = {owner.removesuffix(".parquet"): _read(owner) for owner in OWNERS}
    for row in chosen:
        source = sources[row["owner"]][row["row"]]
        assert source == {name: row[name] for name in source}
    assert len({(row["owner"], row["row"]) for row in chosen}) == 60
    report = json.loads(Path("report.json").read_text())
    assert report["private"] is False
    assert [row["owner"] for row in report["owners"]] == ["coast", "hills", "new_suburbs"]
    assert sum(row["chosen"] for row in report["owners"]) == report["points"] == 60
    assert report["seen"] == sum(row["offered"] for row in report["owners"]) == 120
    assert report["mmd_squared"]["this purchase"] < 0.3 * report["mmd_squared"]["uniform"]
    assert set(report["mmd_squared"]) == {"this purchase", "greedy, not private", "uniform", "most like the target"}
    assert report["guarantees"]["target"]["adjacency"] == "replace-one"
    assert report["guarantees"]["owners"]["epsilon"] == "4"
    with Image.open("purchase.png") as picture:
        assert min(picture.size) > 400
    assert [path.name for path in Path().iterdir() if path.name.startswith(".")] == []


def test_what_is_told_before_anything_happens_holds_no_data(town: Heathaze, monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise-to-signal ratio and the promises follow from public numbers: other rows, same words."""
    words = []
    for seed in (1, 2):
        _write("hills.parquet", market(seed, target=1, each=200 + seed).owners["hills"])
        words.append(_fine(town(*BUY, *PRICE, "--overwrite")).out.split("\nowner")[0])
    assert words[0] == words[1]


@pytest.mark.parametrize(
    "owners",
    [
        ("--owners", *OWNERS),
        ("--owners", OWNERS[0], "--owners", OWNERS[1], "--owners", OWNERS[2]),
        (f"--owners={OWNERS[0]}", *OWNERS[1:]),
        ("--owners", OWNERS[0], OWNERS[1], "--owners", OWNERS[2]),
    ],
    ids=["as the manual has it", "repeated", "with a sign", "mixed"],
)
def test_owners_may_be_listed_in_every_way(town: Heathaze, owners: tuple[str, ...]) -> None:
    said = _fine(town("market", *owners, "--target", "town.parquet", "--points", 20, *PRICE, "--json"))
    report = json.loads(said.out)
    assert [row["owner"] for row in report["owners"]] == ["coast", "hills", "new_suburbs"]
    assert report["written"] == ["chosen.parquet"]
    assert set(report["mmd_squared"]) == {"this purchase"}
    assert said.err == ""


def test_quiet_says_nothing(town: Heathaze) -> None:
    said = town(*BUY, *PRICE, "--quiet")
    assert (said.code, said.out, said.err) == (0, "", "")
    assert Path("chosen.parquet").exists()


def test_distances_may_be_measured_from_rows_that_took_no_part(town: Heathaze) -> None:
    _write("more.parquet", market(6, target=300, each=1).target)
    report = json.loads(_fine(town(*BUY, *PRICE, "--check", "more.parquet", "--json")).out)
    assert report["mmd_against"] == "rows like the target that took no part"
    assert report["mmd_squared"]["this purchase"] < 0.7 * report["mmd_squared"]["uniform"]


def test_private_greedy(town: Heathaze) -> None:
    said = _fine(town(*BUY, "--epsilon", 8, "--private-greedy", "--json"))
    report = json.loads(said.out)
    share = 100 * max(report["noise_to_signal"])
    assert f"The noise of private greedy is up to {share:.0f} % of the greatest possible signal" in said.err
    assert "herding, the default, needs less: leave out --private-greedy" in said.err
    assert report["plan"]["protocol"] == "private-greedy"
    assert report["points"] == 60
    assert len(_read("chosen.parquet")) == 60


@pytest.mark.parametrize(
    ("protocol", "instead"), [("private-greedy", "leave out --private-greedy"), ("herding", "take a larger epsilon")]
)
def test_a_purchase_that_is_no_better_than_chance_is_called_that(
    capsys: pytest.CaptureFixture[str], protocol: str, instead: str
) -> None:
    report = {
        "plan": {"protocol": protocol},
        "mmd_against": "the target",
        "mmd_squared": {"this purchase": 0.2, "uniform": 0.3},
    }
    marketplace_report.warn_of_chance(report)
    marketplace_report.warn_of_chance(report | {"mmd_squared": {"this purchase": 0.4}})
    assert capsys.readouterr().err == ""
    marketplace_report.warn_of_chance(report | {"mmd_squared": {"this purchase": 0.4, "uniform": 0.3}})
    said = capsys.readouterr().err.replace("\n", " ")
    assert "farther from the target than rows taken at random" in said
    assert instead in said


def test_of_thousands_of_steps_a_dozen_are_shown() -> None:
    shown: list[str] = []
    say = marketplace._now_and_then(shown.append, 2000)
    for step in range(2000):
        say(f"Step {step}")
    assert 10 <= len(shown) <= 14
    say = marketplace._now_and_then(shown.append, 2)
    say("The target is hashed")
    assert shown[-1] == "The target is hashed"


def test_csv_in_and_out(town: Heathaze) -> None:
    for name in ("town", "hills"):
        duckdb.sql(f"copy (select * from '{name}.parquet') to '{name}.csv' (header, delimiter ';')")
    words = ("market", "--target", "town.csv", "--owners", "hills.csv", "coast.parquet", "--points", 20)
    report = json.loads(_fine(town(*words, *PRICE, "--out", "chosen.csv", "--json")).out)
    assert [row["owner"] for row in report["owners"]] == ["hills", "coast"]
    chosen = _read("chosen.csv")
    assert {row["owner"] for row in chosen} <= {"hills", "coast"}
    hills = _read("hills.parquet")
    assert all(hills[row["row"]]["kwh"] == row["kwh"] for row in chosen if row["owner"] == "hills")


def test_owners_with_one_name_are_told_apart_by_their_folders(town: Heathaze) -> None:
    for folder, owner in (("a", "hills.parquet"), ("b", "coast.parquet")):
        Path(folder).mkdir()
        Path(owner).rename(f"{folder}/rows.parquet")
    words = ("market", "--target", "town.parquet", "--owners", "a/rows.parquet", "b/rows.parquet")
    report = json.loads(_fine(town(*words, "--points", 20, *PRICE, "--json")).out)
    assert [row["owner"] for row in report["owners"]] == [str(Path("a/rows")), str(Path("b/rows"))]


# ── budgets ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_ledgers_are_charged_once_and_then_refuse(town: Heathaze) -> None:
    names = ("t.ledger", "a.ledger", "b.ledger", "c.ledger")
    for name in names:
        Ledger.open(name, total=5, delta=1e-6)
    ledgers = ("--ledger-target", names[0], "--ledger-owners", *names[1:])
    said = _fine(town(*BUY, *PRICE, *ledgers))
    assert "ledger" not in said.err
    assert all(3.9 < float(Ledger.open(name).spent) <= 4 for name in names)
    again = town(*BUY, *PRICE, *ledgers, "--out", "again.parquet")
    assert again.code == 1
    assert not Path("again.parquet").exists()
    assert all(float(Ledger.open(name).spent) <= 4 for name in names)


@pytest.mark.parametrize("poor", ["t.ledger", "b.ledger", "c.ledger"])
@pytest.mark.parametrize(
    ("total", "delta", "words"),
    [
        (1, 1e-6, "ledger {poor} has ε = 1 left of 1"),
        (9, 0, "ledger {poor} allows δ = 0"),
        (9, 1e-6, "in unit 'visit'"),
    ],
    ids=["too little", "no delta", "of visits"],
)
def test_if_one_cannot_pay_nobody_is_charged(town: Heathaze, poor: str, total: float, delta: float, words: str) -> None:
    owner = {"t.ledger": "The target", "b.ledger": "The owner hills", "c.ledger": "The owner new_suburbs"}[poor]
    names = ("t.ledger", "a.ledger", "b.ledger", "c.ledger")
    ledgers = [Ledger.open(name, **({"total": 9, "delta": 1e-6} | _only(name == poor, total, delta))) for name in names]
    if "visit" in words:
        broke = ledgers[names.index(poor)]
        broke.charge(Guarantee(PrivacyLoss(Fraction(1, 8)), Unit.VISIT), DiscreteLaplace(1, Fraction(8)))
    before = [ledger.entries() for ledger in ledgers]
    said = town(*BUY, *PRICE, "--ledger-target", names[0], "--ledger-owners", *names[1:])
    assert said.code == 1
    assert f"{owner} cannot pay, so no ledger was charged" in said.err
    assert words.format(poor=poor) in said.err
    assert "ublish" not in said.err
    assert [ledger.entries() for ledger in ledgers] == before
    assert not Path("chosen.parquet").exists()


def _only(this: bool, total: float, delta: float) -> dict[str, float]:
    return {"total": total, "delta": delta} if this else {}


@pytest.mark.parametrize(
    "ledgers",
    [
        ("--ledger-owners", "a.ledger", "b.ledger", "a.ledger"),
        ("--ledger-owners", "a.ledger", "./a.ledger", "b.ledger"),
        ("--ledger-owners", "a.ledger", "b.ledger", "link.ledger"),
        ("--ledger-target", "a.ledger", "--ledger-owners", "a.ledger", "b.ledger", "c.ledger"),
    ],
)
def test_one_ledger_for_two_is_refused(town: Heathaze, ledgers: tuple[str, ...]) -> None:
    opened = [Ledger.open(name, total=9, delta=1e-6) for name in ("a.ledger", "b.ledger", "c.ledger")]
    Path("link.ledger").symlink_to("a.ledger")
    said = town(*BUY, *PRICE, *ledgers)
    sentence = "a.ledger is named twice; give a separate ledger for the target and for each owner."
    assert (said.code, sentence in said.err) == (1, True)
    assert [ledger.entries() for ledger in opened] == [[], [], []]


# ── a study first ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_a_study_its_skeleton_is_shown_and_nothing_of_the_data(town: Heathaze) -> None:
    Path("study.toml").unlink()
    words = [word for word in BUY if word not in ("--study", "study.toml")]
    said = town(*words, *PRICE)
    assert said.code == 1
    assert "A purchase needs a study file, --study study.toml" in said.err
    assert "area = []   # number" in said.err
    assert "heating = []   # text" in said.err
    assert "heat pump" not in said.err
    assert not Path("chosen.parquet").exists()


def test_a_skeleton_is_written_filled_in_and_used(town: Heathaze) -> None:
    said = _fine(town("market", "--target", "town.parquet", "--write-study", "mine.toml"))
    assert "wrote mine.toml" in said.out
    refused = town(*BUY, *PRICE, "--study", "mine.toml")
    assert (refused.code, "'area' has neither a range nor levels yet" in refused.err) == (1, True)
    lines = Path("mine.toml").read_text().splitlines()
    filled = {"area": "[20, 240]", "heating": '["gas", "oil", "heat pump", "district"]'}
    kept = [
        line.replace("[]", filled.get(line.split(" ")[0], "[]"))
        for line in lines
        if "[]" not in line or line.split(" ")[0] in filled
    ]
    Path("mine.toml").write_text("\n".join(kept))
    _fine(town(*BUY, *PRICE, "--study", "mine.toml"))
    again = town("market", "--target", "town.parquet", "--write-study", "mine.toml")
    assert (again.code, "mine.toml exists already" in again.err) == (1, True)


def test_a_study_that_does_not_fit_is_noticed(town: Heathaze) -> None:
    text = Path("study.toml").read_text().replace('"oil", "heat pump"', '"Oil", "Heat pump"')
    Path("typo.toml").write_text(text.replace("area = [20, 240]", "area = [200, 2400]"))
    _query("select * replace (if(row_number() over () <= 80, null, built) as built) from '{path}'", "town.parquet")
    words = ("--study", "typo.toml")
    said = _fine(town(*BUY, *PRICE, *words))
    lines = [line for line in said.err.splitlines() if "check the study" in line]
    assert len(lines) == 8
    assert any(
        line.startswith("town.parquet: in the column 'built'") and "53.3 % are missing" in line for line in lines
    )
    assert sum("'heating'" in line for line in lines) == 3  # half of the homes on the coast have gas
    assert not any("'tenure'" in line or "'winter'" in line for line in lines)
    assert "check the study" not in town(*BUY, *PRICE, "--overwrite", "--quiet", *words).err
    assert "heating" not in said.out


def test_files_may_be_checked_against_the_study_alone(town: Heathaze) -> None:
    duckdb.sql("copy (select * replace (null as built) from 'hills.parquet' limit 10) to 'nobuilt.parquet'")
    Path("typo.toml").write_text(Path("study.toml").read_text().replace('"rented"', '"to let"'))
    asked = ("market", "--check-study", "--study", "typo.toml", "--owners", "nobuilt.parquet")
    said = _fine(town(*asked))
    assert "for the holder of the file" in said.out
    built = next(line for line in said.out.splitlines() if " built " in line)
    assert built.split() == ["nobuilt.parquet", "built", "0.0", "%", "100.0", "%"]
    report = json.loads(_fine(town(*asked, "--target", "town.parquet", "--json")).out)
    rows = {(row["file"], row["column"]): row for row in report["columns"]}
    assert len(rows) == 12
    rented = np.mean([row["tenure"] == "rented" for row in _read("town.parquet")])
    assert rows["town.parquet", "tenure"]["outside"] == pytest.approx(rented)
    assert rows["nobuilt.parquet", "built"]["missing"] == 1
    assert not Path("chosen.parquet").exists()
    nothing = town("market", "--check-study")
    assert (nothing.code, "Say what to check" in nothing.err) == (1, True)


def test_the_example_says_what_to_do_with_it(heathaze: Heathaze) -> None:
    said = _fine(heathaze("market", "--example", "market"))
    command = Path("market/README.txt").read_text().splitlines()[-1]
    assert command in said.out
    names = {path.name for path in Path("market").iterdir()}
    assert {word for word in command.split() if word.endswith((".parquet", ".toml"))} - {"chosen.parquet"} <= names
    again = heathaze("market", "--example", "market")
    assert (again.code, "market exists already; name a new folder" in again.err) == (1, True)


# ── bad input ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--epsilon", 0), "epsilon is 0"),
        (("--epsilon", -1), "epsilon is -1"),
        (("--epsilon", "nan"), "epsilon is not a number"),
        (("--epsilon", 0.1), "take at least"),
        (("--delta", 0), "delta is 0"),
        (("--points", 0), "points is 0"),
        (("--seen", 0.5), "seen is 0.5"),
        (("--private-greedy", "--seen", 2), "--seen and --private-greedy exclude each other"),
        (("--target", "none.parquet"), "There is no file none.parquet"),
        (("--owners", "none.parquet"), "There is no file none.parquet"),
        (("--owners", "hills.parquet"), "hills.parquet is given twice as an owner"),
        (("--owners", "./hills.parquet"), "hills.parquet is given twice as an owner"),
        (("--owners", "town.parquet"), "town.parquet is the target and an owner at once"),
        (("--owners", "study.toml"), "an unknown file type"),
        (("--study", "none.toml"), "Cannot read none.toml: no such file"),
        (("--check", "none.parquet"), "There is no file none.parquet"),
        (("--out", "chosen.xlsx"), "Unknown file type .xlsx; bought rows are written as .parquet or .csv"),
        (("--out", "nowhere/chosen.parquet"), "there is no directory nowhere"),
        (("--out", "hills.parquet", "--overwrite"), "is also an input file"),
        (("--out", "old.parquet"), "old.parquet exists already; choose another name, or add --overwrite"),
        (("--report", "report.txt"), "Unknown file type .txt; a report is written as .json"),
        (("--report", "nowhere/report.json"), "there is no directory nowhere"),
        (("--picture", "purchase.jpg"), "Unknown picture type .jpg; expected .png"),
        (("--ledger-target", "none.ledger"), "There is no ledger none.ledger"),
        (("--ledger-owners", "t.ledger"), "3 owners and 1 ledgers"),
    ],
)
def test_refused_in_a_sentence_and_nothing_written_or_paid(
    town: Heathaze, words: tuple[object, ...], sentence: str
) -> None:
    Path("old.parquet").write_text("old")
    Ledger.open("t.ledger", total=9, delta=1e-6)
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    paid = () if "--ledger-target" in words else ("--ledger-target", "t.ledger")
    said = town(*BUY, *PRICE, *paid, *words)
    assert said.code == 1, said.out
    assert sentence in said.err
    assert said.err.count("heathaze:") == 1
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


def test_what_is_missing_is_asked_for(town: Heathaze) -> None:
    assert "--target FILE; or --example FOLDER" in town("market", "--points", 3).err
    said = town("market", "--target", "town.parquet", "--points", 3, "--epsilon", 1)
    assert (said.code, said.err) == (1, "heathaze: Say from whom to buy: --owners FILE FILE.\n")
    said = town("market", "--target", "town.parquet", "--owners", "hills.parquet")
    assert said.err == "heathaze: Say how many rows to buy: --points 500, and at which privacy loss: --epsilon 2.\n"
    assert "--write-study" in town("market", "--target", "town.parquet").err


def test_a_target_of_three_rows_is_refused_with_what_would_do(town: Heathaze) -> None:
    _query("select * from '{path}' limit 3", "town.parquet")
    said = town(*BUY, "--epsilon", 2)
    assert said.code == 1
    assert "over 3 points of the target" in said.err
    assert "take at least" in said.err
    assert "or epsilon" in said.err
    assert not Path("chosen.parquet").exists()


def test_a_target_without_rows(town: Heathaze) -> None:
    _query("select * from '{path}' limit 0", "town.parquet")
    said = town(*BUY, *PRICE)
    assert (said.code, "town.parquet has no rows; there is nothing to match" in said.err) == (1, True)


def test_an_owner_without_a_column_is_named(town: Heathaze) -> None:
    _query("select * exclude (winter, heating) from '{path}'", "hills.parquet")
    said = town(*BUY, *PRICE)
    assert (said.code, "hills.parquet has no column 'winter', 'heating'" in said.err) == (1, True)
    assert not Path("chosen.parquet").exists()


def test_an_owner_with_text_where_numbers_belong(town: Heathaze) -> None:
    _query("select * replace ('secret' as winter) from '{path}'", "hills.parquet")
    said = town(*BUY, *PRICE)
    assert (said.code, "'winter' of hills.parquet holds text" in said.err, "secret" in said.err) == (1, True, False)


def test_an_empty_owner_is_noted_and_the_rest_is_bought(town: Heathaze) -> None:
    _query("select * from '{path}' limit 0", "coast.parquet")
    said = _fine(town(*BUY, *PRICE, "--picture", "p.png"))
    assert "coast has no records" in said.err
    assert len(_read("chosen.parquet")) == 60


def test_nobody_has_anything(town: Heathaze) -> None:
    for owner in OWNERS:
        _query("select * from '{path}' limit 0", owner)
    said = town(*BUY, *PRICE)
    assert (said.code, "Nothing was bought" in said.err) == (1, True)
    assert not Path("chosen.parquet").exists()


def test_values_outside_of_the_ranges_are_no_trouble_and_come_back_as_they_were(town: Heathaze) -> None:
    _query("select * replace (area * 1e6 as area, null as built, 'peat' as heating) from '{path}'", "hills.parquet")
    said = _fine(town("market", "--target", "town.parquet", "--owners", "hills.parquet", "--points", 40, *PRICE))
    assert "of the values do not fit the study" in said.err
    assert all(row["area"] > 240 and row["heating"] == "peat" for row in _read("chosen.parquet"))


def test_more_points_than_all_owners_hold(town: Heathaze) -> None:
    said = _fine(town(*BUY, *PRICE, "--points", 5000))
    assert "of 5000 points could be bought" in said.err
    assert 0 < len(_read("chosen.parquet")) <= 900


def test_a_file_that_is_damaged(town: Heathaze) -> None:
    Path("hills.parquet").write_bytes(Path("hills.parquet").read_bytes()[:-100])
    said = town(*BUY, *PRICE)
    assert (said.code, "hills.parquet cannot be read" in said.err) == (1, True)


def test_what_was_paid_for_is_kept_when_a_later_step_fails(town: Heathaze, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(marketplace, "draw", fail)
    before = sorted(path.name for path in Path().iterdir())
    said = town(*BUY, *PRICE, "--report", "r.json", "--picture", "p.png")
    assert (said.code, "no space left on device" in said.err) == (1, True)
    assert "The bought rows are in chosen.parquet" in said.err
    assert sorted(path.name for path in Path().iterdir()) == sorted([*before, "chosen.parquet"])
    assert len(_read("chosen.parquet")) == 60


def test_nothing_is_left_behind_when_the_rows_cannot_be_written(
    town: Heathaze, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("heathaze.ingest.tables.Tables.write", fail)
    before = sorted(path.name for path in Path().iterdir())
    said = town(*BUY, *PRICE, "--report", "r.json")
    assert (said.code, "no space left on device" in said.err) == (1, True)
    assert sorted(path.name for path in Path().iterdir()) == before


def test_files_may_be_replaced_on_request_and_have_usual_rights(town: Heathaze) -> None:
    Path("chosen.parquet").write_text("old")
    rights = Path("chosen.parquet").stat().st_mode
    _fine(town(*BUY, *PRICE, "--overwrite"))
    assert len(_read("chosen.parquet")) == 60
    assert Path("chosen.parquet").stat().st_mode == rights


def test_the_promise_costs_what_it_says(town: Heathaze) -> None:
    """More privacy, more noise: the ratio that is printed follows epsilon."""
    ratios = [
        json.loads(_fine(town(*BUY, "--epsilon", epsilon, "--json", "--overwrite")).out)["noise_to_signal"][0]
        for epsilon in (2, 4, 8)
    ]
    assert np.all(np.diff(ratios) < 0)


def test_owners_whose_files_differ_in_the_ending_alone_are_two() -> None:
    paths = [Path("d/x.csv"), Path("d/x.parquet"), Path("y.csv")]
    assert marketplace._names(paths, Path("t.csv")) == {str(path): path for path in paths}
    assert set(marketplace._names(paths[1:], Path("t.csv"))) == {"x", "y"}
    assert set(marketplace._names([Path("a/x.csv"), Path("b/x.csv")], Path("t.csv"))) == {"a/x", "b/x"}


def test_who_stops_a_purchase_is_told_of_the_ledgers(town: Heathaze, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("heathaze.marketplace.buy", stop)
    said = town(*BUY, *PRICE)
    assert (said.code, "budgets may have been charged" in said.err) == (130, True)
    assert not Path("chosen.parquet").exists()
