# Two commands do all the set-up: `make demo` runs the main job, `make test` passes the tests.
# Both need Python >= 3.11, Java >= 17 and make; everything else is installed into .venv, pinned by constraints.txt.

.DEFAULT_GOAL := help
.SUFFIXES:
SHELL := /bin/sh
# Where Python is told to keep no bytecode, as in some images, each of the hundreds of processes of the tests would compile all
# that it imports, and each worker rewrite the assertions of all test modules.
unexport PYTHONDONTWRITEBYTECODE
# uv trusts whom the machine trusts, as pip and Java do: behind a proxy that signs with a firm's own certificate, too.
export UV_SYSTEM_CERTS := 1

BIN := .venv/bin
READY := .venv/.ready
PYTHONS := $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11
INSTALL := install --constraint constraints.txt
CORE_TESTS := tests/unit tests/scenarios
TWO_WORKERS := --numprocesses 2
THREE_WORKERS := --numprocesses 3
# Exits with 3 where there is no C compiler; the core then runs interpreted, which the line it prints says.
COMPILE := $(BIN)/python hatch_build.py || [ $$? -eq 3 ]

.PHONY: help prerequisites env compiled chromium records docs check test demo demo-sites lint types nightly baseline constraints clean

help:
	@echo "make demo     run the main job: start Kafka and PostgreSQL, commit from many writers, read it with DuckDB"
	@echo "make demo-sites  two sites write the same rows while they are cut off, and hold the same ones in the end"
	@echo "make test     lint, types and all tests"
	@echo "make check    lint, types and the fast tests, in two to three minutes"
	@echo "make env      only create .venv, fetch the Kafka jars and compile the core"
	@echo "make compiled compile the core again after its sources were changed; until then they run interpreted"
	@echo "make records  the log's records as Python, from schemas/"
	@echo "make docs     the pages of docs/ as a site, in build/site"
	@echo "make lint | types | nightly | baseline | constraints | clean"

# Says what is missing or too old before anything is downloaded.
prerequisites:
	@lacking=0; python=; \
	for candidate in $(PYTHONS); do \
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$candidate; break; fi; \
	done; \
	if [ -z "$$python" ]; then lacking=1; \
	  echo "Python >= 3.11 is missing (found: $$(python3 --version 2>/dev/null || echo none))."; \
	  echo "  Debian/Ubuntu: apt-get install python3 python3-venv    macOS: brew install python@3.12"; \
	  echo "  Elsewhere: make ... PYTHON=<path of a newer python>"; \
	elif ! "$$python" -c 'import ensurepip, venv' 2>/dev/null; then lacking=1; \
	  echo "$$python cannot create virtual environments: its venv module is missing."; \
	  echo "  Debian/Ubuntu: apt-get install python3-venv"; \
	fi; \
	java=java; if [ -n "$$JAVA_HOME" ]; then java="$$JAVA_HOME/bin/java"; fi; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.* version "\([^"]*\)".*/\1/p'); \
	major=$$(echo "$$version" | sed 's/^1\.//; s/[^0-9].*//'); \
	if [ -z "$$major" ] || [ "$$major" -lt 17 ]; then lacking=1; \
	  echo "Java >= 17 is missing (found: $${version:-none} at $$java)."; \
	  echo "  Debian/Ubuntu: apt-get install openjdk-21-jre-headless (Debian 12: openjdk-17-jre-headless)    macOS: brew install openjdk@21"; \
	  echo "  Already installed elsewhere: set JAVA_HOME to its folder."; \
	fi; \
	exit $$lacking

env: prerequisites $(READY)

$(READY): pyproject.toml constraints.txt
	@for python in $(PYTHONS); do \
	  "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break; \
	done; \
	echo "[env] creating .venv with $$("$$python" --version)"; \
	"$$python" -m venv .venv
	@echo "[env] installing the pinned packages (about 1 GB on disk, a minute or two the first time)"
	@$(BIN)/python -m pip --disable-pip-version-check --quiet $(INSTALL) uv
	@$(BIN)/uv pip $(INSTALL) --quiet --build-constraint constraints.txt --editable '.[spark,local,duckdb,peers,ui,metrics,tracing,registry,simulation,docs,dev]'
	@echo "[env] compiling the core (a minute) and fetching the Kafka broker (once for this user)"
	@$(BIN)/python -m commitlog.local & fetching=$$!; $(COMPILE); compiled=$$?; wait $$fetching && exit $$compiled
	@touch $(READY)

