"""DRAGIN's control flow as its authors' code has it, on scripted models."""

import asyncio

import pytest

from askance.ask import ask
from askance.core.errors import MissingAbility
from askance.core.ports import Run
from askance.core.trace import Decided, Generated, Searched, Trace, WordSignal
from askance.core.types import Demo, Question, Span
from askance.methods.common.prompts import OWN as WORDING
from askance.methods.common.prompts import PromptTemplate
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance_lab.reproductions.dragin import DraginAuthors
from askance_lab.reproductions.dragin_base import AuthorsState, Trigger
from tests.methods.test_dragin import ARENA, DRAFT, FIRST, SEATS, paper, run, searches


def test_case_1_code():
    method = DraginAuthors(threshold=4.0)
    replies = [DRAFT, " It seats 3,677. So the answer", " So the answer is 3,677."]
    result, model, _ = run(method, replies)
    (search,) = searches(result)
    assert [word.text for word in search.words if word.is_hit] == ["4,250."]
    assert model.prompts[1].endswith(f"Answer:{FIRST}"), "the doubtful sentence is written again as a whole"
    assert model.prompts[2].endswith(f"Answer:{FIRST} It seats 3,677.")
    assert ["3,677 seated" in prompt for prompt in model.prompts] == [False, True, False]
    assert {"seat?", "Androscoggin", "Bank", "Colisée.", "seating", "capacity"} <= set(search.query.split())
    assert "4,250" not in search.query
    assert result.answer.short == "3,677"


def code(**parameters):
    return DraginAuthors(**{"threshold": 4.0, "ask_short_answer": False, **parameters})


def test_a_draft_without_doubt_is_kept_whole():
    result, model, _ = run(code(), [" It is Bonn. So the answer is Bonn. Next: more"], look=None)
    assert result.answer.text == " It is Bonn. So the answer is Bonn. Next: more<|end|>"
    assert len(model.prompts) == 1
    keep, stop = result.trace.decisions
    assert (keep.outcome, stop.outcome) == ("keep", "stop")
    assert "".join(word.text for word in keep.words) == result.answer.text.replace(" ", "")
    assert all(0 <= word.value <= keep.threshold == 4.0 for word in keep.words)


def test_the_end_test_minds_letter_case():
    replies = [" The answer is Bonn.", " So the answer is Bonn."]
    result, model, _ = run(code(), replies, look=None)
    assert len(model.prompts) == 2
    assert "the answer is" in result.trace.decisions[-1].why


def test_it_ends_when_the_text_does_not_grow_or_is_too_long():
    result, _, _ = run(code(max_tokens=1), [Reply("\n", ends=False)] * 2, look=None)
    assert "did not grow" in result.trace.decisions[-1].why
    result, _, _ = run(code(max_tokens=2), [Reply(" one two three four", ends=False)] * 2, look=None)
    assert "more than 2 tokens" in result.trace.decisions[-1].why


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        (" One<|begin|> two.", (" One", "<|begin|>", " two.", "<|end|>")),
        (" One <|begin|> two.", (" One", " <", "|begin|>", " two.", "<|end|>")),
    ],
)
def test_control_tokens_that_the_model_wrote_are_ones_again_and_their_mere_spelling_is_not(text, pieces):
    result, _, _ = run(code(), [text, " So the answer is two."], look=None)
    first, second = [event for event in result.trace.events if isinstance(event, Generated)]
    assert tuple(token.text for token in first.tokens) == pieces[:-1]
    assert second.prompt_tokens - first.prompt_tokens == len(pieces)


def test_doubt_by_surprise():
    """A word that is written against all odds, at the entropy that every other word has."""
    replies = [
        Reply(" It is Bonn. So", {"Bonn": 0.01}, entropies={"Bonn": 0.0}),
        " It is Paris.",
        " So the answer is Paris.",
    ]
    _, _, retriever = run(code(threshold=2.0), replies, look=None)
    assert retriever.queries == []
    result, _, retriever = run(code(threshold=2.0, doubt="surprise"), replies, look=None)
    assert [word.text for word in searches(result)[0].words if word.is_hit] == ["Bonn."]
    assert DraginAuthors(doubt="surprise").needs.signals == {"logprob"}


