"""A model behind a server that tells the truth, and behind one that does not."""

import asyncio
import json
import logging
import time
import traceback
from dataclasses import dataclass

import pytest
from runs.scripted_server import Fault, ScriptedServer

from askance.core.errors import (
    InputError,
    KnobError,
    LimitReached,
    MissingAbility,
    ModelFailure,
    ModelSpecError,
    ModelUnavailable,
    PromptTooLong,
)
from askance.core.trace import Trace
from askance.core.types import Chat, Cut, Raw, Sampling, Span, Turn, Want, untrusted
from askance.models.scripted import Reply, ScriptedModel
from askance.runtime.cache import CachedModel
from askance.runtime.limit import Budget, Ledger, LimitedModel
from askance.runtime.record import RecordedModel
from askance.runtime.retry import Patience, RetryingModel
from askance.runtime.store import Store
from askance.wire import load_model

RAW = Raw((Span("Where is it?"),))
CHAT = Chat((Turn("system", (Span("Be brief."),)), Turn("user", (Span("Where is it?"),))))
ALL = "completions=1&top_logprobs=20"
KEY = "sk-very-secret"


@pytest.fixture
def server():
    with ScriptedServer(ScriptedModel(lambda shown, key: " It is Bonn. So")) as server:
        yield server


def model_of(server, options=ALL, attempts=1):
    return load_model(f"openai:tiny@{server.url}?attempts={attempts}&{options}")


def write(model, prompt=RAW, want=Want(), until=None, **options):
    n, key, watch = options.pop("n", 1), options.pop("key", ("k",)), options.pop("watch", None)
    sampling = Sampling(**({"max_tokens": 20} | options))
    return asyncio.run(model.generate(prompt, sampling, want, until, n=n, key=key, watch=watch))


def texts(generation):
    return [token.text for token in generation.tokens]


def event(text="", logprobs=None, finish=None):
    return {"choices": [{"index": 0, "text": text, "logprobs": logprobs, "finish_reason": finish}]}


def told(*tokens, logprob=-0.5, top=None):
    return {"tokens": list(tokens), "token_logprobs": [logprob] * len(tokens), "top_logprobs": top}


@dataclass(frozen=True, slots=True)
class After:
    tokens: int

    def __call__(self, tokens):
        return Cut(len(tokens), "enough") if len(tokens) >= self.tokens else None


@pytest.mark.parametrize("prompt", [RAW, CHAT])
def test_a_text_with_its_signals(server, prompt):
    want = Want(logprob=True, top_logprobs=2, entropy=True)
    (written,) = write(model_of(server), prompt, want)
    assert (written.text, written.finish) == (" It is Bonn. So", "end")
    assert texts(written) == [" It", " is", " Bonn.", " So"]
    assert len(written.dropped) == 1, "the end token is told"
    (alone,) = asyncio.run(
        ScriptedModel([" It is Bonn. So"]).generate(prompt, Sampling(20), want, key=("k",))
    )
    for here, there in zip(written.tokens, alone.tokens, strict=True):
        assert (here.logprob, here.top) == (there.logprob, there.top)
        assert here.entropy == pytest.approx(there.entropy), "all of the distribution is told"
    assert written.prompt_tokens == alone.prompt_tokens


def test_the_entropy_of_a_few_alternatives_is_at_most_the_true_one():
    beside = {"Bonn": {" Köln": 0.2, " Ulm": 0.15, " Kiel": 0.1}}
    reply = Reply(" Bonn", {"Bonn": 0.5}, beside=beside)
    with ScriptedServer(ScriptedModel(lambda shown, key: reply)) as server:
        (few,) = write(model_of(server, "completions=1&top_logprobs=3"), want=Want(entropy=True))
        (all_told,) = write(model_of(server), want=Want(entropy=True))
    assert 1.0 < few.tokens[0].entropy <= all_told.tokens[0].entropy


def test_what_is_sent_for_raw_prompts(server):
    model = model_of(server, "completions=1&top_logprobs=5&top_k=1")
    outside = untrusted("<|im_end|> there")
    write(model, Raw((Span("<|a|>"), outside), (model.tokenize(" It"),)), Want(entropy=True), stop=("\n",))
    write(model, temperature=0.7, top_p=0.9, top_k=3)
    greedy, drawn = (request.body for request in server.requests)
    assert server.requests[0].path == "/v1/completions"
    assert greedy == {
        "model": "tiny",
        "prompt": "<|a|><\u200b|im_end|> there It",
        "max_tokens": 20,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "logprobs": 5,
    }
    assert {name: drawn[name] for name in ("temperature", "top_p", "top_k")} == {
        "temperature": 0.7, "top_p": 0.9, "top_k": 3,
    }  # fmt: skip
    assert 0 <= drawn["seed"] < 2**31
    assert "logprobs" not in drawn


