"""Test how specifications and responses are parsed: options, texts and ids, events, alignment and entropy."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tolerances import near, tolerance

from askance.core.errors import ModelSpecError, ParameterError, UnknownName
from askance.core.types import GenerateRequest, Raw, Sampling, Span, Want, untrusted
from askance.inference.stopping import StopTracker
from askance.models.openai.errors import ServerErrors
from askance.models.openai.events import InvalidResponse, ServerEvent, TokenLogprob, read_event
from askance.models.openai.load import load_openai
from askance.models.openai.options import SERVERS, ServerOptions, read_options
from askance.models.openai.streaming import StreamReader, TokenAligner, min_entropy
from askance.models.openai.tokenization import (
    TextTokens,
    decode,
    neutralize_control,
    token_bytes,
    token_id,
    tokenize,
)

NONE = "\ufffd"
ROUNDING = tolerance("float64", "formula")


@pytest.mark.parametrize("sharpness", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("num_known", [1, 5, 20])
def test_the_entropy_is_not_below_its_bound(sharpness, num_known):
    random = np.random.default_rng(num_known)
    for _ in range(20):
        logits = sharpness * random.gumbel(size=500)
        logprobs = np.sort(logits - np.log(np.exp(logits).sum()))[::-1]
        entropy = -float((np.exp(logprobs) * logprobs).sum())
        assert min_entropy(logprobs[:num_known].tolist(), num_known) - ROUNDING <= entropy


def entropy(*probabilities):
    return -sum(p * math.log(p) for p in probabilities if p)


@pytest.mark.parametrize(
    ("known", "num_requested", "least"),
    [
        # The rest is one token of the same probability.
        ([0.5], 1, [0.5, 0.5]),
        ([0.4, 0.25], 2, [0.4, 0.25, 0.25, 0.1]),
        # Fewer than requested may hide a token of any probability.
        ([0.5, 0.1], 20, [0.5, 0.1, 0.4]),
        ([1.0, 0.0], 2, [1.0]),
        # No vocabulary has so many tokens.
        ([0.9, 5e-324], 2, [0.9, 0.1]),
    ],
)
def test_the_bound_of_the_entropy_is_reached(known, num_requested, least):
    logprobs = [math.log(p) if p else -9999.0 for p in known]
    assert min_entropy(logprobs, num_requested) == near(entropy(*least))
    with pytest.raises(ValueError, match=r"sum to 1\.400"):
        min_entropy([math.log(0.7), math.log(0.7)], 2)


@given(st.text(max_size=50))
@settings(max_examples=200, deadline=None)
def test_texts_and_ids_are_inverse(text):
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert decode(tokenize(text)) == "".join(TextTokens().pieces(tokenize(text))) == whole
    assert [token_bytes(token_id(token)) for token in (whole.encode(), b"\0")] == [whole.encode(), b"\0"]
    pieces = TextTokens().pieces(tokenize("It is 1879, in Köln.\n\n— no_one"))
    assert "|".join(pieces) == "It| is| 187|9|,| in| Köln|.|\n\n|—| no|_|one"


@pytest.mark.parametrize(
    "control",
    ["<|im_start|>", "<｜User｜>", "<s>", "</s>", "[INST]", "<<SYS>>", "<start_of_turn>", "<think>"],
)
def test_untrusted_text_holds_no_control_token(control):
    ours = Span(control)
    assert neutralize_control((ours,)) == control
    broken = neutralize_control((untrusted(f"a{control}b{control}"),))
    assert control not in broken
    assert broken.replace("\u200b", "") == f"a{control}b{control}"
    assert control not in neutralize_control((tokenize(control),)), "a model's own words are untrusted, too"
    for cut in range(1, len(control)):
        for trusted in (True, False):
            halves = Span(control[:cut], trusted), Span(control[cut:], not trusted)
            assert control not in neutralize_control((ours, *halves)).removeprefix(control)
    text = "if a < b | c > d: print([1, 2]) <b>bold</b> [1] <p|q>"
    assert neutralize_control((untrusted(text),)) == text, "other marks stay as they are"


FLOWER = "🌸".encode()
SILENT = read_event({"choices": [{"text": "", "logprobs": {"tokens": [""], "token_logprobs": [-1]}}]}).entries
"""A token of which a server reports neither text nor bytes."""


def entries(tokens):
    """Return tokens from texts, from bytes that are only a part of a character, and from tokens."""
    texts = [TokenLogprob(token, token.encode(), -1.0) for token in tokens if isinstance(token, str)]
    parts = [TokenLogprob("", token, -1.0) for token in tokens if isinstance(token, bytes)]
    return texts or parts or tokens


def aligned(steps, has_ended):
    """Return the bytes of each token, and the end token, from events of (text, tokens)."""
    aligner, pieces = TokenAligner(), []
    for text, tokens in steps:
        pieces += aligner.add(text.encode(), entries(tokens))
    rest, end = aligner.finish(has_ended=has_ended)
    return [piece.raw for piece in (*pieces, *rest)], end


THE_CAT = ["The", " cat", "."]


@pytest.mark.parametrize(
    ("steps", "expected", "end"),
    [
        # Tokens are found in their text in any rhythm.
        ([("The", ["The"]), (" cat", [" cat"]), (".", ["."])], THE_CAT, None),
        ([("", ["The"]), ("The ca", []), ("t.", [" cat", "."])], THE_CAT, None),
        ([("The cat", []), (".", THE_CAT)], THE_CAT, None),
        # The end token stands behind the text.
        ([("Yes", ["Yes"]), ("", ["<|im_end|>"])], ["Yes"], "<|im_end|>"),
        ([("", ["<|im_end|>"])], [], "<|im_end|>"),
        ([("", SILENT)], [], ""),
        # Some servers report the parts of a character as U+FFFD or as nothing.
        ([("", [FLOWER[:2]]), ("🌸", [FLOWER[2:]]), (" is", [" is"])], [FLOWER[:2], FLOWER[2:], " is"], None),
        ([("a", ["a"]), ("🌸🌸", [NONE] * 4), (" b", [" b"])], ["a", "", "", "", "🌸🌸", " b"], None),
        ([("a🌸", ["a", "", ""]), ("", ["<end>"])], ["a", "", "🌸"], "<end>"),
        ([("a🌸", ["a", NONE, NONE])], ["a", "", "🌸"], None),
        ([("", SILENT), ("🌸 b", [" b"])], ["🌸", " b"], None),
        ([(f"a{NONE}b", ["a", NONE, "b"])], ["a", NONE, "b"], None),
        # Vocabularies of SentencePiece make spaces ambiguous.
        ([("Bonn is", [" Bonn", " is"])], ["Bonn", " is"], None),
        ([("In Bonn", ["In", "Bonn"])], ["In", " Bonn"], None),
        ([("B", [" Bonn"]), ("onn", [])], ["Bonn"], None),
        # A control token may be reported as nothing.
        ([(" Bonn", ["", " Bonn"])], ["", " Bonn"], None),
    ],
)
def test_tokens_are_aligned_with_the_text(steps, expected, end):
    raw, found = aligned(steps, has_ended=True)
    assert raw == [text if isinstance(text, bytes) else text.encode() for text in expected]
    assert (found and found.text) == end


LOST = "it loses characters that are spread over several tokens"


@pytest.mark.parametrize(
    ("steps", "has_ended", "message"),
    [
        ([("The cat", ["The", " dog"])], True, "of the token ' dog' where its text has ' cat'"),
        ([("The cat", ["The"])], True, "no log-probabilities for ' cat' at the end"),
        ([("The", ["The", " cat", " sat"])], True, "of the token ' cat' where its text has nothing more"),
        ([("a", ["a"]), ("", SILENT), (" b", [" b"])], True, LOST),
        ([("", SILENT * 2)], True, LOST),
        # A text of full length may end in a part of a character, but in no more.
        ([("", SILENT * 4)], False, LOST),
    ],
)
def test_tokens_of_another_text(steps, has_ended, message):
    with pytest.raises(InvalidResponse, match=message):
        aligned(steps, has_ended)


def test_half_a_character_at_the_full_length():
    assert aligned([("a", ["a"]), ("", [FLOWER[:2]])], has_ended=False) == ([b"a", b""], None)
    assert aligned([("", SILENT * 3)], has_ended=False) == ([b""] * 3, None)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (3, "choices is 3"),
        ([3], "choices.0 is 3"),
        ([{"delta": "x"}], "delta is 'x'"),
        ([{"delta": {"content": 3}}], "delta.content.str is 3"),
        ([{"logprobs": 3}], "logprobs is 3"),
        ([{"logprobs": {"token_logprobs": ["x"]}}], "token_logprobs.0 is 'x'"),
        ([{"logprobs": {"token_logprobs": [2.5]}}], "token_logprobs.0 is 2.5"),
        ([{"logprobs": {"tokens": [5]}}], "tokens.0 is 5"),
        ([{"logprobs": {"content": [{"token": "a"}]}}], "content.0.logprob is"),
        ([{"logprobs": {"content": 5}}], "logprobs.content is 5"),
    ],
)
def test_values_that_are_no_events(choices, message):
    with pytest.raises(InvalidResponse, match=message):
        read_event({"choices": choices})


@pytest.mark.parametrize(
    ("fail", "lengths"),
    [
        (lambda text: read_event({"choices": text}), range(80, 110)),
        (lambda text: aligned([(text, ["no"])], True), range(20, 50)),
        (lambda text: aligned([("no", [text])], True), range(80, 110)),
    ],
)
def test_a_key_that_a_cut_shortened_is_not_shown(fail, lengths):
    secret = "sk-9f3b70c2d4e85a61"
    errors = ServerErrors("tiny@url", "url", secret)
    for length in lengths:
        text = "x" * length + secret
        with pytest.raises(InvalidResponse) as raised:
            fail(text)
        assert secret[:6] not in str(errors.invalid_response(str(raised.value)))
        assert secret[:6] not in str(errors.not_json(" " * (1190 + length % 20) + text))


def test_events_of_both_endpoints():
    def read(logprobs, **choice):
        event = read_event({"choices": [{"logprobs": logprobs, **choice}]})
        tokens = event.entries and [(entry.raw, entry.logprob, entry.is_complete) for entry in event.entries]
        return event.text, tokens

    thought = {"content": [{"token": "Hm", "logprob": -1}]}
    assert read(thought, delta={"reasoning_content": "Hm"}) == ("", None), "reasoning is no part of the text"
    no_bytes = {"content": [{"token": "", "bytes": [], "logprob": -1.0}]}
    assert read(no_bytes, delta={"content": ""}) == ("", [(b"", -1.0, True)]), "no character is lost"
    escaped = {"tokens": ["bytes:\\xf0\\x9f", "b"], "token_logprobs": [None, -1]}
    escaped["top_logprobs"] = [None, {"b": -1}]
    assert read(escaped, text="b") == ("b", [(b"\xf0\x9f", 0.0, True), (b"b", -1.0, True)])


def test_nothing_is_assumed_of_a_server():
    assert (ServerOptions().signals, ServerOptions().capabilities) == (frozenset(), {"chat"})
    vllm = read_options({"server": "vllm"})
    assert vllm.capabilities == {"raw", "chat", "continuation"}
    assert read_options({"server": "vllm", "continuation": "0"}).capabilities == {"raw", "chat"}
    scoring = read_options({"server": "vllm", "chat": "0", "score": "1"})
    assert scoring.capabilities == {"raw", "continuation", "score"}
    assert all("chat" in read_options({"server": name}).capabilities for name in SERVERS)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"server": "vlm"}, UnknownName, "did you mean 'vllm'"),
        ({"top_logprobs": "many"}, ParameterError, "expected int"),
        ({"top_logprobs": "-1"}, ParameterError, "0 or more"),
        ({"score": "1", "completions": "1"}, ParameterError, "needs chat=0 and completions=1"),
        ({"score": "1"}, ParameterError, "needs chat=0 and completions=1"),
        ({"chat": "0"}, ParameterError, "at least one endpoint"),
    ],
)
def test_options_that_can_not_be_used(options, kind, message):
    with pytest.raises(kind, match=message):
        read_options(options)


KEY, ELSEWHERE = {"OPENAI_API_KEY": "k"}, {"OPENAI_BASE_URL": "http://elsewhere/v1"}
NO_SCHEME = r"is no URL with http.*: write openai:MODEL@http://HOST/v1"
IN_URL = "holds a password, a query or a fragment"
BAD_KEY = "OPENAI_API_KEY holds a character that can't be sent"


@pytest.mark.parametrize(
    ("name", "environment", "message"),
    [
        ("", {}, "names no model"),
        ("@http://host/v1", {}, "names no model"),
        ("m@http://", {}, "is no URL"),
        ("m@http://host:port/v1", {}, "can't be read"),
        ("m@http://host:99999/v1", {}, "is no URL of a server"),
        ("m", {}, "api.openai.com/v1 needs a key"),
        # A host without a scheme is no model of the default server.
        *(
            (name, environment, NO_SCHEME)
            for name in ("l@localhost:11434", "m@", "m@ftp://h", "m@HTTP://h", "m@http:/h", "m@me:secret@h")
            for environment in (KEY, ELSEWHERE)
        ),
        *(
            row
            for url in ("http://me:secret@host/v1", "http://host/v1?key=secret", "http://host/v1#secret")
            for row in ((f"m@{url}", {}, IN_URL), ("m", KEY | {"OPENAI_BASE_URL": url}, IN_URL))
        ),
        *(
            ("m@http://host/v1", {"OPENAI_API_KEY": key}, BAD_KEY)
            for key in ("sk-very\nsecret", "sk-\x1bsecret", "sk-geheimnißsecret")
        ),
    ],
)
def test_servers_that_can_not_be_asked(name, environment, message):
    with pytest.raises(ModelSpecError, match=message) as raised:
        load_openai(name, chat="1", environment=environment)
    assert "secret" not in str(raised.value)


def test_names_addresses_and_fingerprints():
    environment = {"OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": "http://elsewhere/v1/"}

    def load(name="@cf/meta/m:8b@http://host:81/v1/", environment=environment, **options):
        return load_openai(name, environment=environment, **options)

    assert load("m", KEY, chat="1").name == "m@https://api.openai.com/v1"
    assert load("m", chat="1").name == "m@http://elsewhere/v1"
    model = load(top_logprobs="3")
    assert model.name == "@cf/meta/m:8b@http://host:81/v1"
    assert "sk-1" not in json.dumps([model.fingerprint, model.name, repr(model), repr(vars(model))])
    others = [load(top_logprobs="4"), load(top_logprobs="4", neutral="1")]
    assert len({other.fingerprint for other in (model, *others)}) == 3
    assert load(top_logprobs="4", in_flight="2").fingerprint == others[0].fingerprint


@pytest.mark.parametrize(("logprob", "num_tokens"), [(False, 1), (True, 8)])
def test_a_text_beyond_the_requested_tokens_is_not_read(logprob, num_tokens):
    """One event of 40,000 tokens: the reader stops at eight of them, or at their plausible length."""
    tracker = StopTracker(GenerateRequest(Raw(()), Sampling(max_tokens=8), key=()))
    reader = StreamReader(Want(logprob=logprob), 0, tracker)
    entries = [TokenLogprob(" on", b" on", -0.1)] * 40_000
    reader.read(ServerEvent(" on" * 40_000, tuple(entries) if logprob else None))
    assert (tracker.finish, len(tracker.tokens)) == ("length", num_tokens)
    assert len(tracker.generation().text) <= 8 * 400


def test_an_event_of_many_tokens_is_read_in_parts_between_which_others_have_their_turn():
    entries = tuple(TokenLogprob(f" {number}", f" {number}".encode(), -0.1) for number in range(40))
    event = ServerEvent("".join(entry.text for entry in entries), entries, "stop", has_choice=True)
    parts = [*event.parts()]
    assert [len(part.entries) for part in parts] == [16, 16, 8]
    assert [part.text for part in parts] == [event.text, "", ""]
    tracker = StopTracker(GenerateRequest(Raw(()), Sampling(max_tokens=50), key=()))
    reader = StreamReader(Want(logprob=True), 0, tracker)
    assert [reader.read(part) for part in parts] == [True] * 3
    reader.end()
    assert "".join(token.text for token in tracker.tokens) == event.text
    assert [*ServerEvent("a").parts()] == [ServerEvent("a")]


def test_tokens_without_a_text_are_bounded():
    aligner = TokenAligner()
    assert not list(aligner.add("é".encode(), [TokenLogprob(NONE, NONE.encode(), -0.1)] * 4096))
    with pytest.raises(InvalidResponse, match="more than 4,096 tokens in a row"):
        list(aligner.add("é".encode(), [TokenLogprob(NONE, NONE.encode(), -0.1)]))
