# The two commands of a newcomer are `make demo` and `make test`; both install all they need into .venv.
PYTHON ?= python3
BIN    := .venv/bin
READY  := .venv/.ready

.PHONY: help demo test check slow mutants bench papers clean
help:
	@echo "make demo    publish a synthetic city and draw it (demo/city.png, demo/city.html)"
	@echo "make test    every check: style, types, layers, tests, papers (quick), the wheel"
	@echo "make slow    the checks that take longer, mutants among them"
	@echo "make mutants known bugs put back one at a time; a named test must catch each"
	@echo "make bench   ratios against the named peers, in one run on this machine"
	@echo "make papers  the papers' figures in full"

# pip keeps the wheel it builds of pyspark, which comes as source only; uv would build it, and keep 1.4 GB, each time.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Heathaze needs Python 3.11 or newer; found `$(PYTHON) --version`. Try: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv pyspark
	$(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt --editable '.[dev]'
	@touch $(READY)

demo: $(READY)
	$(BIN)/heathaze demo --out demo

test: $(READY)
	$(BIN)/ruff format --check src tests papers benchmarks examples mutants
	$(BIN)/ruff check src tests papers benchmarks examples mutants
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n 2 --dist loadgroup -m "not slow"

slow: $(READY)
	$(BIN)/pytest -n 2 --dist loadgroup -m slow
	$(BIN)/python -m mutants

# The bugs and how they are judged: mutants/. Two at a time, in copies of this tree.
mutants: $(READY)
	$(BIN)/python -m mutants

bench: $(READY)
	$(BIN)/python -m benchmarks

papers: $(READY)
	$(BIN)/python papers/central_heatmaps/run.py
	$(BIN)/python papers/central_heatmaps/better.py
	$(BIN)/python papers/local_disk_area/run.py
	$(BIN)/python papers/local_disk_area/price_of_trust.py
	$(BIN)/python papers/distributed_heatmaps/run.py
	$(BIN)/python papers/sensors/run.py
	$(BIN)/python papers/marketplace/run.py

clean:
	rm -rf .venv demo build dist