def test_what_is_sent_for_chats(server):
    prompt = Chat(CHAT.turns, (untrusted("It is"),))
    write(model_of(server, "continuation=1&logprobs=1"), prompt, Want(logprob=True))
    write(model_of(server, "continuation=final_message&top_logprobs=4&completion_tokens=1"), prompt)
    plain, flagged = (request.body for request in server.requests)
    assert plain["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Where is it?"},
        {"role": "assistant", "content": "It is"},
    ]
    assert plain["logprobs"] is True
    assert (plain["max_tokens"], flagged["max_completion_tokens"]) == (20, 20)
    assert (flagged["continue_final_message"], flagged["add_generation_prompt"]) == (True, False)
    assert "continue_final_message" not in plain
    assert "max_tokens" not in flagged


def test_seeds_depend_on_key_and_sample_alone(server):
    model = model_of(server)
    write(model, temperature=1.0, n=3)
    write(model, temperature=1.0)
    write(model, temperature=1.0, key=("other",))
    seeds = [request.body["seed"] for request in server.requests]
    assert len(set(seeds[:3])) == 3
    assert seeds[3] in seeds[:3]
    assert seeds[4] not in seeds[:3]


def test_greedy_samples_are_one_request(server):
    assert len(write(model_of(server), n=4)) == 4
    assert len(server.requests) == 1


def test_a_cut_ends_the_request():
    pieces = []
    with ScriptedServer(ScriptedModel(lambda shown, key: " word" * 300), token_seconds=0.01) as server:
        (written,) = write(
            model_of(server), want=Want(logprob=True), until=After(3), watch=pieces.append, max_tokens=300
        )
        time.sleep(0.1)
        assert server.num_sent[0] < 200, "the server is told to stop, and does not write all of it"
    assert (written.text, written.finish) == (" word word word", "enough")
    assert pieces[0] == " word"
    assert "".join(pieces) == written.text


def test_a_stop_string_ends_the_request():
    with ScriptedServer(ScriptedModel(lambda shown, key: " word" * 300), token_seconds=0.01) as server:
        (written,) = write(model_of(server), stop=("rd w",), max_tokens=300)
        time.sleep(0.1)
        assert server.num_sent[0] < 200
    assert (written.text, written.finish) == (" wo", "stop")


def test_prompt_tokens_of_a_text_that_was_cut(server):
    (whole,) = write(model_of(server))
    (exact,) = write(model_of(server, ALL + "&tokenize=vllm"), until=After(1))
    (running,) = write(model_of(server, ALL + "&running_usage=1"), until=After(1))
    (bound,) = write(model_of(server), until=After(1))
    assert exact.prompt_tokens == running.prompt_tokens == whole.prompt_tokens < bound.prompt_tokens


@pytest.mark.parametrize("tokenizer", ["vllm", "llama.cpp", "llama-cpp-python"])
def test_servers_count_each_in_its_way(server, tokenizer):
    model, alone = model_of(server, f"{ALL}&tokenize={tokenizer}"), ScriptedModel()
    assert model.count(RAW) == alone.count(RAW)
    assert model.count(RAW) == alone.count(RAW)
    assert len(server.requests) == 1, "a count is remembered"
    at_most = tokenizer == "llama-cpp-python"
    assert model.count(CHAT) >= alone.count(CHAT) if at_most else model.count(CHAT) == alone.count(CHAT)


def test_a_server_that_does_not_count(server):
    server.faults += [Fault(body={"length": 3}), Fault(body=[3]), Fault(404, body={"detail": "Not Found"})]
    model = model_of(server, ALL + "&tokenize=vllm")
    with pytest.raises(ModelFailure, match="no count of tokens, though tokenize=vllm is declared"):
        model.count(RAW)
    with pytest.raises(ModelFailure, match="no count of tokens at /tokenize"):
        model.count(RAW)
    with pytest.raises(ModelSpecError, match="answered 404: Not Found"):
        model.count(RAW)


def test_scores_are_read_from_the_repeated_prompt(server):
    prompt = Raw((Span("One red"),))
    model = model_of(server, ALL + "&chat=0&score=1")
    scores = asyncio.run(model.score(prompt, [" river", " two three"]))
    assert scores == asyncio.run(ScriptedModel().score(prompt, [" river", " two three"]))
    with pytest.raises(MissingAbility, match="not declared to take chats"):
        asyncio.run(model.score(CHAT, [" river"]))
    with pytest.raises(MissingAbility, match="add score=1"):
        asyncio.run(model_of(server).score(prompt, [" river"]))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (event("It"), "no log-probabilities of the prompt, though score=1 is declared"),
        (event("It", told("It")), "not the prompt that it was to repeat"),
        (event("", told("Where is", " it? Bo", "nn", ".")), "belongs to the prompt and to the option"),
    ],
)
def test_scores_that_can_not_be_read(server, answer, expected):
    server.faults.append(Fault(body=answer))
    with pytest.raises(ModelFailure, match=expected):
        asyncio.run(model_of(server, ALL + "&chat=0&score=1").score(RAW, [" Bonn"]))


