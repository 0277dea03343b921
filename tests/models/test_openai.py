"""Test what a model on a server sends, what it reads from correct responses, and that it shows no key."""

import asyncio
import logging
import time
import traceback

import pytest
from tests.models.scripted_server import Fault, ScriptedServer
from tests.models.served import ALL, CHAT, KEY, RAW, After, event, logprobs_of, model_of, texts, write
from tests.tolerances import near

from askance.ask import Engine
from askance.configuration.build import load_model
from askance.core.errors import (
    InputError,
    MissingAbility,
    ModelFailure,
    ModelSpecError,
    PromptTooLong,
    RequestRefused,
)
from askance.core.notes import noted
from askance.core.token_ledger import Budget
from askance.core.trace import Trace
from askance.core.types import Chat, GenerateRequest, Passage, Raw, Sampling, Span, Want, untrusted
from askance.methods.baselines import Single
from askance.middleware.session import Session, SessionModel
from askance.models.openai.tokenization import tokenize
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever

TEXT = " It is Bonn. So"
SCORING = ALL + "&chat=0&score=1"


@pytest.fixture
def server():
    with ScriptedServer(ScriptedModel(lambda shown, key: TEXT)) as server:
        yield server


@pytest.fixture
def notes():
    notes = []
    with noted(lambda name, text: notes.append((name, text))):
        yield notes


def parameters(request):
    """Return the names of the parameters of a request."""
    return {*request.body, *request.body.get("stream_options", {})}


@pytest.mark.parametrize("prompt", [RAW, CHAT])
def test_a_text_has_the_signals_of_the_model_behind_the_server(server, prompt):
    want = Want(logprob=True, top_logprobs=2, entropy=True)
    (written,) = write(model_of(server), prompt, want)
    assert (written.text, written.finish) == (TEXT, "end")
    assert texts(written) == [" It", " is", " Bonn.", " So"]
    assert len(written.dropped) == 1, "the server reports the end token"
    (alone,) = write(ScriptedModel([TEXT]), prompt, want)
    assert [(token.logprob, token.top) for token in written.tokens] == [
        (token.logprob, token.top) for token in alone.tokens
    ]
    # The server reports the whole distribution.
    assert [token.entropy for token in written.tokens] == near([token.entropy for token in alone.tokens])
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
    assert [each.is_upper_bound for each in (whole, exact, running, bound)] == [False] * 3 + [True]


@pytest.mark.parametrize("tokenizer", ["vllm", "llama.cpp", "llama-cpp-python"])
def test_each_server_counts_in_its_way(server, tokenizer):
    model, alone = model_of(server, f"{ALL}&tokenize={tokenizer}"), ScriptedModel()
    for _ in range(2):
        assert asyncio.run(model.count(RAW)) == asyncio.run(alone.count(RAW))
    assert len(server.requests) == 1, "a count is cached"
    counted, exact = asyncio.run(model.count(CHAT)), asyncio.run(alone.count(CHAT))
    assert counted >= exact if tokenizer == "llama-cpp-python" else counted == exact


def test_other_tasks_go_on_while_a_slow_server_counts():
    """A question with every limit of tokens: each of its requests waits, and the event loop never does."""
    reply = ScriptedModel(lambda shown, key: " It is Bonn. So the answer is Bonn.")
    with ScriptedServer(reply, latency_seconds=0.5) as server:
        model, num_requests = model_of(server, ALL + "&tokenize=vllm"), set()
        retriever = ScriptedRetriever({"Where?": [Passage("1", "Bonn", "A city.")]})
        method, budget = Single(passages=1, l_max=900), Budget(tokens=900)
        engine = Engine(method, {"answer": model}, retriever, budget=budget)

        async def together():
            asking = asyncio.create_task(engine.answer("Where?"))
            while not asking.done():
                num_requests.add(len(server.requests))
                await asyncio.sleep(0.01)
            return asking.result()

        assert asyncio.run(together()).answer.short == "Bonn"
    assert [request.path for request in server.requests] == ["/tokenize"] * 2 + ["/v1/completions"]
    assert num_requests == {0, 1, 2, 3}, "other tasks ran during each request"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (event("It"), "no log-probabilities of the prompt"),
        (event("It", logprobs_of("It")), "not the prompt that it was to repeat"),
        (event("", logprobs_of("Where is", " it? Bo", "nn", ".")), "belongs to the prompt and to the option"),
        (event("Where is it? Bonn.", logprobs_of("Where is it?", " Bonn")), "by one token: none for '.'"),
    ],
)
def test_scores_are_read_from_the_repeated_prompt(server, answer, message):
    model, options = model_of(server, SCORING), [" Bonn", " two three"]
    scores = asyncio.run(model.score(RAW, options))
    assert scores == asyncio.run(ScriptedModel().score(RAW, options))
    server.faults.append(Fault(body=answer))
    with pytest.raises(ModelFailure, match=message):
        asyncio.run(model.score(RAW, [" Bonn"]))


