"""A model served by llama.cpp's own server on loopback, compared with the same file without a server."""

import asyncio
import json
import subprocess
import sys
from dataclasses import replace

import pytest
from tests.models.served import After, write
from tests.tolerances import near, tolerance

from askance.configuration.build import load_model
from askance.core.errors import PromptTooLong
from askance.core.types import Chat, GenerateRequest, Raw, Sampling, Span, Turn, Want, untrusted
from askance.models.bundled import gguf_path
from askance.models.openai.options import SERVERS
from askance.models.openai.streaming import entropy_bounds

WINDOW, SLOTS = 512, 2
BOUND = "thirty layers", "8 bits"
SERVE = """
import sys
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
prompts = pytest.mark.parametrize("prompt", [CITIES, CHAT], ids=["text", "chat"])


@pytest.fixture(scope="module")
def url():
    """Return the address of a server for the bundled model."""
    command = [sys.executable, "-c", SERVE, str(gguf_path()), str(WINDOW * SLOTS), str(SLOTS)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **pipes) as process:
        yield f"{process.stdout.readline().strip()}/v1"
        process.kill()


@pytest.fixture(scope="module")
def model(url):
    return load_model(f"openai:smollm2@{url}?server=llama.cpp&context={WINDOW}&in_flight={SLOTS}")


@pytest.fixture
def local(bundled_gguf):
    return bundled_gguf


def test_what_it_can_do_is_found_out(url, tmp_path, monkeypatch):
    monkeypatch.setenv("ASKANCE_CACHE", str(tmp_path))
    load_model(f"openai:smollm2@{url}")
    (kept,) = (tmp_path / "servers").iterdir()
    found = json.loads(kept.read_text(encoding="utf-8"))["options"]
    assert found == SERVERS["llama.cpp"] | {"context": str(WINDOW)}


@prompts
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
    (plain,) = write(model, prompt, Want(logprob=True), max_tokens=4)
    assert all(token.logprob <= 0 and token.top == () for token in plain.tokens)


@prompts
def test_a_text_is_streamed_and_ends_with_a_cut_or_at_a_stop_string(model, local, prompt):
    (whole,) = write(local, prompt, max_tokens=12)
    stop = whole.text[5:8]
    for options in ({"until": After(3)}, {"stop": (stop,)}):
        pieces = []
        (cut,) = write(model, prompt, on_text=pieces.append, max_tokens=200, **options)
        (expected,) = write(local, prompt, max_tokens=200, **options)
        assert (cut.text, cut.finish) == (expected.text, expected.finish)
        assert "".join(pieces) == cut.text


def test_prompt_tokens_are_those_of_the_model(model, local):
    assert asyncio.run(model.count(CITIES)) == asyncio.run(local.count(CITIES))
    assert asyncio.run(model.count(CHAT)) >= asyncio.run(local.count(CHAT))
    (written,) = write(model, CITIES, max_tokens=2)
    assert written.prompt_tokens == asyncio.run(local.count(CITIES))


@prompts
def test_a_text_is_continued_and_not_repeated(model, prompt):
    (whole,) = write(model, prompt, Want(logprob=True), max_tokens=10)
    begun = "".join(token.text for token in whole.tokens[:4])
    for want in (Want(), Want(logprob=True)):
        begins = replace(prompt, continuation=(untrusted(begun),))
        (rest,) = write(model, begins, want, max_tokens=6)
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
        requests = [GenerateRequest(prompt, Sampling(20), key=("k",)) for prompt in (CITIES, CHAT) * 3]
        return [found.text for (found,) in await asyncio.gather(*map(model.generate, requests))]

    alone = [write(model, prompt, max_tokens=20)[0].text for prompt in (CITIES, CHAT)]
    assert asyncio.run(together()) == alone * 3
