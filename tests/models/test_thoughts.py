"""Test that thoughts of reasoning models are no part of answers, from servers and with chat templates."""

import pytest
from tests.models.scripted_server import Fault, ScriptedServer
from tests.models.served import CHAT, model_of, texts, write
from tests.models.test_local_prompt import changed

from askance.core.errors import ParameterError
from askance.core.notes import noted
from askance.core.types import Chat, Span, Want
from askance.inference.stopping import Thoughts
from askance.models.local.encoding import Encoding, Thinking

ANSWER = "It is Bonn."
TEXT_PARTS = [{"type": "text", "text": ANSWER}]


def delta(finish=None, logprobs=None, **fields):
    return {"choices": [{"index": 0, "delta": fields, "logprobs": logprobs, "finish_reason": finish}]}


def usage_of(num_thoughts):
    details = {"reasoning_tokens": num_thoughts}
    return {"prompt_tokens": 5, "completion_tokens": 20, "completion_tokens_details": details}


def chat_logprobs(*tokens):
    return {"content": [{"token": token, "logprob": -0.5} for token in tokens]}


HABITS = {
    "a field (vLLM, SGLang, llama.cpp, LiteLLM, DeepSeek)": [
        delta(reasoning_content="Hm.\n\n"),
        delta(reasoning_content="So Bonn.", content=None),
        delta(content=ANSWER),
    ],
    "a field of another name (Ollama, OpenRouter, newer vLLM)": [
        delta(reasoning="Hm.\n\nSo Bonn.", content=""),
        delta(content=ANSWER),
    ],
    "both in one event": [
        delta(reasoning_content="Hm.\n\nSo Bonn.", content="It is"),
        delta(content=" Bonn."),
    ],
    "alternating": [
        delta(reasoning_content="Hm.\n\n"),
        delta(content="It is"),
        delta(reasoning_content="So Bonn."),
        delta(content=" Bonn."),
    ],
    "parts of content (Mistral)": [
        delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "Hm.\n\nSo Bonn."}]}]),
        delta(content=TEXT_PARTS),
    ],
    "tags in the text": [delta(content=f"<think>Hm.\n\nSo Bonn.</think>{ANSWER}")],
    "tags in pieces": [*(delta(content=each) for each in f"<think>Hm.\n\nSo Bonn.</think>{ANSWER}")],
    "a closing tag alone": [delta(content="Hm.\n\nSo Bonn.</thi"), delta(content=f"nk>{ANSWER}")],
    "channels": [
        delta(content="<|channel|>analysis<|message|>Hm.\n\nSo Bonn."),
        delta(content=f"<|channel|>final<|message|>{ANSWER}<|return|>"),
    ],
}


@pytest.mark.parametrize("habit", HABITS)
def test_the_habits_of_servers(habit):
    shown = []
    with ScriptedServer() as server:
        server.faults.append(Fault(events=[*HABITS[habit], delta("stop")]))
        (written,) = write(model_of(server, "chat=1"), CHAT, on_text=shown.append)
    assert (written.text, "".join(shown), written.thoughts) == (ANSWER, ANSWER, "Hm.\n\nSo Bonn.")


@pytest.mark.parametrize(
    "events",
    [
        [
            delta(reasoning_content="Hm. Bonn.", logprobs=chat_logprobs("Hm.", " Bonn.")),
            delta(content="It is", logprobs=chat_logprobs("It", " is")),
        ],
        [
            delta(
                reasoning_content="Hm. Bonn.", content="It is",
                logprobs=chat_logprobs("Hm.", " Bonn.", "It", " is"),
            )
        ],
        [delta(content="<think>Hm.</think>It is", logprobs=chat_logprobs("<think>", "Hm.</think>It", " is"))],
    ],
)  # fmt: skip
def test_thoughts_have_no_signals(events):
    with ScriptedServer() as server:
        server.faults.append(Fault(events=[*events, delta("length")]))
        (written,) = write(model_of(server, "logprobs=1"), CHAT, Want(logprob=True))
    assert (texts(written), written.text) == (["It", " is"], "It is")
    assert [token.logprob for token in written.tokens] == [-0.5, -0.5]


