"""The wheel, built and installed into a bare environment, publishes a map there."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import heathaze as hz

grid: hz.Grid = hz.Grid.over(lon=(-74.10, -73.78), lat=(40.58, 40.90), size=256)
counts: hz.Counts = hz.count("visits.parquet", grid, person="user_id", at_most=20)
ledger: hz.Ledger = hz.Ledger.open("visits.ledger", total=2.0)
release: hz.Release = hz.publish(hz.central.default(grid, epsilon=1.0), counts, ledger=ledger)
pyramid = hz.central.Pyramid(grid, epsilon="1/2", w=20)
disk = hz.local.DiskArea(grid, 3.5)
reveal_type(release.guarantee)
reveal_type(pyramid.w)
"""
"""A user's script; mypy must know every name in it, and the types of what it asks about."""

WRONG = """
import heathaze as hz

hz.Grid.over(lon=(-74.10, -73.78), lat=40.58, size=256)
hz.publsh
hz.central.Pyramid(w=20)
"""
"""Three mistakes; mypy must find each of them."""


def test_the_wheel_works_in_a_bare_environment(tmp_path: Path, capfd: object) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "COV"))}

    def do(*command: object) -> str:
        done = subprocess.run(
            list(map(str, command)), cwd=tmp_path, env=clean, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    do(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path / "dist", ROOT)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    venv.create(tmp_path / "bare", with_pip=False)
    python = tmp_path / "bare" / "bin" / "python"
    uv = Path(sys.executable).parent / "uv"
    do(uv, "pip", "install", "--python", python, "--constraint", ROOT / "constraints.txt", wheel)
    rows = [f"p{i % 50},{-73.95 + 0.0001 * i:.5f},{40.75 + 0.0001 * (i % 7):.5f}" for i in range(400)]
    (tmp_path / "visits.csv").write_text("user_id,lon,lat\n" + "\n".join(rows) + "\n", encoding="utf-8")
    command = tmp_path / "bare" / "bin" / "heathaze"
    box = ("--lon", "-74.10", "-73.78", "--lat", "40.58", "40.90")
    outs = ("--out", "nyc.html", "--out", "nyc.npz", "--out", "nyc.png", "--out", "nyc.parquet", "--out", "nyc.geojson")
    said = do(command, "publish", "visits.csv", *box, "--person", "user_id", "--epsilon", "1", *outs)
    assert "ε = 1" in said
    assert (tmp_path / "nyc.html").stat().st_size > 10_000
    assert "AdaptiveTree" in do(command, "show", "nyc.npz")
    assert "Theorem" in do(command, "mechanisms", "pyramid")
    # The wheel carries its types: mypy in this environment, on the packages of the bare one.
    assert next((tmp_path / "bare").glob("lib/python*/site-packages/heathaze/py.typed")).is_file()
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "wrong.py").write_text(WRONG, encoding="utf-8")
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "--cache-dir", tmp_path / "cache")
    done = subprocess.run(
        list(map(str, (*mypy, "script.py", "wrong.py"))), cwd=tmp_path, env=clean, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    said = [line for line in done.stdout.splitlines() if line.startswith("script.py")]
    assert [line.partition("note: Revealed type is ")[2] for line in said] == [
        '"heathaze.privacy.guarantee.Guarantee"',
        '"int"',
    ], done.stdout + done.stderr
    wrong = [line for line in done.stdout.splitlines() if line.startswith("wrong.py") and ": error:" in line]
    assert {int(line.split(":")[1]) for line in wrong} == {4, 5, 6}, done.stdout
