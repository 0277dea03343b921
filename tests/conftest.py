"""Models for the tests; each is made once. Torch is imported only where one is asked for."""

import functools
import os
import shlex
import signal
import sys
import tempfile

import pytest
from hypothesis import settings

from askance.models.bundled import cache_folder
from askance.retrieval.index import documents
from askance.retrieval.index.reader_process import ReaderProcess, ReadingLimits

OF_THE_SHELL = (
    "COLORTERM", "COLUMNS", "FORCE_COLOR", "GITHUB_ACTIONS", "LINES", "NO_COLOR", "OPENAI_API_KEY",
    "OPENAI_BASE_URL", "PY_COLORS", "TERMINAL_WIDTH", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "TYPER_USE_RICH",
)  # fmt: skip
"""Variables by which rich and typer colour or fold what is printed, and those that name a server."""


def pytest_configure(config):
    """Ctrl-C is tested, also where a script that runs the tests in its background has it ignored; servers on
    loopback are asked directly, also where there is a proxy; terminals are such as can move up, and nothing
    else of the shell, nor any configuration of the user, is heard; models are converted elsewhere where the
    user's cache can't be written; an example of Hypothesis may take as long as the machine needs, and
    each run has the same examples.
    """
    for name in (*OF_THE_SHELL, *(each for each in os.environ if each.startswith("ASKANCE_"))):
        if name != "ASKANCE_CACHE":
            os.environ.pop(name, None)
    of_the_user = tempfile.TemporaryDirectory(prefix="askance-tests-")
    os.environ["XDG_CONFIG_HOME"] = of_the_user.name
    config.add_cleanup(of_the_user.cleanup)
    if not can_write(cache_folder()):
        folder = tempfile.TemporaryDirectory(prefix="askance-tests-")
        os.environ["ASKANCE_CACHE"] = folder.name
        config.add_cleanup(folder.cleanup)
    os.environ["TERM"] = "xterm"
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"
    signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.register_profile("any machine", deadline=None, derandomize=True)
    settings.load_profile("any machine")


def can_write(folder):
    """Whether files can be made in a folder, which need not be there yet."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


class KeptReader(ReaderProcess):
    """A reader process that later tests use again, since starting one takes a while."""

    idle = []  # noqa: RUF012

    def close(self):
        if self._named:  # the rows of some files were not taken
            super().close()
        else:
            self.idle.append(self)


@pytest.fixture(scope="session", autouse=True)
def kept_readers():
    def make(limits):
        if limits != ReadingLimits():
            return ReaderProcess(limits)
        return KeptReader.idle.pop() if KeptReader.idle else KeptReader()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "ReaderProcess", make)
        yield
        for reader in KeptReader.idle:
            ReaderProcess.close(reader)


@pytest.fixture(scope="session")
def llama_folder(tmp_path_factory):
    from tests.models.tiny import save_tiny, sentencepiece_tokenizer

    folder = tmp_path_factory.mktemp("llama")
    return save_tiny(folder, "llama", sentencepiece_tokenizer(), num_key_value_heads=4)


@pytest.fixture(scope="session")
def qwen_folder(tmp_path_factory):
    from tests.models.tiny import byte_level_tokenizer, save_tiny

    return save_tiny(tmp_path_factory.mktemp("qwen"), "qwen2", byte_level_tokenizer(), seed=1)


@pytest.fixture(scope="session")
def llama(llama_folder):
    """SentencePiece-like tokenizer, BOS, an instruct template without system turns."""
    from askance.models.hf import load_hf

    return load_hf(str(llama_folder), device="cpu", dtype="float32", display_name="llama")


@pytest.fixture(scope="session")
def plain_llama(tmp_path_factory):
    """A base model: the same tokenizer without a chat template."""
    pytest.importorskip("torch")
    from askance.models.hf import load_hf
    from tests.models.tiny import save_tiny, sentencepiece_tokenizer

    tokenizer = sentencepiece_tokenizer()
    tokenizer.chat_template = None
    folder = save_tiny(tmp_path_factory.mktemp("plain"), "llama", tokenizer, num_key_value_heads=4)
    return load_hf(str(folder), device="cpu", dtype="float32", display_name="plain llama")


@pytest.fixture(scope="session")
def qwen(qwen_folder):
    """Byte-level tokenizer, no BOS, ChatML, grouped heads."""
    from askance.models.hf import load_hf

    return load_hf(str(qwen_folder), device="cpu", dtype="float32", display_name="qwen")


@pytest.fixture(scope="session")
def bundled():
    """The real one as its authors made it, which no training of ours changes; the first run on a machine
    converts it into the user's cache.
    """
    pytest.importorskip("torch")
    from askance.models.loaders import load_bundled_model

    return load_bundled_model("base", device="cpu", dtype="float32")


@pytest.fixture(scope="session")
def load_once():
    """What loads the bundled models by llama.cpp, with the one that was loaded first."""
    from askance.models.loaders import load_bundled_model

    return functools.cache(lambda name="": load_bundled_model(name, engine="llama.cpp"))


@pytest.fixture(scope="session")
def bundled_gguf(load_once):
    """The plain bundled model by llama.cpp, which computes it where there is no GPU."""
    return load_once("base")


@pytest.fixture(scope="session")
def few_layers_file(request, tmp_path_factory):
    """The plain bundled model with few layers, as a GGUF file; it is kept from run to run where pytest keeps
    anything.
    """
    from askance.models.bundled import gguf_path
    from tests.models.cut import first_layers

    kept = getattr(request.config, "cache", None)
    return first_layers(gguf_path(), kept.mkdir("askance") if kept else tmp_path_factory.mktemp("cut"))


@pytest.fixture(scope="session")
def few_layers_gguf(few_layers_file):
    """That model by llama.cpp."""
    from askance.models.llama_cpp import load_gguf

    return load_gguf(str(few_layers_file), display_name="bundled:base")


@pytest.fixture(scope="session")
def few_layers(tmp_path_factory):
    """The plain bundled model with few layers by torch."""
    pytest.importorskip("torch")
    from askance.models.hf import load_hf
    from askance.models.hf.adapter import torch_folder
    from tests.models.cut import link_first_layers

    folder = link_first_layers(torch_folder(), tmp_path_factory.mktemp("few") / "model")
    return load_hf(str(folder), device="cpu", dtype="float32", display_name="bundled:base")


@pytest.fixture
def few_layers_by_name(few_layers_gguf, monkeypatch):
    """Who names a bundled model gets the one with few layers: what it says is not looked at."""
    monkeypatch.setattr("askance.models.loaders.load_bundled_model", lambda *_: few_layers_gguf)


@pytest.fixture
def bundled_by_name(load_once, monkeypatch):
    """Who names a bundled model gets the one that all tests share: what loads it is tested elsewhere."""
    monkeypatch.setattr("askance.models.loaders.load_bundled_model", load_once)


@pytest.fixture(scope="session")
def sample_index(tmp_path_factory):
    """An index over the corpus that ships with the package."""
    from askance.retrieval.index.build import build_index
    from askance.sample import CORPUS

    folder = tmp_path_factory.mktemp("sample") / "index"
    build_index([CORPUS], folder)
    return folder


@pytest.fixture
def run(capsys, monkeypatch):
    """Run a command, given as words or as one text; return exit code, standard output and standard error."""

    from askance.cli.main import main

    def run(*words, columns=100):
        words = shlex.split(words[0]) if len(words) == 1 else map(str, words)
        monkeypatch.setattr(sys, "argv", ["askance", *words])
        monkeypatch.setenv("COLUMNS", str(columns))
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return run