def test_a_server_that_counts_tokens_otherwise(server):
    server.faults.append(Fault(events=[event(" It is"), event(" Bonn", finish="length")]))
    server.faults.append(Fault(events=[event(" a"), event(" b"), event(" c"), event(" d")]))
    (shorter,), (longer,) = write(model_of(server), max_tokens=3), write(model_of(server), max_tokens=2)
    assert (texts(shorter), shorter.finish) == ([" It is", " Bonn"], "length")
    assert (texts(longer), longer.finish) == ([" a", " b"], "length"), "text beyond the limit is dropped"


def test_characters_in_parts(server):
    tokens = [("", "bytes:\\xf0\\x9f", -0.1), ("🌸", "bytes:\\x8c\\xb8", -0.2), ("!", "!", -0.3)]
    events = [event(text, logprobs_of(token, logprob=logprob)) for text, token, logprob in tokens]
    server.faults.append(Fault(events=[*events, event(finish="stop")]))
    model = model_of(server, "completions=1&logprobs=1")
    (written,) = write(model, RAW, Want(logprob=True))
    shown = [(token.text, token.start, token.end, token.logprob) for token in written.tokens]
    assert shown == [("", 0, 0, -0.1), ("🌸", 0, 1, -0.2), ("!", 1, 2, -0.3)]
    assert model.decode(tuple(token.id for token in written.tokens)) == "🌸!"


COMMON = {"model": "tiny", "stream": True, "stream_options": {"include_usage": True}}
TURNS = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where is it?"}]
ANSWER = {"role": "assistant", "content": "It is"}
GOING_ON = Chat(CHAT.turns, (untrusted("It is"),))
CONTROL = Raw((Span("<|a|>"), untrusted("<|im_end|> there")), (tokenize(" It"),))
NEUTRAL = {"repeat_penalty": 1.0, "min_p": 0.0}
DRAWN = {"temperature": 1.0, "top_p": 0.9, "top_k": 3}


@pytest.mark.parametrize(
    ("options", "prompt", "want", "sampling", "expected"),
    [
        ("top_logprobs=5", CONTROL, Want(entropy=True), {"stop": ("\n",)}, {"logprobs": 5}),
        ("top_k=1", RAW, Want(), DRAWN, DRAWN),
        ("top_k=1&neutral=1", RAW, Want(), {}, NEUTRAL | {"top_k": 0}),
        ("top_k=1&neutral=1", RAW, Want(), DRAWN, NEUTRAL | DRAWN),
        ("continuation=1&logprobs=1", GOING_ON, Want(logprob=True), {}, {"logprobs": True}),
        ("continuation=final_message&top_logprobs=4", GOING_ON, Want(), {}, {}),
        ("top_logprobs=5", CHAT, Want(logprob=True), {}, {"logprobs": True, "top_logprobs": 1}),
        ("completion_tokens=1", CHAT, Want(), {}, {}),
    ],
)
def test_requests(server, options, prompt, want, sampling, expected):
    write(model_of(server, f"completions=1&{options}"), prompt, want, **sampling)
    (request,) = server.requests
    body = dict(request.body)
    is_drawn, is_raw = "temperature" in sampling, isinstance(prompt, Raw)
    assert request.path == ("/v1/completions" if is_raw else "/v1/chat/completions")
    assert (0 <= body.pop("seed") < 2**31) if is_drawn else ("seed" not in body)
    expected = COMMON | {"temperature": 0.0} | expected
    expected |= {"max_completion_tokens" if "completion_tokens" in options else "max_tokens": 20}
    if is_raw:
        expected["prompt"] = "<|a|><\u200b|im_end|> there It" if prompt is CONTROL else "Where is it?"
    else:
        expected["messages"] = [*TURNS, ANSWER] if prompt is GOING_ON else TURNS
    if "final_message" in options:
        expected |= {"continue_final_message": True, "add_generation_prompt": False}
    assert body == expected


