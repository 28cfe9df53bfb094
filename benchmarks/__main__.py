"""``python -m benchmarks`` runs every benchmark. Most print ratios, because times vary between machines."""

import sys

from benchmarks import (
    basis_pursuit,
    emd,
    inference,
    ingest,
    journeys,
    journeys_quality,
    local_journeys,
    local_model,
    marketplace,
    noise,
    page,
    resolution,
    secure_sum,
    sensors,
    shuffle,
    squares,
    startup,
    survey,
    tree_fit,
    whole_job,
)

EVERY = (
    startup, page, squares, noise, tree_fit, emd, inference, resolution, local_model, secure_sum, survey, shuffle,
    basis_pursuit, sensors, marketplace, ingest, journeys, journeys_quality, local_journeys, whole_job,
)  # fmt: skip

# The processes that a benchmark starts import this file too, and must not start the benchmarks again.
if __name__ == "__main__":
    missed = []
    for benchmark in EVERY:
        print(f"── {benchmark.__name__}: {(benchmark.__doc__ or '').splitlines()[0]}")
        if benchmark.main():  # the number of goals that were missed, where a benchmark counts them
            missed.append(benchmark.__name__.removeprefix("benchmarks."))
        print()
    if missed:
        sys.exit(f"Goals were missed in {', '.join(missed)}.")
