# Everything a fresh machine needs is Python 3.11 or newer and make.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
# Threads of BLAS gain nothing at these sizes and fight with pytest's two workers.
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo test test-all test-interpreted test-oldest check attack mutants docs release-check bench clean

demo: $(INSTALLED)
	$(BIN)/bionica demo --force

# --dist worksteal: each worker begins with one half of the tests, so that the two do not compile the same network at the same time.
test: check $(INSTALLED)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"
	$(MAKE) --no-print-directory test-interpreted

test-all: check $(INSTALLED)
	$(BIN)/python -m pytest -n 2 --dist worksteal
	$(MAKE) --no-print-directory test-interpreted

# The same mathematics without the compiler: the two must agree, and only here can coverage see the kernels.
test-interpreted: $(INSTALLED)
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "interpreted and not slow" tests --cov=bionica.engine --cov=bionica.circuits --cov-report=term

# The lower bounds of pyproject.toml, in an environment of their own. Old libraries may give deprecation warnings there.
test-oldest: .venv-oldest/.installed
	NUMBA_CACHE_DIR=$(CURDIR)/.venv-oldest/numba_cache .venv-oldest/bin/python -m pytest -q -n 2 --dist worksteal -m "not slow" \
		-W ignore::DeprecationWarning -W ignore::FutureWarning

check: $(INSTALLED)
	$(BIN)/ruff format --check src tests benchmarks examples docs
	$(BIN)/ruff check src tests benchmarks examples docs
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# Mutated models and files, extreme streams, kills, concurrent writers; at most 20 minutes. WRITE=1 writes benchmarks/results/attack.md.
attack: $(INSTALLED)
	$(BIN)/python benchmarks/attack.py $(if $(WRITE),--write)

# How many of N random changes of the mathematics the tests notice; the survivors are listed. Minutes for each mutant that survives.
mutants: $(INSTALLED)
	$(BIN)/python benchmarks/mutants.py --n $(or $(N),30) --seed $(or $(SEED),0)

# The site: docs/_build/html/index.html. Needs no network once the packages are installed. Then the code of docs/clients.md is run
# with the packages that could be installed, and every page is opened in a browser.
docs: .venv/.docs-installed
	$(BIN)/python -m sphinx -b html -q -W --keep-going docs docs/_build/html
	$(MAKE) --no-print-directory .venv-clients/.installed || echo "the clients could not be installed: their code is not run" >&2
	test ! -e .venv-clients/.installed || .venv-clients/bin/python docs/run_clients.py
	$(BIN)/python -m pytest -q tests/test_site.py

# sdist and wheel, and the wheel in an empty environment: the demo, the lines of README.md, the tests.
release-check:
	$(PYTHON) .ci/release.py

.venv/.docs-installed: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@

.venv-clients/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-clients
	.venv-clients/bin/python -m pip install --quiet --disable-pip-version-check -e '.[clients]'
	touch $@

# Every measured figure of README and docs, into benchmarks/results; an hour on two cores. FIGURES="missing stuck" measures some.
bench: $(INSTALLED)
	$(BIN)/python benchmarks/figures.py $(FIGURES)

$(INSTALLED): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "bionica needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

.venv-oldest/.installed: pyproject.toml .ci/oldest.py
	$(PYTHON) -m venv .venv-oldest
	$(PYTHON) .ci/oldest.py > .venv-oldest/constraints.txt
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check -c .venv-oldest/constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv .venv-oldest .venv-clients demo dist docs/_build docs/gallery docs/reference/generated results .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	find . -name __pycache__ -prune -exec rm -rf {} +
