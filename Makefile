# Each target makes the environment by itself when it is missing or older than what it is made from.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# One thread per process: torch's threads would fight over the cores with the processes of a study or of pytest.
export OMP_NUM_THREADS := 1

.PHONY: help install run test test-browser lint format bench fuzz clean

help:
	@echo "make run     learn five tasks with the embedded digits; compare with a network that forgets"
	@echo "make test    lint, types and the quick test suite"
	@echo "make test-browser  a report in a real browser (chromium)"
	@echo "make bench   measure speed and memory, beside plain PyTorch and the version before"
	@echo "make fuzz    attack it: damaged files and records, odd command lines and calls, kills"
	@echo "make lint    ruff and mypy alone;  make format  lets ruff rewrite"
	@echo "make install the environment in $(VENV)"

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

run: $(STAMP)
	$(BIN)/mnemon run split-digits --seeds 3
	$(BIN)/mnemon run split-digits-finetuned-hypernet --seeds 3

test: lint
	$(BIN)/python -m pytest -n auto

# The browser is Debian's; playwright would bring its own by download.
test-browser: $(STAMP)
	@command -v chromium >/dev/null \
		|| { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } \
		|| { echo "These tests need chromium, and it could not be installed from here: sudo apt-get install chromium" >&2; exit 1; }
	$(BIN)/python -m pytest -m browser tests/browser

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.latency

# 100,000 damaged files, 10,000 damaged records, odd command lines and calls, kills and interrupts: about half an hour.
fuzz: $(STAMP)
	$(BIN)/python -m benchmarks.fuzz

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