compiled: env
	@$(COMPILE)

# What looks at the web page; root's Debian gets it installed, others are told how to.
chromium: env
	@echo "[chromium] finding it, for the tests of the web page"
	@$(BIN)/python tests/browser/chromium.py

# The Python of the records, from schemas/*.avsc.
records: env
	@$(BIN)/python schemas/generator

# Ends at a broken link or anchor. It says nothing of the next version of mkdocs, which is pinned.
docs: env
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "[docs] build/site/index.html"

lint: env
	@echo "[lint] ruff check"
	@$(BIN)/ruff check --quiet .
	@echo "[lint] ruff format --check"
	@$(BIN)/ruff format --check --quiet . || { $(BIN)/ruff format --check .; exit 1; }

types: env
	@echo "[types] mypy --strict commitlog, and what generates its records"
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/mypy --no-error-summary schemas/generator

# Two runs, so that only the fast tests of the decision core count for its coverage: whatever else passes through it,
# a real log or a stream, would hide a branch that no test looks at. Coverage is of sources, so the core runs interpreted.
check: lint types
	@echo "[test] coverage of domain/: every branch by tests/unit and tests/scenarios"
	@COMMITLOG_CORE=interpreted $(BIN)/pytest $(TWO_WORKERS) $(CORE_TESTS) --cov --cov-report term-missing --cov-fail-under 100

# The core's own tests pass in both forms; all others in the one that users have. Nothing runs beside what is timed; all else is
# done by three workers, which keep two processors busy while servers start and stop (tests/conftest.py).
test: chromium check compiled
	@if $(BIN)/python hatch_build.py; then \
	  echo "[test] pytest, mistakes planted in the core's sources, which the simulations have to find" && \
	  COMMITLOG_CORE=interpreted $(BIN)/pytest $(TWO_WORKERS) -m 'interpreted and not nightly' --durations 3 tests/simulation && \
	  echo "[test] pytest, what the core and the projector cost beside the baseline" && \
	  COMMITLOG_CORE=compiled $(BIN)/pytest -rP tests/speed && \
	  echo "[test] pytest, all other tests, the core compiled: real Kafka, PostgreSQL and Spark are started by those that need them" && \
	  COMMITLOG_CORE=compiled $(BIN)/pytest $(THREE_WORKERS) --ignore=tests/speed --durations 20; \
	else \
	  echo "[test] pytest, all other tests, the core interpreted: without a C compiler its other form is not tested"; \
	  COMMITLOG_CORE=interpreted $(BIN)/pytest $(THREE_WORKERS) $(addprefix --ignore=,$(CORE_TESTS)) --durations 20; \
	fi

nightly: env
	@$(BIN)/uv pip $(INSTALL) --quiet --editable '.[fuzz]' || echo "[nightly] no Atheris here: its test is left out"
	@echo "[nightly] pytest -m nightly: the long simulations, the oldest Spark and the oldest packages"
	@$(BIN)/pytest -m nightly --timeout 7200 -o faulthandler_timeout=7500

# What tests/speed compares with; of both forms of the core.
baseline: compiled
	@for core in interpreted compiled; do \
	  COMMITLOG_CORE=$$core COMMITLOG_TEST_BASELINE=write $(BIN)/pytest -q tests/speed || exit 1; \
	done

demo: env
	@$(BIN)/commitlog demo

demo-sites: env
	@$(BIN)/commitlog demo --sites

# The two sets differ only by the tools that build and install, which are no dependency of the package.
constraints: env
	@echo "[constraints] resolving for Python 3.11 and later"
	@head -n 1 constraints.txt > .venv/constraints.new
	@printf '%s\n' editables pip setuptools uv wheel | $(BIN)/uv pip compile --quiet --upgrade --universal \
	  --python-version 3.11 --all-extras --no-annotate --no-header --no-emit-index-url --no-emit-find-links \
	  pyproject.toml - >> .venv/constraints.new
	@mv .venv/constraints.new constraints.txt

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis *.so commitlog/compiled.*.json
	find commitlog -name '*.so' -delete
	find commitlog tests -name __pycache__ -type d -prune -exec rm -rf {} +
