"""What `import askance` gives, and what it costs."""

import inspect
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import askance


def test_exported_names():
    assert sorted(askance.__all__) == [
        "Answer", "AskanceError", "Attention", "Budget", "Chat", "Citation", "Conversation", "Cut", "Demo",
        "Encoder", "Engine", "EngineConfig", "Entailment", "Example", "GenerateRequest", "Generation",
        "GenerationState", "Hit",
        "InputError", "Method", "Model", "Needs", "PairScorer", "Parameters", "Passage", "Question",
        "QuestionRewriter", "Raw", "Reranker", "Result", "Retriever", "Run", "Sampling", "Scored",
        "SentenceEnd", "Span", "StopCondition", "TextEnd", "Token", "Trace", "Turn", "Usage", "Want",
        "WritesAnswer", "__version__", "checked_dataclass", "implements",
        "open_engine", "parameter", "read_config",
    ]  # fmt: skip
    assert dir(askance) == sorted(askance.__all__)
    assert len(str(inspect.signature(askance.open_engine))) < 400
    for name in askance.__all__:
        assert getattr(askance, name) is not None


def test_importing_is_quick_and_leaves_heavy_libraries_out():
    heavy = "torch transformers tantivy pydantic rich typer spacy"
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


ONLY_FOR_AN_ENGINE = "torch transformers tantivy rich httpx2 asyncio askance.text askance.core.trace"


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import askance; askance.open_engine", "torch"),
        ("import askance.configuration.sources", ONLY_FOR_AN_ENGINE),
        (
            "from askance.cli.main import main; main()",
            "pydantic numpy asyncio askance.configuration.settings",
        ),
    ],
)
def test_libraries_are_imported_only_where_they_are_needed(code, absent):
    at_exit = f"atexit.register(lambda: print({{*{absent.split()}}} & set(sys.modules)))"
    command = [sys.executable, "-c", f"import sys, atexit; {at_exit}; {code}", "--version"]
    assert subprocess.run(command, capture_output=True, text=True).stdout.splitlines()[-1] == "set()"


def test_a_home_that_can_not_be_written_is_no_hindrance(tmp_path):
    """A file stands where the home folder should be, which even a superuser can't write into."""
    (tmp_path / "home").write_text("")
    (tmp_path / "test_cache.py").write_text(
        "from pathlib import Path\n"
        "from askance.models.bundled import cache_folder\n"
        "from tests.conftest import can_write\n"
        "def test_cache():\n"
        f"    assert not can_write(Path({str(tmp_path / 'home')!r}) / 'x')\n"
        "    assert can_write(cache_folder())\n"
    )
    environment = {key: value for key, value in os.environ.items() if "CACHE" not in key}
    environment |= {"HOME": str(tmp_path / "home"), "LC_ALL": "C"}
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    ended = subprocess.run(
        [*command, str(tmp_path / "test_cache.py")],
        cwd=Path(__file__).parent.parent, env=environment, capture_output=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout.decode()