def test_a_prompt_that_does_not_fit_is_not_sent(server):
    """A server that does not guard its window is asked to count the prompt."""
    model, exact = model_of(server, ALL + "&tokenize=llama-cpp-python&context=40"), 3
    assert asyncio.run(ScriptedModel().count(RAW)) == exact
    write(model, max_tokens=10)
    assert [request.path for request in server.requests] == ["/v1/completions"], "it fits in any case"
    assert write(model, max_tokens=40 - exact)[0].text == TEXT
    server.requests.clear()
    with pytest.raises(PromptTooLong, match=f"{exact} or more tokens, {41 - exact} to write"):
        write(model, max_tokens=41 - exact)
    with pytest.raises(PromptTooLong, match="1 or more tokens, 20 to write, and the window has 20"):
        write(model_of(server, ALL + "&context=20"))
    assert server.requests == []


def test_a_full_window_and_an_undeclared_top_k_are_noted(server, notes):
    exact = asyncio.run(ScriptedModel().count(RAW))
    write(model_of(server, f"{ALL}&context={exact + 20}"), top_k=5)
    assert notes == []
    write(model_of(server, f"{ALL}&context={exact + 19}"))
    write(model_of(server), temperature=1.0, top_k=5)
    assert "top_k" not in server.requests[-1].body
    window, top_k = notes
    assert window[0] == "window"
    assert f"read {exact} tokens with 20 more to write and has a window of {exact + 19}" in window[1]
    assert top_k[0] == "top_k"
    assert "not declared to support top_k=5, and draws from all tokens: add top_k=1 to its" in top_k[1]


def test_seeds_depend_on_key_and_sample_alone(server):
    model = model_of(server)
    write(model, temperature=1.0, n=3)
    write(model, temperature=1.0)
    write(model, temperature=1.0, key=("other",))
    write(model, n=3)
    *three, again, other = (request.body["seed"] for request in server.requests[:-1])
    assert len({*three, other}) == 4
    assert again in three
    assert len(server.requests) == 6, "greedy samples are one request"


@pytest.mark.parametrize(
    ("options", "prompt", "want", "message"),
    [
        ("chat=1", RAW, Want(), "give raw: add completions=1"),
        ("chat=0&completions=1", CHAT, Want(), "give chat: add chat=1"),
        ("chat=1", Chat(CHAT.turns, (Span("It"),)), Want(), "add continuation=1"),
        ("chat=1", CHAT, Want(logprob=True), "add logprobs=1"),
        ("logprobs=1", CHAT, Want(entropy=True), "add top_logprobs=5"),
        (ALL, RAW, Want(attention="mean"), "give attention: no server returns that"),
        (ALL, RAW, Want(token_probs=("a",)), "give token_probs: no server returns that"),
        (ALL, RAW, None, "give score: add chat=0&completions=1&score=1"),
        (SCORING, CHAT, None, "scores options only after raw prompts"),
    ],
)
def test_nothing_is_asked_that_is_not_declared(server, options, prompt, want, message):
    model = model_of(server, options)
    with pytest.raises(MissingAbility, match=message):
        write(model, prompt, want) if want else asyncio.run(model.score(prompt, [" river"]))
    assert server.requests == []


def refuse(server, *names, shape="Unrecognized request argument supplied: {}"):
    def answer(request):
        refused = next((name for name in names if name in parameters(request)), None)
        return refused and Fault(400, body={"error": {"message": shape.format(refused), "param": None}})

    server.answers = answer


