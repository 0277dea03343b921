"""The scripted model and encoder: doubts, pieces beside a word, control tokens, scores and vectors."""

import asyncio
import json
import math

import numpy as np
import pytest
from tests.contracts.encoder_contract import EncoderContract
from tests.tolerances import near

from askance.core.errors import InputError, ModelSpecError
from askance.core.types import GenerateRequest, Raw, Sampling, Span, Want, untrusted
from askance.models.scripted import Reply, ScriptedEncoder, ScriptedModel, read_replies

PROMPT = Raw((Span("Where?"),))
TOKENS = ("[No Retrieval]", "[Retrieval]", "<paragraph>", "</paragraph>")


def write(model, want=Want(), prompt=PROMPT, max_tokens=9):
    (written,) = asyncio.run(model.generate(GenerateRequest(prompt, Sampling(max_tokens), want, key=("k",))))
    return written


def test_what_stands_beside_a_word_has_the_probability_given():
    reply = Reply(" In Bonn.", {"Bonn": 0.5}, beside={"Bonn": {" Köln": 0.3, " Ulm": 0.15}})
    want = Want(logprob=True, top_logprobs=5, token_probs=(" Bonn.", " Köln", " Ulm", " Kiel"))
    first, second = write(ScriptedModel([reply]), want).tokens
    assert first.probs == (0.0, 0.0, 0.0, 0.0)
    assert second.probs == near((0.5, 0.3, 0.15, 0.0))
    assert [text for text, _ in second.top] == [" Bonn.", " Köln", " Ulm", " (other)"]
    assert sum(math.exp(logprob) for _, logprob in second.top) == near(1)
    sure = Reply(" In Bonn.", sureness=1.0, beside={"Bonn": {" Köln": 0.0}})
    tokens = write(ScriptedModel([sure]), Want(top_logprobs=3)).tokens
    assert [token.top for token in tokens] == [((" In", 0.0),), ((" Bonn.", 0.0),)]
    with pytest.raises(InputError, match=r"'Bonn' and of the pieces beside it sum to 1.29 in a reply: make"):
        write(ScriptedModel([Reply(" In Bonn.", beside={"Bonn": {" Köln": 0.3}})]))


def test_control_tokens_of_ones_own():
    """Untrusted text holds none of them, and without them pieces are words."""
    model = ScriptedModel(["[Retrieval]<paragraph>Bonn</paragraph>[No Retrieval]x", "x"], control=TOKENS)
    assert [token.text for token in write(model).tokens] == [
        "[Retrieval]", "<paragraph>", "Bonn", "</paragraph>", "[No Retrieval]", "x",
    ]  # fmt: skip
    assert [len(model.tokenize([Span(token)])) for token in TOKENS] == [1, 1, 1, 1]
    assert len(model.tokenize("[No Retrieval]")) == 2
    assert model.decode(model.tokenize("a[Retrieval]b<paragraph>")) == "a[Retrieval]b<paragraph>"
    mixed = Raw((Span("[Retrieval]"), untrusted("[Retrieval]<paragraph> a[No Retrieval]")))
    pieces = model.pieces(write(model, prompt=mixed).prompt_ids)
    assert [piece for piece in pieces if piece in TOKENS] == ["[Retrieval]"]
    assert "".join(pieces) == "[Retrieval][Retrieval]<paragraph> a[No Retrieval]"
    words = ScriptedModel()
    pieces = words.pieces(words.tokenize([Span("[No Retrieval] a<b")]))
    assert pieces == ("[No", " Retrieval]", " a", "<", "b")


def test_scores_may_depend_on_the_prompt():
    model = ScriptedModel(scores=lambda prompt, option: -float(len(prompt) + len(option)))
    first, second = asyncio.run(model.score(PROMPT, [" Bonn", " in Bonn"]))
    assert (first.logprob, first.num_tokens) == (-11.0, 1)
    assert (second.logprob, second.num_tokens) == (-14.0, 2)
    (named,) = asyncio.run(ScriptedModel(scores={" Bonn": -2.0}).score(PROMPT, [" Bonn"]))
    assert named.logprob == -2.0


def test_a_script_in_a_file_may_say_what_stands_beside(tmp_path):
    path = tmp_path / "replies.jsonl"
    row = {"text": " Bonn", "doubts": {"Bonn": 0.6}, "beside": {"Bonn": {" Ulm": 0.4}}}
    path.write_text(json.dumps(row))
    assert read_replies(path) == (Reply(" Bonn", {"Bonn": 0.6}, beside={"Bonn": {" Ulm": 0.4}}),)
    path.write_text(json.dumps(row | {"beside": {"Bonn": {" Ulm": 1.4}}}))
    with pytest.raises(ModelSpecError, match=r"line 1, field beside\.Bonn\. Ulm: Input should be less than"):
        read_replies(path)


def test_a_script_goes_on_when_its_first_prompts_are_no_longer_kept(monkeypatch):
    monkeypatch.setattr("askance.models.scripted.KEPT_PROMPTS", 2)
    model = ScriptedModel(["one", "two", "three", "four"])
    prompts = [Raw((Span(f"Prompt {number}"),)) for number in range(4)]
    assert [write(model, prompt=each).text for each in prompts] == ["one", "two", "three", "four"]
    assert model.prompts == ["Prompt 2", "Prompt 3"]


class TestEncoder(EncoderContract):
    @pytest.fixture
    def encoder(self):
        return ScriptedEncoder()


def test_texts_that_share_words_have_similar_vectors():
    texts = ["the River Rhine", "rhine the river", "the river Elbe", "cats sleep"]
    first, same, close, far = asyncio.run(ScriptedEncoder(64).embed(texts))
    assert np.array_equal(first, same)
    assert first @ close > 0.4 > first @ far
