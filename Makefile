# The two commands of a newcomer are `make demo` and `make test`; each installs what it needs into .venv.
PYTHON ?= python3
BIN    := .venv/bin
READY  := .venv/.ready
DOCS   := .venv/.docs-ready
DEV    := .venv/.dev-ready
COV    ?= --cov --cov-report=term
CODE   := src tests papers benchmarks examples mutants docs
UV     := $(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt

# The tests start about two hundred Python processes. Without stored bytecode each of them compiles its packages again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo check test browser docs qgis slow mutants bench papers release-check clean
help:
	@echo "make demo    publish a synthetic city and draw it (demo/city.html, demo/city.png, both also dark)"
	@echo "make check   style, types, layers and the tests of changed folders, in 90 seconds"
	@echo "make test    every check: style, types, layers, tests with coverage, papers (quick), the wheel"
	@echo "make docs    build the documentation as a site (site/index.html)"
	@echo "make slow    the checks that take longer, mutants among them"
	@echo "make mutants known bugs put back one at a time; a named test must catch each"
	@echo "make bench   ratios against the named peers, in one run on this machine"
	@echo "make papers  the papers' figures in full"
	@echo "make release-check  version, changelog and citation agree (docs/releasing.md)"

# What a user of the library needs, and uv to install it. uv links files from its cache, so that clones share them.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Heathaze needs Python 3.11 or newer; found `$(PYTHON) --version`. Try: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv
	$(UV) --editable .
	@touch $@

$(DOCS): $(READY)
	$(UV) --editable '.[docs]'
	@touch $@

# pip keeps the wheel it builds of pyspark, which comes as source only; uv would build it, and keep 1.4 GB, each time.
$(DEV): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt pyspark
	$(UV) --editable '.[dev]'
	@touch $@ $(DOCS)

# The tests open pages in Chromium. Debian's package is installed if there is none and we may; otherwise they are skipped.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null \
	  || { [ "`id -u`" = 0 ] && { apt-get update && apt-get install -y --no-install-recommends chromium fonts-dejavu-core; } >/dev/null 2>&1; } \
	  || echo "There is no Chromium, so no page is opened in a browser; all other checks run (Debian: apt-get install chromium)."

demo: $(READY)
	$(BIN)/heathaze demo --out demo

test: $(DEV) browser
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports
	COVERAGE_CORE=`$(BIN)/python -c 'import sys; print("sysmon" if sys.version_info >= (3, 12) else "ctrace")'` $(BIN)/pytest -n 2 --dist loadgroup -m "not slow" --durations=20 $(COV)

check: $(DEV) browser
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.changed --seconds 45

# Offline: nothing is fetched, and the site asks no other server.
docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "wrote site/index.html"

# One slow test renders files in QGIS. Debian's package is installed if there is none and we may; otherwise it is skipped.
qgis:
	@/usr/bin/python3 -c 'import qgis.core' 2>/dev/null \
	  || { [ "`id -u`" = 0 ] && { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3-qgis; } >/dev/null 2>&1; } \
	  || echo "There is no QGIS, so no file is rendered in it; all other checks run (Debian: apt-get install python3-qgis)."

slow: $(DEV) qgis
	$(BIN)/pytest -n 2 --dist loadgroup -m slow
	$(BIN)/python -m mutants

# The bugs and how they are judged: mutants/. Two at a time, in copies of this tree. `make mutants SAMPLE=60` runs 60
# of them, others for each commit.
mutants: $(DEV)
	$(BIN)/python -m mutants $(if $(SAMPLE),--sample $(SAMPLE) --seed `git rev-parse HEAD`)

bench: $(DEV)
	$(BIN)/python -m benchmarks

papers: $(DEV)
	$(BIN)/python papers/central_heatmaps/run.py
	$(BIN)/python papers/central_heatmaps/better.py
	$(BIN)/python papers/central_heatmaps/trust.py
	$(BIN)/python papers/range_queries/run.py
	$(BIN)/python papers/range_queries/cities.py
	$(BIN)/python papers/local_disk_area/run.py
	$(BIN)/python papers/local_disk_area/mixture.py
	$(BIN)/python papers/local_disk_area/settings.py
	$(BIN)/python papers/local_disk_area/price_of_trust.py
	$(BIN)/python papers/local_disk_area/journeys/run.py
	$(BIN)/python papers/distributed_heatmaps/run.py
	$(BIN)/python papers/sensors/run.py
	$(BIN)/python papers/marketplace/run.py

release-check: $(DEV)
	$(BIN)/pytest -q tests/project/test_release.py --release

clean:
	rm -rf .venv demo build dist site
