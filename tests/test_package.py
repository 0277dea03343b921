"""What `import askance` gives, and what it costs."""

import resource
import subprocess
import sys

import askance


def test_exported_names():
    assert sorted(askance.__all__) == [
        "Answer", "AskanceError", "Budget", "Demo", "Engine", "InputError", "Passage", "Question", "Result",
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
    bare = min(processor_seconds("pass") for _ in range(3))
    # Held against numpy, which is a part of it, right beside it: machines differ, also from minute to minute.
    tries = ((processor_seconds(code) - bare, processor_seconds("import numpy") - bare) for _ in range(10))
    assert any(own < 1.5 * numpy for own, numpy in tries), "about 1.1 times as long as numpy alone"


def processor_seconds(code):
    """Of a new interpreter: not of what else the machine does."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_the_engine_can_be_wired_without_torch():
    code = "import sys; from askance.wire import open_engine; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