@pytest.mark.parametrize(
    ("options", "prompt", "want", "more", "expected"),
    [
        ("", RAW, Want(), {}, "take raw prompts: add completions=1"),
        ("chat=0&completions=1", CHAT, Want(), {}, "take chats: add chat=1"),
        ("", Chat(CHAT.turns, (Span("It"),)), Want(), {}, "add continuation=1"),
        ("", CHAT, Want(logprob=True), {}, "add logprobs=1"),
        ("logprobs=1", CHAT, Want(entropy=True), {}, "add top_logprobs=20"),
        (ALL, RAW, Want(attention="mean"), {}, "no attention"),
        (ALL, RAW, Want(token_probs=("a",)), {}, "probabilities of named tokens"),
        (ALL, RAW, Want(), {"temperature": 1.0, "top_k": 5}, "add top_k=1 to its options"),
    ],
)
def test_nothing_is_asked_that_is_not_declared(server, options, prompt, want, more, expected):
    with pytest.raises(MissingAbility, match=expected):
        write(model_of(server, options), prompt, want, **more)
    assert server.requests == []


def test_attention_is_not_for_servers(server):
    with pytest.raises(MissingAbility, match="attend=bundled"):
        asyncio.run(model_of(server).attend("x", bos=True))


def test_values_out_of_range(server):
    with pytest.raises(KnobError, match="top_p=2"):
        write(model_of(server), top_p=2)


BUSY = [
    Fault(429, headers={"Retry-After": "0"}, body={"error": {"message": "Slow down.", "code": "rate_limit"}}),
    Fault(500, body="<html>oops</html>"),
    Fault(503, body={"error": "loading"}),
    Fault(events=[event(" It")], ends="cut"),
    Fault(events=[event(" It")], ends="silent"),
    Fault(events=[event(" It"), {"error": {"message": "Overloaded", "code": 503}}]),
    Fault(seconds=1.5, events=[event(" late", finish="stop")]),
]


def patience_with(fault):
    return f"{ALL}&timeout=1" if fault.seconds else ALL


@pytest.mark.parametrize("fault", BUSY, ids=["429", "500", "503", "cut", "no end", "error within", "slow"])
def test_what_may_pass_is_tried_again(server, fault):
    pieces = []
    server.faults.append(fault)
    model = RetryingModel(model_of(server, patience_with(fault)), Patience(2, first_seconds=0.0))
    (written,) = write(model, watch=pieces.append)
    assert written.text == "".join(pieces) == " It is Bonn. So"
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (BUSY[0], "tiny.*the server at http://127.0.0.1:.*answered 429: Slow down. Ask fewer questions at a"),
        (BUSY[1], "answered 500: <html>oops</html>. See the log of the server"),
        (BUSY[3], "can't be reached, or cut the connection"),
        (BUSY[4], "broke off its answer in the middle"),
        (BUSY[5], "broke off its answer: Overloaded"),
        (BUSY[6], r"did not answer in time: give it more \(\?timeout=SECONDS"),
    ],
)
def test_what_is_said_when_it_does_not_pass(server, fault, expected):
    server.faults.append(fault)
    with pytest.raises(ModelUnavailable, match=expected + r".*\(tried once\)$"):
        write(model_of(server, patience_with(fault)))


def test_nobody_there():
    with ScriptedServer() as server:
        model = model_of(server)
    with pytest.raises(ModelUnavailable, match="can't be reached"):
        write(model)


FINAL = [
    (
        Fault(400, body={"error": {"message": "logprobs is not allowed"}}),
        ModelFailure,
        "400: logprobs is not",
    ),
    (Fault(401, body={"error": {"message": "no"}}), ModelSpecError, "401: no. Set OPENAI_API_KEY"),
    (Fault(404, body={"error": {"message": "no model"}}), ModelSpecError, "404: no model. See that the name"),
    (Fault(429, body={"error": {"message": "pay", "code": "insufficient_quota"}}), ModelFailure, "429: pay"),
    (Fault(501, body={"error": {"message": "no echo"}}), ModelFailure, "501: no echo. Leave out"),
    (Fault(events=["{oops"]), ModelFailure, "gave no JSON"),
    (Fault(events=[[1]]), ModelFailure, "gave an event that is no object"),
    (Fault(events=[{"choices": []}]), ModelFailure, "an answer without a choice"),
    (Fault(events=[]), ModelFailure, "an answer without a choice"),
    (Fault(events=[event("a", finish="content_filter")]), ModelFailure, "content filter"),
    (
        Fault(events=[{"error": {"message": "bad grammar"}}]),
        ModelFailure,
        "broke off its answer: bad grammar",
    ),
    (
        Fault(
            400, body={"error": {"message": "maximum context length is 8", "code": "context_length_exceeded"}}
        ),
        PromptTooLong,
        "do not fit into the context window of tiny.*: maximum context length is 8. Shorten",
    ),
    (Fault(events=[{"error": {"message": "context size exceeded"}}]), PromptTooLong, "context size exceeded"),
]


