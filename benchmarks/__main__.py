"""``python -m benchmarks`` runs every benchmark. Most print ratios, because times vary between machines."""

from benchmarks import (
    basis_pursuit,
    emd,
    ingest,
    local_model,
    marketplace,
    noise,
    page,
    resolution,
    secure_sum,
    sensors,
    startup,
    survey,
    tree_fit,
    whole_job,
)

EVERY = (
    startup, page, noise, tree_fit, emd, resolution, local_model, secure_sum, survey, basis_pursuit, sensors,
    marketplace, ingest,
    whole_job,
)  # fmt: skip

# The processes that a benchmark starts import this file too, and must not start the benchmarks again.
if __name__ == "__main__":
    for benchmark in EVERY:
        print(f"── {benchmark.__name__}: {(benchmark.__doc__ or '').splitlines()[0]}")
        benchmark.main()
        print()
