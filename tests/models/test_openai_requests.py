"""Test the content, number and duration of requests, and that the API key is never shown."""

import asyncio
import logging
import time
import traceback

import pytest
from tests.models.scripted_server import Fault, ScriptedServer
from tests.models.served import ALL, CHAT, KEY, RAW, model_of, write

from askance.configuration.build import load_model
from askance.core.errors import (
    InputError,
    MissingAbility,
    ModelSpecError,
    PromptTooLong,
    RequestRefused,
)
from askance.core.notes import noted
from askance.core.trace import Trace
from askance.core.types import Chat, GenerateRequest, Raw, Sampling, Span, Want, untrusted
from askance.middleware.session import Session, SessionModel
from askance.models.scripted import ScriptedModel


@pytest.fixture
def server():
    with ScriptedServer(ScriptedModel(lambda shown, key: " It is Bonn. So")) as server:
        yield server


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


def test_a_server_with_penalties_of_its_own_gets_neutral_values(server):
    model = model_of(server, "completions=1&neutral=1&top_k=1")
    write(model)
    write(model, temperature=1.0, top_k=7)
    greedy, drawn = (request.body for request in server.requests)
    assert (greedy["repeat_penalty"], greedy["min_p"], greedy["top_k"]) == (1.0, 0.0, 0)
    assert (drawn["repeat_penalty"], drawn["min_p"], drawn["top_k"]) == (1.0, 0.0, 7)


def test_one_alternative_is_asked_for_where_only_log_probabilities_are_wanted(server):
    write(model_of(server, "top_logprobs=5"), CHAT, Want(logprob=True))
    write(model_of(server, "logprobs=1"), CHAT, Want(logprob=True))
    with_top, without = (request.body for request in server.requests)
    assert (with_top["logprobs"], with_top["top_logprobs"]) == (True, 1)
    assert "top_logprobs" not in without


def test_a_server_that_does_not_guard_its_window_is_asked_how_long_a_prompt_is(server):
    model, context = model_of(server, "completions=1&tokenize=llama-cpp-python&context=40"), 40
    exact = asyncio.run(ScriptedModel().count(RAW))
    write(model, max_tokens=10)
    assert [request.path for request in server.requests] == ["/v1/completions"], "it fits in any case"
    assert write(model, max_tokens=context - exact)[0].text == " It is Bonn. So"
    server.requests.clear()
    with pytest.raises(PromptTooLong, match=f"{exact} or more tokens, {context - exact + 1} to write"):
        write(model, max_tokens=context - exact + 1)
    assert server.requests == []


def test_a_window_that_is_full_is_noted(server):
    exact, notes = asyncio.run(ScriptedModel().count(RAW)), []
    with noted(lambda name, text: notes.append((name, text))):
        write(model_of(server, f"{ALL}&context={exact + 20}"), max_tokens=20)
        assert notes == []
        write(model_of(server, f"{ALL}&context={exact + 19}"), max_tokens=20)
    ((name, text),) = notes
    assert name == "window"
    assert f"read {exact} tokens with 20 more to write and has a window of {exact + 19}" in text


def test_seeds_depend_on_key_and_sample_alone(server):
    model = model_of(server)
    write(model, temperature=1.0, n=3)
    write(model, temperature=1.0)
    write(model, temperature=1.0, key=("other",))
    seeds = [request.body["seed"] for request in server.requests]
    assert len(set(seeds[:3])) == 3
    assert seeds[3] in seeds[:3]
    assert seeds[4] not in seeds[:3]


@pytest.mark.parametrize(
    ("options", "prompt", "want", "more", "expected"),
    [
        ("chat=1", RAW, Want(), {}, "give raw: add completions=1"),
        ("chat=0&completions=1", CHAT, Want(), {}, "give chat: add chat=1"),
        ("chat=1", Chat(CHAT.turns, (Span("It"),)), Want(), {}, "add continuation=1"),
        ("chat=1", CHAT, Want(logprob=True), {}, "add logprobs=1"),
        ("logprobs=1", CHAT, Want(entropy=True), {}, "add top_logprobs=5"),
        (ALL, RAW, Want(attention="mean"), {}, "give attention: no server returns that"),
        (ALL, RAW, Want(token_probs=("a",)), {}, "give token_probs: no server returns that"),
    ],
)
def test_nothing_is_asked_that_is_not_declared(server, options, prompt, want, more, expected):
    with pytest.raises(MissingAbility, match=expected):
        write(model_of(server, options), prompt, want, **more)
    assert server.requests == []


def test_top_k_is_left_out_where_it_is_not_declared_and_that_is_noted(server):
    notes = []
    with noted(lambda name, text: notes.append((name, text))):
        write(model_of(server), temperature=1.0, top_k=5)
        write(model_of(server), temperature=0.0, top_k=5)
    assert "top_k" not in server.requests[0].body
    ((name, text),) = notes
    assert name == "top_k"
    assert "not declared to support top_k=5, and draws from all tokens: add top_k=1 to its" in text


