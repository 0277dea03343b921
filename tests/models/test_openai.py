"""Test a model on a server whose responses are correct."""

import asyncio
import time

import pytest
from tests.models.scripted_server import Fault, ScriptedServer
from tests.models.served import ALL, CHAT, RAW, After, event, logprobs_of, model_of, texts, write
from tests.tolerances import near

from askance.ask import Engine
from askance.core.errors import MissingAbility, ModelFailure
from askance.core.token_ledger import Budget
from askance.core.types import GenerateRequest, Passage, Raw, Sampling, Span, Want
from askance.methods.baselines import Single
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever


@pytest.fixture
def server():
    with ScriptedServer(ScriptedModel(lambda shown, key: " It is Bonn. So")) as server:
        yield server


@pytest.mark.parametrize("prompt", [RAW, CHAT])
def test_a_text_with_its_signals(server, prompt):
    want = Want(logprob=True, top_logprobs=2, entropy=True)
    (written,) = write(model_of(server), prompt, want)
    assert (written.text, written.finish) == (" It is Bonn. So", "end")
    assert texts(written) == [" It", " is", " Bonn.", " So"]
    assert len(written.dropped) == 1, "the server reports the end token"
    (alone,) = asyncio.run(
        ScriptedModel([" It is Bonn. So"]).generate(GenerateRequest(prompt, Sampling(20), want, key=("k",)))
    )
    for here, there in zip(written.tokens, alone.tokens, strict=True):
        assert (here.logprob, here.top) == (there.logprob, there.top)
        assert here.entropy == near(there.entropy), "the server reports the whole distribution"
    assert written.prompt_tokens == alone.prompt_tokens


@pytest.mark.parametrize(
    ("options", "expected"),
    [({"until": After(3)}, (" word word word", "enough")), ({"stop": ("rd w",)}, (" wo", "stop"))],
)
def test_a_cut_or_a_stop_string_ends_the_request(options, expected):
    pieces = []
    with ScriptedServer(ScriptedModel(lambda shown, key: " word" * 300), token_seconds=0.01) as server:
        (written,) = write(model_of(server), on_text=pieces.append, max_tokens=300, **options)
        time.sleep(0.1)
        assert server.num_sent[0] < 200, "the server stops before the end of the text"
    assert (written.text, written.finish) == expected
    assert "".join(pieces) == written.text