@pytest.mark.parametrize(
    ("options", "requested", "thinking"),
    [
        ("server=litellm", 20, {}),
        ("server=openai", 20, {}),
        ("thoughts=tags&max_thoughts=50", 70, {}),
        ("thoughts=open&context=100", 31, {}),
        ("thoughts=tags&enable_thinking=0", 20, {"chat_template_kwargs": {"enable_thinking": False}}),
        ("thoughts=none&reasoning_effort=low", 20, {"reasoning_effort": "low"}),
    ],
)
def test_thoughts_get_tokens_of_their_own(options, requested, thinking):
    with ScriptedServer() as server:
        write(model_of(server, options), CHAT)
        body = server.requests[0].body
    assert body.get("max_completion_tokens", body.get("max_tokens")) == requested
    assert {
        name: body[name] for name in ("chat_template_kwargs", "reasoning_effort") if name in body
    } == thinking


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ("server=litellm", [delta(reasoning_content="Hm. "), delta("length")]),
        ("server=openai", [{**delta("length"), "usage": usage_of(20)}]),
    ],
)
def test_a_model_that_turns_out_to_think_gets_more_tokens(options, first):
    notes = []
    with ScriptedServer() as server, noted(lambda *note: notes.append(note)):
        model = model_of(server, f"{options}&max_thoughts=500")
        server.faults += [Fault(events=first), Fault(events=[delta(content=ANSWER), delta("stop")])]
        assert write(model, CHAT)[0].text == ANSWER
        write(model, CHAT)
        bodies = [request.body for request in server.requests]
    limits = [body.get("max_tokens") or body["max_completion_tokens"] for body in bodies]
    assert limits == [20, 520, 520]
    ((name, text),) = notes
    assert name == "thoughts"
    assert "500 tokens more from here on (?thoughts=tags" in text


@pytest.mark.parametrize(("reported", "counted"), [(None, 0), (7, 7), (-1, 0), (10**8, 21), (10**9, 0)])
def test_thoughts_that_were_not_sent_count(reported, counted):
    with ScriptedServer() as server:
        events = [delta(content=ANSWER), {**delta("stop"), "usage": usage_of(reported)}]
        server.faults.append(Fault(events=events))
        (written,) = write(model_of(server, "chat=1"), CHAT)
    assert written.thought_tokens == counted


OPENING = "{% for m in messages %}{{ m.content }}|{% endfor %}"
THINKING = OPENING + "{{ '<think>\n' }}"
TURN = CHAT.turns[1:]


@pytest.mark.parametrize(
    ("template", "thinking", "chat", "end", "thoughts"),
    [
        (OPENING, Thinking(), Chat(TURN), "it?|", Thoughts()),
        (THINKING, Thinking(), Chat(TURN), "<think>\n", Thoughts(99, are_open=True)),
        (THINKING, Thinking(max_thoughts=7), Chat(TURN), "<think>\n", Thoughts(7, are_open=True)),
        (THINKING, Thinking(), Chat(TURN, (Span("It is"),)), "</think>\n\nIt is", Thoughts()),
        (
            THINKING, Thinking(), Chat(TURN, (Span("Hm. <q>"),), keeps_thoughts=True), "<think>\nHm. <q>",
            Thoughts(),
        ),
        (OPENING + "{% if 0 %}<think>{% endif %}", Thinking(), Chat(TURN), "it?|", Thoughts(99)),
        (
            OPENING + "{% if enable_thinking is false %}<think></think>{% endif %}",
            Thinking(enable_thinking=False), Chat(TURN), "<think></think>", Thoughts(),
        ),
        (
            OPENING + "{{ reasoning_effort }}<think>", Thinking(reasoning_effort="low"), Chat(TURN),
            "low<think>", Thoughts(99, are_open=True),
        ),
    ],
)  # fmt: skip
def test_chat_templates_that_think(template, thinking, chat, end, thoughts):
    encoding = changed(chat_template=template)
    encoding.thinking = thinking
    assert encoding.vocabulary.decode(encoding.encode(chat)).endswith(end)
    assert encoding.thoughts(chat, 99) == thoughts


def test_options_of_thinking_change_the_fingerprint():
    plain, other = changed(chat_template=OPENING), changed(chat_template=OPENING)
    assert plain.fingerprint == other.fingerprint
    other.thinking = Thinking.take(options := {"enable_thinking": "false", "device": "cpu"})
    assert (plain.fingerprint != other.fingerprint, options) == (True, {"device": "cpu"})
    with pytest.raises(ParameterError, match="enable_thinking='maybe'"):
        Thinking.take({"enable_thinking": "maybe"})
    assert isinstance(plain, Encoding)