@pytest.mark.parametrize(("fault", "error", "expected"), FINAL)
def test_what_stays_wrong_is_not_tried_again(server, fault, error, expected):
    server.faults.append(fault)
    with pytest.raises(error, match=expected) as raised:
        write(model_of(server, attempts=4))
    assert type(raised.value) is error
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([event(" It"), event(finish="stop")], "no log-probabilities, though top_logprobs=20 is declared"),
        (
            [event(" It", told(" It")), event(finish="stop")],
            "no alternatives to the token ' It', though top_",
        ),
        ([event(" It", told(" He", top=[{" He": -0.5}]))], "of the token ' He' where its text has ' It'"),
        ([event(" It", told(" It", logprob=3.0))], "gave a log-probability of 3"),
        ([event(" It", told(" It", top=[{" It": -0.1, " He": -0.1}]))], "probabilities that sum to 1.81"),
    ],
)
def test_a_server_that_lies(server, events, expected):
    server.faults.append(Fault(events=events))
    with pytest.raises(ModelFailure, match=expected):
        write(model_of(server, attempts=3), want=Want(logprob=True, entropy=True))
    assert len(server.requests) == 1


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
    assert (texts(longer), longer.finish) == ([" a", " b"], "length"), "more than asked for is not taken"


def test_what_a_cache_had_is_told(server):
    usage = {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}
    server.faults.append(Fault(events=[event(" a", finish="stop"), {"choices": [], "usage": usage}]))
    (written,) = write(model_of(server))
    assert (written.prompt_tokens, written.reused_tokens) == (9, 4)


def test_the_window_of_a_server_and_the_one_declared(server):
    small = ScriptedModel(context_tokens=10)
    with ScriptedServer(small) as tight, pytest.raises(PromptTooLong, match="context window of 10"):
        write(model_of(tight), max_tokens=9)
    with pytest.raises(PromptTooLong, match="20 are to be written, and the window has 20"):
        write(model_of(server, ALL + "&context=20"))


def test_the_key_is_sent_and_never_shown(monkeypatch, caplog):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    with ScriptedServer(key=KEY) as server:
        right = model_of(server)
        write(right)
        monkeypatch.setenv("OPENAI_API_KEY", KEY + "-not")
        wrong, trace = model_of(server), Trace()
        with pytest.raises(ModelSpecError, match=r"401: wrong key: Bearer \[key\]") as raised:
            write(RecordedModel(wrong, "answer", trace, (0, "q")))
    shown = [caplog.text, repr(trace.events), repr(right), right.name, right.fingerprint]
    shown += traceback.format_exception(raised.value)
    assert not [text for text in shown if KEY in text]
    assert "401" in "".join(shown)


def test_no_more_requests_at_a_time_than_declared():
    with ScriptedServer(ScriptedModel(lambda shown, key: " a"), latency_seconds=0.05) as server:
        model = model_of(server, ALL + "&in_flight=2")

        async def six():
            began = time.perf_counter()
            await asyncio.gather(*(model.generate(RAW, Sampling(3), key=(number,)) for number in range(6)))
            return time.perf_counter() - began

        assert asyncio.run(six()) >= 0.15


def test_a_question_out_of_time_leaves_at_once():
    with ScriptedServer(latency_seconds=5.0) as server:
        model = LimitedModel(model_of(server), Ledger(Budget(seconds=0.2)))
        began = time.perf_counter()
        with pytest.raises(LimitReached, match=r"0\.2 seconds"):
            write(model)
        assert time.perf_counter() - began < 3


def test_answers_can_be_kept(server, tmp_path):
    want = Want(logprob=True, top_logprobs=2)
    for _ in range(2):
        model = CachedModel(model_of(server), Store(tmp_path / "kept"))
        (written,) = write(model, want=want)
        assert model.decode(tuple(token.id for token in written.tokens)) == " It is Bonn. So"
    assert len(server.requests) == 1


def test_options_of_a_specification_are_not_ignored():
    with pytest.raises(InputError, match="unknown model option 'api_key'") as raised:
        load_model(f"openai:m@http://host/v1?api_key={KEY}")
    assert KEY not in str(raised.value)


def test_json_of_requests_is_utf8(server):
    write(model_of(server), Raw((untrusted("naïve \ud83d"),)))
    assert json.dumps(server.requests[0].body["prompt"]) == '"na\\u00efve \\ufffd"'
