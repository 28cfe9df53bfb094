"""The paper's claims hold on a quick run, and a run in which they do not says so."""

import itertools
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from tests.papers.quick_run import PAPERS, check_quick_run, quick_run, replaced_config, shown_pictures, times

PAPER = PAPERS / "central_heatmaps"


def run(*arguments, **environment):
    return quick_run(PAPER / "run.py", *arguments, **environment)


def test_quick_run_finds_every_claim_to_hold():
    # Figure 1 four times, figure 2 twice, appendix E.3 three times, the appendices, expected.json; three more where the
    # real data is.
    check_quick_run(
        PAPER / "run.py",
        30,
        (
            "fig. 1, synthetic", "fig. 2, synthetic", "fig. 4, synthetic", "fig. 5, synthetic", "fig. 6, synthetic",
            "fig. 7, synthetic", "fig. 8, made-up gaze", "fig. 10", "fig. 11", "fig. 12", "fig. 13, made-up gaze",
            "A.1", "A.2", "B.1", "B.3", "B.5", "C.1", "repeats expected.json",
        ),
    )  # fmt: skip


@pytest.fixture
def swapped(tmp_path):
    """The flat baseline under the pyramid's name and the other way round, on very few runs."""
    changes = (
        ('pyramid = { mechanism = "Pyramid" }', 'pyramid = { mechanism = "Flat" }'),
        ('\nflat = { mechanism = "FlatTop", share = 1 }', '\nflat = { mechanism = "Pyramid" }'),
        ("runs = 6", "runs = 2"),
        ("runs = 24", "runs = 2"),
    )
    return replaced_config(PAPER, changes, tmp_path / "config.toml")


def test_a_broken_claim_fails_the_run(swapped, tmp_path):
    done = run("--config", swapped, "--only", "figure1", HEATHAZE_DATA=str(tmp_path))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "claims do not hold" in done.stderr
    assert "gowalla_nyc.parquet was not found, so the run leaves it out" in done.stdout
    first = next(line for line in done.stdout.splitlines() if line.startswith("fig. 1, synthetic: SIM"))
    assert first.endswith("NO")
    assert "least certain lead SIM -" in first


def test_what_is_committed_is_complete():
    expected = json.loads((PAPER / "expected.json").read_text(encoding="utf-8"))
    for mode in ("quick", "full"):
        assert {key.split(" | ")[0] for key in expected[mode]} >= {
            "figure1", "users", "resolution", "users_at_1", "resolution_at_1", "gaze", "rounding", "sparsity",
            "clusters", "places", "crowds", "heat",
        }  # fmt: skip
    assert len(shown_pictures(PAPER)) >= 17


def test_every_numbered_item_of_the_paper_has_a_place_that_exists():
    readme = (PAPER / "README.md").read_text(encoding="utf-8")
    table = readme.split("## Where it is in the code")[1].split("\n## ")[0]
    items = [
        *(f"Algorithm {number}" for number in (1, 2)), *(f"Figure {number}" for number in range(1, 14)),
        *(f"Definition {number}" for number in ("2.1", "2.2", "3.1", "3.2", "A.1")),
        *(f"Theorem {number}" for number in ("1.1", "3.1", "C.1", "D.1")),
        *(f"Lemma {number}" for number in ("2.1", "2.2", "3.2", "3.3", "3.4", "3.5")),
        *(f"Lemma {number}" for number in ("B.1", "B.2", "B.3", "B.4", "C.2")),
        *(f"Corollary {number}" for number in ("A.1", "A.2", "B.5", "D.2")),
        *(f"Appendix {letter}" for letter in "ABCDEF"),
    ]  # fmt: skip
    for item in items:
        assert f"| {item}" in table or f", {item}" in table, item
    for path in re.findall(r"`([a-z_/]+\.(?:py|md|toml))`", table):
        places = (PAPER / path, PAPER.parents[1] / "src/heathaze" / path, PAPER.parents[1] / path)
        assert any(place.is_file() for place in places), path


def test_mixed_shares_against_all_graphs(module_of):
    """E[q^C] over all matchings of a tiny multigraph, and the numbers of messages of errata E0-12."""
    communication = module_of("communication")
    for n, r in ((2, 3), (2, 4), (3, 3)):
        counts = [components(n, r - 1, ends) for ends in itertools.permutations(range(n * (r - 1)))]
        for q in (2, 5):
            mean = np.mean([float(q) ** (found - 1) for found in counts])
            assert communication.distance_to_uniform(n, q, r) == pytest.approx(np.sqrt(mean - 1) / 2)
    # The largest distances to uniform messages, enumerated elsewhere, lie below the bound.
    for n, q, r, exact in (
        (2, 5, 4, 0.1135),
        (3, 5, 4, 0.0786),
        (3, 3, 5, 0.0170),
        (4, 3, 4, 0.0321),
        (4, 2, 5, 0.0093),
    ):
        assert exact <= communication.distance_to_uniform(n, q, r) < 6 * exact
    m = communication.nodes((240, 320))
    assert m == 102_409
    assert communication.needed_messages(50, 5, 1e-5, m, 12_800) == 16
    assert communication.printed_messages(50, 5, 1e-5, m, 12_800) == 18
    assert communication.megabytes(16, m, 12_800) == pytest.approx(6.35, abs=0.01)


def components(n, k, ends):
    """The components of the multigraph whose i-th outgoing stub (of vertex i // k) ends at stub ``ends[i]``."""
    group = list(range(n))
    for start, end in enumerate(ends):
        one, other = group[start // k], group[end // k]
        group = [one if label == other else label for label in group]
    return len(set(group))


def test_the_packing_bound_against_a_packing_that_is_found(module_of):
    """Four places: a greedy packing of distributions has at least as many members as the volume argument says."""
    packing_bound = module_of("bounds").packing_bound
    rng = np.random.default_rng(0)
    gamma, members = 0.04, []
    for one in rng.dirichlet(np.ones(4), 4000):
        # On a 2 × 2 grid at distances of 1/2, EMD ≥ ‖p − q‖₁/4.
        if all(np.abs(one - other).sum() / 4 >= gamma for other in members):
            members.append(one)
    assert len(members) >= (4 * 2 * gamma) ** (1 - 4)
    # 4 places, ε = 1: three people moved, γ = (0.1 · e⁻³)^(1/3)/8, and half of γ · 3/n.
    assert packing_bound(1, 1000, 4) == pytest.approx((0.1 * np.exp(-3)) ** (1 / 3) / 8 * 3 / 2000)
    assert packing_bound(1, 1000, 3) == 0
    assert packing_bound(1, 10**6, 10_000) == pytest.approx(100 / (8 * np.e * 10**6), rel=0.01)
    assert packing_bound(2, 1000, 64) == pytest.approx(packing_bound(1, 2000, 64), rel=0.02)


def test_the_conjecture_is_checked_by_its_definition(module_of):
    bounds = module_of("bounds")
    cells, sigma = np.arange(12), 2.5
    weight = np.exp(-((cells[:, None] - cells) ** 2) / (2 * sigma**2))
    weight /= weight.sum(axis=1, keepdims=True)
    pairs = list(itertools.combinations(range(12), 2))
    moved = max(np.abs(np.cumsum(weight[a] - weight[b])).sum() - (b - a) for a, b in pairs)
    loss = max(
        (weight[a] * np.log(weight[a] / weight[b])).sum() - (b - a) ** 2 / (2 * sigma**2)
        for one, other in pairs
        for a, b in ((one, other), (other, one))
    )
    found = bounds.conjecture_excess(sigma, 12)
    assert max(moved, loss) < 0
    assert found == pytest.approx((0, 0), abs=1e-12)  # the largest excess is that of a cell and itself
    limits = bounds.heat_map_bounds(0.02, 0.25)
    assert limits == pytest.approx({"EMD": 0.02, "KL": 0.16, "SIM": 1 - np.sqrt(0.02) * 2})


def test_made_up_gaze_and_its_rounding(module_of, config):
    """At least 50 people an image, all in the frame; systematic rounding keeps B of each, rounding down loses some."""
    person, x, y = module_of("gaze").fixations("made-up gaze", 3, config)
    assert len(np.unique(person)) >= 50
    assert ((x >= 0) & (x < 800) & (y >= 0) & (y < 600)).all()
    one = module_of("communication").Rounded("made-up gaze", 6, 5, 50, 320, 1 / 64, 0, 16)
    protocol = module_of("protocol")
    visits = protocol.visits_of(protocol.Trial("made-up gaze", 6, 1, 50, 320, 0, 0, ()), config)
    grid = visits.grid(320)
    assert grid.shape == (240, 320)
    whole, less = (one._rounded(visits, grid, 1, name).dense() for name in ("systematic", "rounded down"))
    assert whole.sum() == 16 * 50
    assert 0 < less.sum() < whole.sum()


def test_the_default_is_ahead_of_its_rivals_on_a_quick_run():
    """Exit code 0: no row behind beyond sampling error, and the earth mover's distance a tenth below the best peer."""
    before = times(PAPER)
    done = subprocess.run(
        [sys.executable, str(PAPER / "better.py"), "--quick"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pairs = [pair.split(", ") for pair in done.stdout.splitlines()[-1].split(":")[1].split("  ") if pair.strip()]
    shares, widths = [float(share) for share, _ in pairs], [float(width) for _, width in pairs]
    assert len(shares) == 6
    assert min(shares[1:]) >= 0.82
    assert 0 < min(widths) < max(widths) < 1e4
    assert times(PAPER) == before, "a quick run writes nothing"


@pytest.mark.slow
def test_the_price_of_trust_on_few_people():
    done = quick_run(PAPER / "trust.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "decoys make a better map" in done.stdout


def test_the_committed_price_of_trust_keeps_its_claims_and_is_what_the_readmes_show(module_of, config):
    from PIL import Image

    trust = module_of("trust")
    found = json.loads((PAPER / "trust.json").read_text(encoding="utf-8"))
    claims = trust.all_claims(found, config)
    assert len(claims) == 12
    assert not [claim.text for claim in claims if claim.fails]
    readme = (PAPER / "README.md").read_text(encoding="utf-8")
    assert trust.with_tables(readme, found["gowalla"], claims) == readme
    # The picture of the README was drawn from the same numbers.
    shown = json.loads(Image.open(PAPER.parents[1] / "docs" / "trust.png").text["Description"])
    assert [(row[0], row[1], row[4]) for row in shown] == [
        (model, f"{one['emd']:.4f}", f"{one['sent']:,.0f}") for model, one in found["city"].items()
    ]
    found["gowalla"]["decoys, 10,000 people"]["emd"] *= 2
    assert sum(claim.fails for claim in trust.all_claims(found, config)) == 1
