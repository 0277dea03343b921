"""Test how responses are parsed: entropy and its bounds, texts and ids, alignment of tokens and text."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tolerances import near, tolerance

from askance.core.errors import ModelSpecError, ParameterError, UnknownName
from askance.core.types import Span, untrusted
from askance.models.openai import tokenization
from askance.models.openai.events import InvalidResponse, TokenLogprob, read_event
from askance.models.openai.load import load_openai
from askance.models.openai.options import OPTION_NAMES, SERVERS, ServerOptions, read_options
from askance.models.openai.streaming import TokenAligner, entropy_bounds
from askance.models.openai.tokenization import TextTokens

NONE = "\ufffd"
ROUNDING = tolerance("float64", "formula")


@pytest.mark.parametrize("sharpness", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("num_known", [1, 5, 20])
def test_the_entropy_lies_between_its_bounds(sharpness, num_known):
    random = np.random.default_rng(num_known)
    for _ in range(20):
        logits = sharpness * random.gumbel(size=500)
        logprobs = np.sort(logits - np.log(np.exp(logits).sum()))[::-1]
        entropy = -float((np.exp(logprobs) * logprobs).sum())
        least, most = entropy_bounds(logprobs[:num_known].tolist(), num_known, 500)
        assert least - ROUNDING <= entropy <= most + ROUNDING
        assert entropy_bounds(logprobs[:num_known].tolist(), num_known, 5000)[1] >= most


def test_both_bounds_are_reached():
    evenly = entropy_bounds([math.log(0.5)], 1, 3)
    assert evenly[1] == near(0.5 * math.log(2) + 2 * 0.25 * math.log(4))
    assert evenly[0] == near(2 * 0.5 * math.log(2)), "the rest is one token of the same probability"
    in_steps = entropy_bounds([math.log(0.4), math.log(0.25)], 2, 100)[0]
    assert in_steps == near(-sum(p * math.log(p) for p in (0.4, 0.25, 0.25, 0.1)))


def test_what_is_told_whole_has_no_bounds():
    assert entropy_bounds([math.log(0.75), math.log(0.25)], 20, 1000) == near(
        (0.5623, 0.5623), "as told", "4 decimals"
    )
    assert entropy_bounds([0.0, -9999.0], 2, 1000) == (0.0, 0.0)


def test_where_some_are_lost_the_rest_may_be_one_token():
    least, _ = entropy_bounds([math.log(0.5), math.log(0.1)], 20, 1000)
    assert least == near(-sum(p * math.log(p) for p in (0.5, 0.1, 0.4)))


def test_probabilities_beyond_one():
    with pytest.raises(ValueError, match=r"sum to 1\.400"):
        entropy_bounds([math.log(0.7), math.log(0.7)], 2, 10)


@given(st.text())
@settings(max_examples=200, deadline=None)
def test_texts_and_ids_are_inverse(text):
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert tokenization.decode(tokenization.tokenize(text)) == whole
    assert "".join(TextTokens().pieces(tokenization.tokenize(text))) == whole


def test_pieces_are_about_as_long_as_tokens():
    assert TextTokens().pieces(tokenization.tokenize("It is 1879, in Köln.\n\n— no_one")) == (
        "It", " is", " 187", "9", ",", " in", " Köln", ".", "\n\n", "—", " no", "_", "one",
    )  # fmt: skip


@given(st.binary(max_size=12))
@settings(deadline=None)
def test_an_id_stands_for_its_bytes(token):
    assert tokenization.token_bytes(tokenization.token_id(token)) == token


@pytest.mark.parametrize(
    "control",
    ["<|im_start|>", "<｜User｜>", "<s>", "</s>", "[INST]", "<<SYS>>", "<start_of_turn>", "<think>"],
)
def test_text_from_outside_holds_no_control_string(control):
    assert tokenization.neutralize_control((Span(control),)) == control
    broken = tokenization.neutralize_control((untrusted(f"a{control}b{control}"),))
    assert control not in broken
    assert broken.replace("\u200b", "") == f"a{control}b{control}"
    assert control not in tokenization.neutralize_control((tokenization.tokenize(control),)), (
        "a model's own words are from outside, too"
    )
    for cut in range(1, len(control)):
        for trusted in (True, False):
            halves = Span(control[:cut], trusted), Span(control[cut:], not trusted)
            assert control not in tokenization.neutralize_control((Span(control), *halves)).removeprefix(
                control
            )


def test_other_marks_stay_as_they_are():
    text = "if a < b | c > d: print([1, 2]) <b>bold</b> [1] <p|q>"
    assert tokenization.neutralize_control((untrusted(text),)) == text


def entries(*tokens):
    return [
        TokenLogprob(token, token.encode(), -1.0) if isinstance(token, str) else TokenLogprob("", token, -1.0)
        for token in tokens
    ]


def aligned(*steps, ended=False):
    """Return the bytes of each token, and the end token, from events of (text, tokens)."""
    aligner, pieces = TokenAligner(), []
    for text, tokens in steps:
        pieces += aligner.add(text.encode(), entries(*tokens))
    rest, end = aligner.finish(has_ended=ended)
    return [piece.raw.decode(errors="replace") for piece in (*pieces, *rest)], end and end.text


def test_tokens_are_found_in_their_text_in_any_rhythm():
    expected = ["The", " cat", "."]
    assert aligned(("The", ["The"]), (" cat", [" cat"]), (".", ["."]))[0] == expected
    assert aligned(("The cat.", expected))[0] == expected
    assert aligned(("", ["The"]), ("The ca", []), ("t.", [" cat", "."]))[0] == expected
    assert aligned(("The cat", []), (".", expected))[0] == expected


def test_the_end_token_stands_behind_the_text():
    assert aligned(("Yes", ["Yes"]), ("", ["<|im_end|>"]), ended=True) == (["Yes"], "<|im_end|>")
    assert aligned(("", ["<|im_end|>"]), ended=True) == ([], "<|im_end|>")
    assert aligned(("Yes", ["Yes"]), ended=True) == (["Yes"], None)


def test_a_character_in_parts():
    flower = "🌸".encode()
    steps = [("", [b"\xf0\x9f"]), ("🌸", [flower[2:]]), (" is", [" is"])]
    aligner, raw = TokenAligner(), []
    for text, tokens in steps:
        raw += [piece.raw for piece in aligner.add(text.encode(), entries(*tokens))]
    assert raw == [b"\xf0\x9f", flower[2:], b" is"]


@pytest.mark.parametrize("part", [NONE, ""])
def test_parts_of_a_character_that_a_server_does_not_tell(part):
    assert aligned(("a", ["a"]), ("🌸🌸", [part] * 4), (" b", [" b"]))[0] == ["a", "", "", "", "🌸🌸", " b"]
    assert aligned(("a🌸", ["a", part, part]))[0] == ["a", "", "🌸"]
    assert aligned(("a🌸", ["a", part, part]), ("", ["<end>"]), ended=True) == (["a", "", "🌸"], "<end>")


def test_a_text_that_does_hold_the_sign_of_a_broken_character():
    assert aligned((f"a{NONE}b", ["a", NONE, "b"]))[0] == ["a", NONE, "b"]


def test_half_a_character_at_the_end_of_the_length():
    assert aligned(("a", ["a"]), ("", [b"\xf0\x9f"]))[0] == ["a", ""]


def test_spaces_that_vocabularies_make_ambiguous():
    assert aligned(("Bonn is", [" Bonn", " is"]))[0] == ["Bonn", " is"]
    assert aligned(("In Bonn", ["In", "Bonn"]))[0] == ["In", " Bonn"]
    assert aligned(("B", [" Bonn"]), ("onn", []))[0] == ["Bonn"]


def test_a_control_token_that_is_told_as_nothing():
    assert aligned((" Bonn", ["", " Bonn"]))[0] == ["", " Bonn"]


def test_a_token_of_which_neither_text_nor_bytes_are_told():
    silent = read_event({"choices": [{"text": "", "logprobs": {"tokens": [""], "token_logprobs": [-1]}}]})
    aligner = TokenAligner()
    assert list(aligner.add(b"a", entries("a"))) != []
    assert list(aligner.add(b"", silent.entries)) == []
    with pytest.raises(InvalidResponse, match="it loses characters that are spread over several tokens"):
        list(aligner.add(b" b", entries(" b")))
    kept = TokenAligner()
    assert list(kept.add(b"", silent.entries)) == []
    assert [piece.raw.decode() for piece in kept.add("🌸 b".encode(), entries(" b"))] == ["🌸", " b"]


def test_a_text_of_full_length_may_end_in_half_a_character_but_in_no_more():
    silent = read_event({"choices": [{"text": "", "logprobs": {"tokens": [""], "token_logprobs": [-1]}}]})
    half, lost = TokenAligner(), TokenAligner()
    assert list(half.add(b"", silent.entries * 3)) == list(lost.add(b"", silent.entries * 4)) == []
    assert [piece.raw for piece in half.finish(has_ended=False)[0]] == [b""] * 3
    with pytest.raises(InvalidResponse, match="it loses characters"):
        lost.finish(has_ended=False)


def test_the_end_itself_may_be_told_as_nothing():
    silent = read_event({"choices": [{"text": "", "logprobs": {"tokens": [""], "token_logprobs": [-1]}}]})
    ended, lost = TokenAligner(), TokenAligner()
    assert list(ended.add(b"", silent.entries)) == list(lost.add(b"", silent.entries * 2)) == []
    assert ended.finish(has_ended=True) == ([], silent.entries[0])
    with pytest.raises(InvalidResponse, match="it loses characters"):
        lost.finish(has_ended=True)


def test_nothing_is_lost_where_a_server_says_that_a_token_has_no_bytes():
    logprobs = {"content": [{"token": "", "bytes": [], "logprob": -1.0}, {"token": "a", "logprob": -1.0}]}
    event = read_event({"choices": [{"delta": {"content": "a"}, "logprobs": logprobs}]})
    assert [piece.raw for piece in TokenAligner().add(b"a", event.entries)] == [b"", b"a"]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([("The cat", ["The", " dog"])], r"of the token ' dog' where its text has ' cat'"),
        ([("The cat", ["The"])], r"no log-probabilities for ' cat' at the end"),
        ([("The", ["The", " cat", " sat"])], r"of the token ' cat' where its text has nothing more"),
    ],
)
def test_tokens_of_another_text(steps, expected):
    with pytest.raises(InvalidResponse, match=expected):
        aligned(*steps)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ([], r"all of it is \[\]"),
        ({"choices": 3}, "choices is 3"),
        ({"choices": [3]}, "choices.0 is 3"),
        ({"choices": [{"delta": "x"}]}, "delta is 'x'"),
        ({"choices": [{"delta": {"content": 3}}]}, "delta.content is 3"),
        ({"choices": [{"text": "a", "logprobs": 3}]}, "logprobs is 3"),
        ({"choices": [{"text": "a", "logprobs": {"token_logprobs": ["x"]}}]}, "token_logprobs.0 is 'x'"),
        ({"choices": [{"text": "a", "logprobs": {"token_logprobs": [2.5]}}]}, "token_logprobs.0 is 2.5"),
        ({"choices": [{"text": "a", "logprobs": {"tokens": [5]}}]}, "tokens.0 is 5"),
        ({"choices": [{"delta": {}, "logprobs": {"content": [{"token": "a"}]}}]}, "content.0.logprob is"),
        ({"choices": [{"delta": {}, "logprobs": {"content": 5}}]}, "logprobs.content is 5"),
    ],
)
def test_events_that_are_none(event, expected):
    with pytest.raises(InvalidResponse, match=expected):
        read_event(event)


def test_tokens_that_are_no_text_in_the_endpoint_of_completions():
    logprobs = {
        "tokens": ["bytes:\\xf0\\x9f", "b"],
        "token_logprobs": [None, -1],
        "top_logprobs": [None, {"b": -1}],
    }
    event = read_event({"choices": [{"text": "b", "logprobs": logprobs}]})
    assert [(entry.raw, entry.logprob) for entry in event.entries] == [(b"\xf0\x9f", 0.0), (b"b", -1.0)]


def test_thoughts_are_no_part_of_the_text():
    logprobs = {"content": [{"token": "Hm", "logprob": -1}]}
    event = read_event({"choices": [{"delta": {"reasoning_content": "Hm"}, "logprobs": logprobs}]})
    assert (event.text, event.entries) == ("", None)


def test_nothing_is_assumed_of_a_server():
    assert (ServerOptions().signals, ServerOptions().capabilities) == (frozenset(), {"chat"})
    assert read_options({"server": "vllm"}).capabilities == {"raw", "chat", "continuation"}
    assert read_options({"server": "vllm", "continuation": "0"}).capabilities == {"raw", "chat"}
    scoring = read_options({"server": "vllm", "chat": "0", "score": "1"})
    assert scoring.capabilities == {"raw", "continuation", "score"}
    for name in SERVERS:
        assert read_options({"server": name}).capabilities >= {"chat"}


@pytest.mark.parametrize(
    ("options", "error", "expected"),
    [
        ({"server": "vlm"}, UnknownName, "did you mean 'vllm'"),
        ({"top_logprobs": "many"}, ParameterError, "expected int"),
        ({"top_logprobs": "-1"}, ParameterError, "0 or more"),
        ({"score": "1", "completions": "1"}, ParameterError, "needs chat=0 and completions=1"),
        ({"score": "1"}, ParameterError, "needs chat=0 and completions=1"),
        ({"chat": "0"}, ParameterError, "at least one endpoint"),
    ],
)
def test_options_that_can_not_be_used(options, error, expected):
    with pytest.raises(error, match=expected):
        read_options(options)


@pytest.mark.parametrize(
    "name",
    ["llama3.2@localhost:11434", "m@", "m@ftp://host", "m@HTTP://host", "m@http:/host", "m@me:secret@host"],
)
@pytest.mark.parametrize("environment", [{"OPENAI_API_KEY": "k"}, {"OPENAI_BASE_URL": "http://elsewhere/v1"}])
def test_a_host_without_a_scheme_is_no_model_of_the_default_server(name, environment):
    with pytest.raises(
        ModelSpecError, match=r"is no URL with http.*: write openai:MODEL@http://HOST/v1"
    ) as raised:
        load_openai(name, environment=environment)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", "names no model"),
        ("@http://host/v1", "names no model"),
        ("m@http://", "is no URL"),
        ("m@http://host:port/v1", "can't be read"),
        ("m@http://host:99999/v1", "is no URL of a server"),
        ("m", "api.openai.com/v1 needs a key"),
    ],
)
def test_servers_that_can_not_be_asked(name, expected):
    with pytest.raises(ModelSpecError, match=expected):
        load_openai(name, environment={})


@pytest.mark.parametrize("key", ["sk-very\nsecret", "sk-\x1bsecret", "sk-geheimnißsecret"])
def test_a_key_that_can_not_be_sent_is_refused_and_not_shown(key):
    with pytest.raises(ModelSpecError, match="OPENAI_API_KEY holds a character that can't be sent") as raised:
        load_openai("m@http://host/v1", chat="1", environment={"OPENAI_API_KEY": key})
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://me:secret@host/v1", "the server host holds a password"),
        ("http://host/v1?key=secret", "the server host holds a password, a query"),
        ("http://host/v1#secret", "the server host holds a password, a query or a fragment"),
    ],
)
def test_a_key_in_the_url_is_refused_and_not_shown(url, expected):
    for name, environment in ((f"m@{url}", {}), ("m", {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "k"})):
        with pytest.raises(ModelSpecError, match=expected) as raised:
            load_openai(name, environment=environment)
        assert "secret" not in str(raised.value)


def test_names_and_addresses():
    environment = {"OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": "http://elsewhere/v1/"}
    assert (
        load_openai("m", chat="1", environment={"OPENAI_API_KEY": "k"}).name == "m@https://api.openai.com/v1"
    )
    assert load_openai("m", chat="1", environment=environment).name == "m@http://elsewhere/v1"
    model = load_openai("@cf/meta/m:8b@http://host:81/v1/", top_logprobs="3", environment=environment)
    assert model.name == "@cf/meta/m:8b@http://host:81/v1"
    assert "sk-1" not in json.dumps([model.fingerprint, model.name, repr(model), repr(vars(model))])
    other = load_openai("@cf/meta/m:8b@http://host:81/v1", top_logprobs="4", environment=environment)
    assert other.fingerprint != model.fingerprint
    quicker = load_openai("@cf/meta/m:8b@http://host:81/v1", top_logprobs="4", in_flight="2")
    assert quicker.fingerprint == other.fingerprint
    neutral = load_openai("@cf/meta/m:8b@http://host:81/v1", top_logprobs="4", neutral="1")
    assert neutral.fingerprint != other.fingerprint


def test_options_are_those_of_the_record():
    assert len(OPTION_NAMES) == len(set(OPTION_NAMES))
    assert {"server", "top_logprobs", "tokenize"} <= set(OPTION_NAMES)
