# Nothing needs to be prepared: each target first makes .venv and installs what it needs (tools/set_up.sh).
# ARGS=… is passed on, as in `make test ARGS="-k lease"`. JOBS=… is how many tests run at a time.

ARGS =
tools = sh tools/set_up.sh tools

.PHONY: help demo test test-all test-pythons lint types bench check format docs lock build clean

help: ## list these targets
	@awk -F ' ## ' '/^[a-z-]+:.* ## / { sub(/:.*/, "", $$1); printf "make %-13s %s\n", $$1, $$2 }' Makefile

demo: ## show the pool at work: real browsers, an embedded Postgres, pages on this machine
	@sh demo.sh $(ARGS)

test: ## run the tests (ARGS: options of pytest; JOBS: how many at a time)
	@sh test.sh $(ARGS)

test-all: ## run the tests, with those that take long
	@SLOW=yes sh test.sh $(ARGS)

test-pythons: ## run the unit tests with each Python from 3.11 on that is installed (PYTHONS: which)
	@sh tools/test_pythons.sh $(ARGS)

lint: ## look for mistakes, formatting and imports that go up
	@$(tools)
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/lint-imports

types: ## check the types
	@$(tools)
	.venv/bin/mypy poolsql tests migrations benchmarks scheduler.py

bench: ## measure against what you would take instead (ARGS: which, as in ARGS="checkout --json"; all take minutes)
	@$(tools)
	.venv/bin/python -m benchmarks $(ARGS)

check: lint types test ## all of lint, types and test

format: ## format the code and mend what can be mended by itself
	@$(tools)
	.venv/bin/ruff check --fix-only .
	.venv/bin/ruff format .

docs: ## write docs/cli.md from the program
	@$(tools)
	.venv/bin/python -m poolsql.cli.reference docs/cli.md

lock: ## renew the lock files from pyproject.toml (ARGS=--upgrade: newest versions)
	@sh tools/lock.sh $(ARGS)

build: ## build the wheel and the source archive into dist/
	@$(tools)
	.venv/bin/hatchling build

clean: ## remove .venv, caches and what was built
	rm -rf .venv dist build .mypy_cache .ruff_cache .import_linter_cache .pytest_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
