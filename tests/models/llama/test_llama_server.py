"""A model served by llama.cpp's own server on loopback, compared with the same file without a server."""

import asyncio
import json
import subprocess
import sys
from dataclasses import replace

import pytest
from tests.contracts.model_contract import run
from tests.models.served import After, write
from tests.tolerances import near, tolerance

from askance.configuration.build import load_model
from askance.core.errors import PromptTooLong
from askance.core.types import Chat, GenerateRequest, Raw, Sampling, Span, Turn, Want, untrusted
from askance.models.bundled import gguf_path
from askance.models.llama_cpp import load_gguf
from askance.models.openai.options import SERVERS
from askance.models.openai.streaming import entropy_bounds

WINDOW, SLOTS = 512, 2
BOUND = "thirty layers", "8 bits"
SERVE = """
import sys
from dataclasses import replace
import xllamacpp
settings = xllamacpp.CommonParams()
settings.model.path, settings.n_ctx, settings.n_parallel = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
settings.hostname, settings.port, settings.verbosity, settings.warmup = "127.0.0.1", 0, 0, False
settings.kv_unified, settings.cache_ram_mib = False, 0
settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(settings)
print(server.listening_address, flush=True)
sys.stdin.read()
"""
"""llama.cpp's own server, at a port that is free, until standard input is closed."""
CITIES = Raw((Span("The three largest cities of Germany are"),))
CHAT = Chat((Turn("user", (Span("Name three colours."),)),))


class Served:
    """Run a server for a file inside the block."""

    def __init__(self, file, window=WINDOW, slots=SLOTS):
        self._arguments = [sys.executable, "-c", SERVE, str(file), str(window * slots), str(slots)]

    def __enter__(self):
        self._process = subprocess.Popen(
            self._arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.url = f"{self._process.stdout.readline().strip()}/v1"
        return self

    def __exit__(self, *raised):
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            pipe.close()

    def spec(self):
        return f"openai:smollm2@{self.url}?server=llama.cpp&context={WINDOW}&in_flight={SLOTS}"


@pytest.fixture(scope="module")
def served():
    with Served(gguf_path()) as served:
        yield served


@pytest.fixture(scope="module")
def model(served):
    return load_model(served.spec())


@pytest.fixture(scope="module")
def local():
    return load_gguf(str(gguf_path()))


def test_what_it_can_do_is_found_out(served, tmp_path, monkeypatch):
    monkeypatch.setenv("ASKANCE_CACHE", str(tmp_path))
    load_model(f"openai:smollm2@{served.url}")
    (kept,) = (tmp_path / "servers").iterdir()
    found = json.loads(kept.read_text(encoding="utf-8"))["options"]
    assert found == SERVERS["llama.cpp"] | {"context": str(WINDOW)}


@pytest.mark.parametrize("prompt", [CITIES, CHAT], ids=["text", "chat"])
def test_a_text_with_its_signals(model, local, prompt):
    want = Want(logprob=True, top_logprobs=3, entropy=True)
    (here,), (there,) = (write(each, prompt, want, max_tokens=6) for each in (model, local))
    assert here.text == there.text
    assert [token.text for token in here.tokens] == [token.text for token in there.tokens]
    slack = tolerance(*reversed(BOUND))
    for ours, theirs in zip(here.tokens, there.tokens, strict=True):
        assert ours.logprob == near(theirs.logprob, *BOUND)
        assert ours.top[0][0] == theirs.top[0][0]
        assert ours.entropy <= theirs.entropy + slack, "a bound from below"
        assert ours.entropy >= entropy_bounds([logprob for _, logprob in ours.top], 3)[0] - slack


@pytest.mark.parametrize("prompt", [CITIES, CHAT], ids=["text", "chat"])
def test_log_probabilities_without_alternatives(model, prompt):
    (written,) = write(model, prompt, Want(logprob=True), max_tokens=4)
    assert all(token.logprob <= 0 and token.top == () for token in written.tokens)


def test_it_is_streamed_and_ends_with_a_cut(model, local):
    pieces = []
    (cut,) = write(model, CITIES, until=After(3), on_text=pieces.append, max_tokens=200)
    (whole,) = write(local, CITIES, until=After(3), max_tokens=200)
    assert (cut.text, cut.finish) == (whole.text, "enough")
    assert len(pieces) > 1
    assert "".join(pieces) == cut.text


def test_stop_strings_to_the_letter(model, local):
    (here,), (there,) = (write(each, CITIES, stop=("erl",), max_tokens=30) for each in (model, local))
    assert (here.text, here.finish) == (there.text, "stop")


def test_prompt_tokens_are_those_of_the_model(model, local):
    assert asyncio.run(model.count(CITIES)) == asyncio.run(local.count(CITIES))
    assert asyncio.run(model.count(CHAT)) >= asyncio.run(local.count(CHAT))
    (written,) = write(model, CITIES, max_tokens=2)
    assert written.prompt_tokens == asyncio.run(local.count(CITIES))


@pytest.mark.parametrize("want", [Want(), Want(logprob=True)], ids=["text alone", "logprobs"])
@pytest.mark.parametrize("prompt", [CITIES, CHAT], ids=["text", "chat"])
def test_a_text_is_continued_and_not_repeated(model, prompt, want):
    (whole,) = write(model, prompt, Want(logprob=True), max_tokens=10)
    begun = "".join(token.text for token in whole.tokens[:4])
    (rest,) = write(model, replace(prompt, continuation=(untrusted(begun),)), want, max_tokens=6)
    assert begun + rest.text == whole.text


def test_the_same_seed_gives_the_same_text(model):
    texts = [write(model, CITIES, temperature=1.0, key=(key,), max_tokens=12)[0].text for key in "aab"]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("make", [lambda text: Raw((text,)), lambda text: Chat((Turn("user", (text,)),))])
def test_a_text_beyond_its_window(model, make):
    with pytest.raises(PromptTooLong, match=rf"exceeds the available context size \({WINDOW} tokens"):
        write(model, make(Span("one two " * 300)))


def test_more_requests_than_slots(model):
    async def together():
        calls = [
            model.generate(GenerateRequest(prompt, Sampling(20), key=("k",))) for prompt in (CITIES, CHAT) * 3
        ]
        return [found.text for (found,) in await asyncio.gather(*calls)]

    assert run(together()) == [write(model, prompt, max_tokens=20)[0].text for prompt in (CITIES, CHAT)] * 3