def refusing(server, *parameters, shape="Unrecognized request argument supplied: {}"):
    def answer(request):
        sent = {**request.body, **request.body.get("stream_options", {})}
        named = next((name for name in parameters if name in sent), None)
        return named and Fault(400, body={"error": {"message": shape.format(named), "param": None}})

    server.answers = answer


@pytest.mark.parametrize(
    ("parameter", "options", "sampling", "consequence"),
    [
        ("seed", "", {"temperature": 1.0}, ": samples are not the same when they are drawn again."),
        ("stream_options", "", {}, ": askance counts the prompt tokens itself."),
        (
            "continuous_usage_stats",
            "running_usage=1",
            {},
            ": askance counts the prompt tokens of a cut text itself.",
        ),
        ("top_k", "top_k=1", {"temperature": 1.0, "top_k": 5}, ": samples are drawn from all tokens."),
        ("min_p", "neutral=1", {}, "from here on."),
        ("repeat_penalty", "neutral=1", {}, "from here on."),
    ],
)
@pytest.mark.parametrize(
    "shape", ["Unknown parameter: '{}'.", "does not support parameters: ['{}'], for model=m"]
)
def test_a_parameter_that_is_refused_is_left_out_and_noted(
    server, parameter, options, sampling, consequence, shape
):
    refusing(server, parameter, shape=shape)
    model, notes = model_of(server, f"{ALL}&{options}"), []
    with noted(lambda name, text: notes.append((name, text))):
        for _ in range(2):
            assert write(model, **sampling)[0].text == " It is Bonn. So"
    refused, *others = server.requests
    assert len(others) == 2, "once it is known, it is not sent again"
    for request in others:
        sent = {**request.body, **request.body.get("stream_options", {})}
        assert parameter not in sent
        assert {**request.body, "stream_options": 0}.keys() >= refused.body.keys() - {parameter} - {
            "min_p", "repeat_penalty", "top_k",
        }  # fmt: skip
    (note,) = [text for name, text in notes if name == "refused"]
    assert f"refuses {parameter}, which is left out from here on" in note
    assert consequence in note


def test_a_length_is_given_by_the_name_that_the_server_takes(server):
    refusing(server, "max_tokens", shape="Unsupported parameter: '{}'. Use 'max_completion_tokens' instead.")
    assert write(model_of(server, "chat=1"), CHAT)[0].text == " It is Bonn. So"
    assert [name for name in ("max_tokens", "max_completion_tokens") if name in server.requests[-1].body] == [
        "max_completion_tokens"
    ]


@pytest.mark.parametrize(
    ("parameters", "options", "prompt"),
    [
        (("max_tokens", "max_completion_tokens"), "chat=1", CHAT),
        (("max_tokens",), ALL, RAW),
        (("temperature",), ALL, RAW),
        (("logprobs",), ALL, RAW),
    ],
)
def test_a_parameter_that_all_depends_on_is_not_left_out(server, parameters, options, prompt):
    refusing(server, *parameters)
    with pytest.raises(
        RequestRefused, match=r"answered 400: Unrecognized request argument supplied: (max|t|l)"
    ):
        write(model_of(server, options), prompt, Want(logprob=options == ALL))
    assert len(server.requests) <= 3


def test_requests_at_the_same_time_that_are_refused(server):
    refusing(server, "seed")
    model, notes = model_of(server), []

    async def five():
        return await asyncio.gather(
            *(
                model.generate(GenerateRequest(RAW, Sampling(20, temperature=1.0), key=(number,)))
                for number in range(5)
            )
        )

    with noted(lambda name, text: notes.append(name)):
        assert {written.text for (written,) in asyncio.run(five())} == {" It is Bonn. So"}
    assert notes == ["refused"]


def test_options_of_a_specification_are_not_ignored():
    with pytest.raises(InputError, match="unknown model option 'api_key'") as raised:
        load_model(f"openai:m@http://host/v1?api_key={KEY}")
    assert KEY not in str(raised.value)


def test_the_key_is_sent_and_never_shown(monkeypatch, caplog):
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")  # A file of secrets may end with a line break.
    caplog.set_level(logging.DEBUG)
    with ScriptedServer(key=KEY) as server:
        right = model_of(server)
        write(right)
        monkeypatch.setenv("OPENAI_API_KEY", KEY + "-not")
        wrong, trace = model_of(server), Trace()
        with pytest.raises(ModelSpecError, match=r"401: wrong key: Bearer \[key\]") as raised:
            write(SessionModel(wrong, "answer", Session(trace, (0, "q"))))
    shown = [caplog.text, repr(trace.events), repr(right), right.name, right.fingerprint]
    shown += traceback.format_exception(raised.value)
    assert not [text for text in shown if KEY in text]
    assert "401" in "".join(shown)


def test_no_more_requests_at_a_time_than_declared():
    with ScriptedServer(ScriptedModel(lambda shown, key: " a"), latency_seconds=0.05) as server:
        model = model_of(server, ALL + "&in_flight=2")

        async def six():
            began = time.perf_counter()
            await asyncio.gather(
                *(model.generate(GenerateRequest(RAW, Sampling(3), key=(number,))) for number in range(6))
            )
            return time.perf_counter() - began

        assert asyncio.run(six()) >= 0.15