def test_prompt_tokens_of_a_text_that_was_cut(server):
    (whole,) = write(model_of(server))
    (exact,) = write(model_of(server, ALL + "&tokenize=vllm"), until=After(1))
    (running,) = write(model_of(server, ALL + "&running_usage=1"), until=After(1))
    (bound,) = write(model_of(server), until=After(1))
    assert exact.prompt_tokens == running.prompt_tokens == whole.prompt_tokens < bound.prompt_tokens
    assert [written.is_upper_bound for written in (whole, exact, running, bound)] == [
        False,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize("tokenizer", ["vllm", "llama.cpp", "llama-cpp-python"])
def test_servers_count_each_in_its_way(server, tokenizer):
    model, alone = model_of(server, f"{ALL}&tokenize={tokenizer}"), ScriptedModel()
    assert asyncio.run(model.count(RAW)) == asyncio.run(alone.count(RAW))
    assert asyncio.run(model.count(RAW)) == asyncio.run(alone.count(RAW))
    assert len(server.requests) == 1, "a count is remembered"
    at_most = tokenizer == "llama-cpp-python"
    counted, expected = asyncio.run(model.count(CHAT)), asyncio.run(alone.count(CHAT))
    assert counted >= expected if at_most else counted == expected


def test_others_go_on_while_a_slow_server_counts():
    """A question with every limit of tokens: each of its requests waits, and the event loop never does."""
    reply = ScriptedModel(lambda shown, key: " It is Bonn. So the answer is Bonn.")
    with ScriptedServer(reply, latency_seconds=0.5) as server:
        model, num_requests = model_of(server, ALL + "&tokenize=vllm"), []
        retriever = ScriptedRetriever({"Where?": [Passage("1", "Bonn", "A city.")]})
        engine = Engine(
            Single(passages=1, l_max=900), {"answer": model}, retriever, budget=Budget(tokens=900)
        )

        async def others(asking):
            while not asking.done():
                num_requests.append(len(server.requests))
                await asyncio.sleep(0.01)

        async def together():
            asking = asyncio.create_task(engine.answer("Where?"))
            await others(asking)
            return asking.result()

        assert asyncio.run(together()).answer.short == "Bonn"
    assert [request.path for request in server.requests] == ["/tokenize"] * 2 + ["/v1/completions"]
    assert {*num_requests} == {0, 1, 2, 3}, "the others were served during each request"


def test_scores_are_read_from_the_repeated_prompt(server):
    prompt = Raw((Span("One red"),))
    model = model_of(server, ALL + "&chat=0&score=1")
    scores = asyncio.run(model.score(prompt, [" river", " two three"]))
    assert scores == asyncio.run(ScriptedModel().score(prompt, [" river", " two three"]))
    with pytest.raises(MissingAbility, match="scores options only after raw prompts"):
        asyncio.run(model.score(CHAT, [" river"]))
    with pytest.raises(MissingAbility, match="give score: add chat=0&completions=1&score=1"):
        asyncio.run(model_of(server).score(prompt, [" river"]))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (event("It"), "no log-probabilities of the prompt"),
        (event("It", logprobs_of("It")), "not the prompt that it was to repeat"),
        (event("", logprobs_of("Where is", " it? Bo", "nn", ".")), "belongs to the prompt and to the option"),
        (
            event("Where is it? Bonn.", logprobs_of("Where is it?", " Bonn")),
            "moved by one token: none for '.'",
        ),
    ],
)
def test_scores_that_can_not_be_read(server, answer, expected):
    server.faults.append(Fault(body=answer))
    with pytest.raises(ModelFailure, match=expected):
        asyncio.run(model_of(server, ALL + "&chat=0&score=1").score(RAW, [" Bonn"]))


def test_characters_in_parts():
    flower = "🌸".encode()
    chat = [
        {"choices": [{"delta": {"content": text}, "logprobs": {"content": [entry]}, "finish_reason": None}]}
        for text, entry in [
            ("", {"token": "\\xf0\\x9f", "bytes": list(flower[:2]), "logprob": -0.1}),
            ("🌸", {"token": "\\x8c\\xb8", "bytes": list(flower[2:]), "logprob": -0.2}),
            ("!", {"token": "!", "bytes": [33], "logprob": -0.3}),
        ]
    ]
    with ScriptedServer() as server:
        server.faults.append(Fault(events=[*chat, {"choices": [{"delta": {}, "finish_reason": "stop"}]}]))
        model = model_of(server, "logprobs=1")
        (written,) = write(model, CHAT, Want(logprob=True))
    assert texts(written) == ["", "🌸", "!"]
    assert [(token.start, token.end) for token in written.tokens] == [(0, 0), (0, 1), (1, 2)]
    assert [token.logprob for token in written.tokens] == [-0.1, -0.2, -0.3]
    assert model.decode(tuple(token.id for token in written.tokens)) == "🌸!"


def test_a_server_that_counts_tokens_otherwise(server):
    server.faults.append(Fault(events=[event(" It is"), event(" Bonn", finish="length")]))
    (written,) = write(model_of(server), max_tokens=3)
    assert (texts(written), written.finish) == ([" It is", " Bonn"], "length")
    server.faults.append(Fault(events=[event(" a"), event(" b"), event(" c"), event(" d")]))
    (longer,) = write(model_of(server), max_tokens=2)
    assert (texts(longer), longer.finish) == ([" a", " b"], "length"), "text beyond the limit is dropped"