@pytest.mark.parametrize(
    ("refused", "options", "sampling", "consequence"),
    [
        ("seed", "", {"temperature": 1.0}, ": samples are not the same when they are drawn again."),
        ("stream_options", "", {}, ": askance counts the prompt tokens itself."),
        ("continuous_usage_stats", "running_usage=1", {}, ": askance counts the prompt tokens of a cut text"),
        ("top_k", "top_k=1", {"temperature": 1.0, "top_k": 5}, ": samples are drawn from all tokens."),
        ("min_p", "neutral=1", {}, "from here on."),
        ("repeat_penalty", "neutral=1", {}, "from here on."),
    ],
)
@pytest.mark.parametrize("shape", ["Unknown parameter: '{}'.", "does not support: ['{}'], for model=m"])
def test_a_refused_parameter_is_left_out_and_noted(
    server, notes, refused, options, sampling, consequence, shape
):
    refuse(server, refused, shape=shape)
    model = model_of(server, f"{ALL}&{options}")
    assert [write(model, **sampling)[0].text for _ in range(2)] == [TEXT, TEXT]
    first, *others = map(parameters, server.requests)
    related = {"min_p", "repeat_penalty", "top_k", "stream_options", "include_usage"}
    assert len(others) == 2, "once it is known, it is not sent again"
    assert all(first - related - {refused} <= sent <= first - {refused} for sent in others)
    (note,) = [text for name, text in notes if name == "refused"]
    assert f"refuses {refused}, which is left out from here on" in note
    assert consequence in note


@pytest.mark.parametrize(
    ("names", "options", "prompt"),
    [
        (("max_tokens", "max_completion_tokens"), "chat=1", CHAT),
        (("max_tokens",), ALL, RAW),
        (("temperature",), ALL, RAW),
        (("logprobs",), ALL, RAW),
    ],
)
def test_an_indispensable_parameter_is_not_left_out(server, names, options, prompt):
    refuse(server, "max_tokens")
    assert write(model_of(server, "chat=1"), CHAT)[0].text == TEXT, "the length has another name"
    assert server.requests.pop().body["max_completion_tokens"] == 20
    refuse(server, *names)
    with pytest.raises(RequestRefused, match="answered 400: Unrecognized request argument supplied: "):
        write(model_of(server, options), prompt, Want(logprob=options == ALL))
    assert len(server.requests) <= 4


def test_requests_at_the_same_time(server, notes):
    """A refusal is noted once, and no more requests are sent at a time than declared."""
    refuse(server, "seed")
    model, server.latency_seconds = model_of(server, ALL + "&in_flight=2"), 0.05
    sampling = Sampling(20, temperature=1.0)
    requests = [GenerateRequest(RAW, sampling, key=(number,)) for number in range(6)]

    async def generate():
        return await asyncio.gather(*map(model.generate, requests))

    began = time.perf_counter()
    assert {written.text for (written,) in asyncio.run(generate())} == {TEXT}
    assert time.perf_counter() - began >= 0.15
    assert [name for name, _ in notes] == ["refused"]


def test_the_key_is_sent_and_never_shown(monkeypatch, caplog):
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")  # A file of secrets may end with a line break.
    caplog.set_level(logging.DEBUG)
    with ScriptedServer(key=KEY) as server:
        right = model_of(server)
        write(right)
        monkeypatch.setenv("OPENAI_API_KEY", KEY + "-not")
        wrong, trace = model_of(server), Trace()
        with pytest.raises(ModelSpecError, match=r"401: wrong key: Bearer \[key\]") as refused:
            write(SessionModel(wrong, "answer", Session(trace, (0, "q"))))
    with pytest.raises(InputError, match="unknown model option 'api_key'") as unknown:
        load_model(f"openai:m@http://host/v1?api_key={KEY}")
    shown = [caplog.text, repr(trace.events), repr(right), right.name, right.fingerprint, str(unknown.value)]
    shown += traceback.format_exception(refused.value)
    assert not [text for text in shown if KEY in text]
    assert "401" in "".join(shown)
