"""A model behind llama-cpp-python's own server, on loopback, held against the same file without a server."""

import asyncio
import subprocess
import sys

import pytest
from tests.contracts.model_contract import run
from tests.models.served import After, write
from tests.models.tiny_gguf import save_gguf, tiny_llama
from tests.tolerances import near, tolerance

from askance.core.errors import ModelFailure, ModelUnavailable, PromptTooLong
from askance.core.types import Chat, Raw, Sampling, Span, Turn, Want
from askance.models.bundled import gguf_path
from askance.models.checking import check
from askance.models.llama_cpp import load_gguf
from askance.models.openai.bounds import entropy_bounds
from askance.wire import load_model

WINDOW = 512
BOUND = "thirty layers", "8 bits"
SERVE = """
import socket, sys
import uvicorn
from llama_cpp.server.app import create_app
from llama_cpp.server.settings import ModelSettings, ServerSettings
threads = {"n_threads": 1, "n_threads_batch": 1}
model = ModelSettings(model=sys.argv[1], n_ctx=int(sys.argv[2]), verbose=False, **threads)
app = create_app(server_settings=ServerSettings(), model_settings=[model])
listening = socket.socket()
listening.bind(("127.0.0.1", 0))
listening.listen()
print(listening.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])
"""
"""What `python -m llama_cpp.server` does, at a port that is free."""
CITIES = Raw((Span("The three largest cities of Germany are"),))
CHAT = Chat((Turn("user", (Span("Name three colours."),)),))


class Served:
    """A server of its own for a file, while it is entered."""

    def __init__(self, file, window=WINDOW):
        self._arguments = [sys.executable, "-c", SERVE, str(file), str(window)]

    def __enter__(self):
        self._process = subprocess.Popen(
            self._arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}/v1"
        return self

    def __exit__(self, *raised):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def spec(self, options=f"server=llama-cpp-python&context={WINDOW}"):
        return f"openai:smollm2@{self.url}?{options}&attempts=1"


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


@pytest.mark.parametrize("prompt", [CITIES, CHAT], ids=["text", "chat"])
def test_a_text_with_its_signals(model, local, prompt):
    want = Want(logprob=True, top_logprobs=3, entropy=True)
    (here,), (there,) = (write(each, prompt, want, max_tokens=12) for each in (model, local))
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


def test_characters_that_it_loses_beside_log_probabilities_are_an_error(model):
    flowers = Raw((Span("🌸🌻" * 7),))
    assert write(model, flowers, max_tokens=6)[0].text == "🌸🌸"
    with pytest.raises(ModelFailure, match="loses characters that are spread over several tokens"):
        write(model, flowers, Want(logprob=True), max_tokens=6)


def test_it_is_streamed_and_ends_with_a_cut(model, local):
    pieces = []
    (cut,) = write(model, CITIES, until=After(3), watch=pieces.append, max_tokens=200)
    (whole,) = write(local, CITIES, until=After(3), max_tokens=200)
    assert (cut.text, cut.finish) == (whole.text, "enough")
    assert len(pieces) > 1
    assert "".join(pieces) == cut.text


def test_stop_strings_to_the_letter(model, local):
    (here,), (there,) = (write(each, CITIES, stop=("erl",), max_tokens=30) for each in (model, local))
    assert (here.text, here.finish) == (there.text, "stop")


def test_prompt_tokens_are_those_of_the_model(model, local):
    assert model.count(CITIES) == local.count(CITIES)
    assert model.count(CHAT) >= local.count(CHAT)
    (written,) = write(model, CITIES, max_tokens=2)
    assert written.prompt_tokens == local.count(CITIES)


def test_a_text_is_gone_on_from(model):
    (whole,) = write(model, CITIES, Want(logprob=True), max_tokens=10)
    begun = tuple(token.id for token in whole.tokens[:4])
    (rest,) = write(model, Raw(CITIES.parts, (begun,)), Want(logprob=True), max_tokens=6)
    assert whole.text == "".join(token.text for token in whole.tokens[:4]) + rest.text


def test_the_same_seed_gives_the_same_text(model):
    texts = [write(model, CITIES, temperature=1.0, key=(key,), max_tokens=12)[0].text for key in "aab"]
    assert texts[0] == texts[1] != texts[2]


def test_the_check_finds_what_is_declared(served):
    report = asyncio.run(check(served.spec()))
    assert report.is_right, report
    assert all(each.works for each in report.findings if each.is_declared is None), report


def test_the_check_finds_penalties_that_nobody_asked_for(served):
    report = asyncio.run(check(served.spec("completions=1&top_logprobs=5&in_flight=1")))
    found = {each.ability: each for each in report.findings}
    greedy = found["at temperature 0 it writes the most probable token"]
    assert greedy.works is False
    assert "it wrote" in greedy.why


def test_scores_that_are_moved_by_one_token_are_refused(served):
    spec = served.spec("chat=0&completions=1&score=1&in_flight=1")
    with pytest.raises(ModelFailure, match=r"moved by one token: none for .+though score=1 is declared"):
        run(load_model(spec).score(CITIES, [" Berlin", " Bonn"]))


def test_scores_of_a_model_with_bos(tmp_path):
    file = save_gguf(tmp_path / "llama.gguf", *tiny_llama())
    prompt, options = Raw((Span("The cat sat on the"),)), [" river", " red ball"]
    with Served(file, 64) as served:
        model = load_model(served.spec("chat=0&completions=1&score=1&in_flight=1"))
        here = run(model.score(prompt, options))
    there = run(load_gguf(str(file)).score(prompt, options))
    for ours, theirs in zip(here, there, strict=True):
        assert ours.num_tokens == theirs.num_tokens
        assert ours.logprob == near(theirs.logprob, "weights, keys and values", "float16")


def test_a_text_beyond_its_window(model):
    long = Raw((Span("one two " * 300),))
    with pytest.raises(PromptTooLong, match=f"601 tokens and 20 more .* has a context window of {WINDOW}"):
        write(model, long)
    with pytest.raises(PromptTooLong, match="201 tokens and 400 more"):
        write(model, Raw((Span("one two " * 100),)), max_tokens=400)


def test_a_chat_beyond_its_window(model):
    chat = Chat((Turn("user", (Span("one two " * 300),)),))
    with pytest.raises(
        ModelFailure, match=f"without a choice.* to have {WINDOW} tokens: ask with fewer passages"
    ):
        write(model, chat)


def test_one_request_at_a_time(served, model):
    async def both(model):
        calls = [
            model.generate(CITIES, Sampling(40), key=("k",)),
            model.generate(CHAT, Sampling(40), key=("k",)),
        ]
        return await asyncio.gather(*calls, return_exceptions=True)

    assert [each[0].text for each in asyncio.run(both(model))] == [
        write(model, prompt, max_tokens=40)[0].text for prompt in (CITIES, CHAT)
    ]
    crowded = load_model(served.spec(f"server=llama-cpp-python&context={WINDOW}&in_flight=2"))
    broken = [each for each in asyncio.run(both(crowded)) if isinstance(each, Exception)]
    assert len(broken) == 1
    assert isinstance(broken[0], ModelUnavailable)
    assert "broke off its answer in the middle. If it answers one request at a time" in str(broken[0])
