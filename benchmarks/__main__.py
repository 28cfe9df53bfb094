"""``python -m benchmarks``: every benchmark in one run; each prints a ratio, since times vary between machines."""

from benchmarks import basis_pursuit, emd, ingest, local_model, noise, resolution, secure_sum, startup, survey, tree_fit

for benchmark in (startup, noise, tree_fit, emd, resolution, local_model, secure_sum, survey, basis_pursuit, ingest):
    print(f"── {benchmark.__name__}: {(benchmark.__doc__ or '').splitlines()[0]}")
    benchmark.main()
    print()
