# Each target sets up what it needs in .venv, from PyPI alone.
PYTHON ?= python3
RUN := .venv/bin
export UV_SYSTEM_CERTS := true
UV := $(RUN)/uv pip install --quiet --python $(RUN)/python -c constraints.txt

.PHONY: eval test check lint types docs clean

eval: .venv/.runtime  ## evaluate the embedded baseline on the bundled sample
	$(RUN)/safepyramid eval

test: .venv/.dev  ## run all tests
	$(RUN)/pytest -n auto --dist worksteal $(ARGS)

lint: .venv/.dev
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .

types: .venv/.dev
	$(RUN)/mypy

check: lint types test  ## what a change must pass

docs: .venv/.docs  ## the pages of docs/ as a site, in build/docs/
	NO_MKDOCS_2_WARNING=1 $(RUN)/mkdocs build --strict --quiet --site-dir build/docs

.venv/bin/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "safepyramid needs Python 3.11 or newer; give one: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv .venv
	$(RUN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt uv

.venv/.runtime: .venv/bin/uv pyproject.toml constraints.txt
	$(UV) -e .
	@touch $@

.venv/.dev: .venv/.runtime
	$(UV) -e '.[providers]' --group dev
	@touch $@

.venv/.docs: .venv/.runtime
	$(UV) --group docs
	@touch $@

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache
