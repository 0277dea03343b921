"""What `import askance` gives, and what it costs."""

import subprocess
import sys
import time

import askance


def test_exported_names():
    assert sorted(askance.__all__) == [
        "Answer", "AskanceError", "Demo", "Engine", "InputError", "Passage", "Question", "Result",
        "__version__", "open_engine",
    ]  # fmt: skip
    for name in askance.__all__:
        assert getattr(askance, name) is not None


def test_importing_is_quick_and_leaves_heavy_libraries_out():
    heavy = "torch transformers tantivy pydantic rich typer faiss spacy"
    code = (
        f"import sys, askance; loaded = set('{heavy}'.split()) & set(sys.modules); "
        "assert not loaded, loaded; from askance import Question, Answer, InputError"
    )
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        bare = time.perf_counter() - began
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        seconds.append(time.perf_counter() - began - bare)
    assert min(seconds) < 0.6  # about 0.15 on an idle machine


def test_the_engine_can_be_wired_without_torch():
    code = "import sys; from askance.wire import open_engine; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