def test_the_query_pass_reads_a_control_token_that_the_model_wrote_as_one():
    doubt = Trigger("", (WordSignal("Bonn", 9.0, True),))
    seen = []
    model = ScriptedModel(attention=lambda pieces: seen.append(tuple(pieces)) or [1.0] * len(pieces))
    for control in ({}, {"<|end|>": model.tokenize([Span("<|end|>")])[0]}):
        own = Run({"answer": model}, ScriptedRetriever([]), Trace())
        so_far = AuthorsState(Question("q", "Who?"), own, WORDING, text="One.<|end|>", control=control)
        asyncio.run(DraginAuthors(query_top=3).query_for(doubt, so_far))
        assert ("<|end|>" in seen[-1]) == bool(control)


def test_rounds_are_limited_and_the_reason_is_recorded():
    method = code(max_rounds=3, trigger="every_sentence", query="question")
    result, _, _ = run(method, lambda shown, key: " one. Two", look=None)
    assert result.trace.decisions[-1].why == "there were 3 rounds"


def test_a_function_word_triggers_a_search_without_hits():
    """The first words with content are then the query (D7)."""

    def look(pieces):
        return [1000.0 if piece == " was" else 1.0 for piece in pieces]

    replies = [Reply(" It was Bonn. So", entropies={"was": 9.0}), " It is Paris.", " So the answer is Paris."]
    result, _, retriever = run(code(query_top=2), replies, look=look)
    (search,) = searches(result)
    assert not any(word.is_hit for word in search.words)
    assert retriever.queries == ["many people"]


def test_queries_keep_their_last_tokens():
    replies = [" One two three. So", " x.", *[" So the answer is x."] * 2]
    _, _, retriever = run(
        code(trigger="every_sentence", query="question", query_tokens=2), replies, look=None
    )
    assert retriever.queries[0] == " Maineiacs seat?"


def test_the_prompt_has_the_authors_layout_and_a_wording_of_ones_own():
    template = PromptTemplate((Demo("Own?", "Yes."),), "Found:", "Go on.", "Think. ")
    replies = [" One. So", " x.", *[" So the answer is x."] * 2]
    _, model, _ = run(code(trigger="every_sentence", prompts=template, passages=2), replies, look=None)
    assert model.prompts[0] == f"Question: Own?\nAnswer: Yes.\nThink. Question: {SEATS.text}\nAnswer:"
    assert model.prompts[1] == (
        f"Question: Own?\nAnswer: Yes.\nFound:\n[1] {ARENA.text}\n[2] \nGo on.\n"
        f"Think. Question: {SEATS.text}\nAnswer:"
    )


class Wordless:
    """A model without the strings of its vocabulary."""

    def __init__(self, model):
        self._model = model

    def __getattr__(self, name):
        if name == "pieces":
            raise AttributeError(name)
        return getattr(self._model, name)


def test_a_model_that_shows_no_vocabulary_is_refused_by_the_authors_reading_alone():
    model = Wordless(ScriptedModel([DRAFT, " It seats 3,677. So", " So the answer is 3,677."]))
    with pytest.raises(MissingAbility, match=r"model 'scripted'.*vocabulary.*another"):
        asyncio.run(ask(SEATS, code(), {"answer": model}, ScriptedRetriever()))
    assert asyncio.run(ask(SEATS, paper(), {"answer": model}, ScriptedRetriever())).answer.text


def test_searches_have_their_decision_as_parent():
    result, _, _ = run(code(), [DRAFT, " It seats 3,677. So", " So the answer is 3,677."])
    (search,) = searches(result)
    children = [event for event in result.trace.events if event.parent == search.id]
    assert [type(event) for event in children] == [Searched, Generated]
    assert isinstance(search, Decided)


def test_what_is_needed():
    assert code().needs.capabilities == {"raw", "attend"}
