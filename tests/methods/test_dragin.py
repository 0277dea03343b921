"""DRAGIN's control flow in both readings on scripted models, and the two case studies of its paper."""

import asyncio
import math

import pytest
from askance_lab.reproductions.dragin import DraginAuthors
from askance_lab.reproductions.dragin_base import AuthorsState, Trigger

from askance.ask import ask
from askance.core.errors import MissingAbility
from askance.core.ports import Run
from askance.core.trace import Attended, Decided, Generated, Searched, Trace, WordSignal
from askance.core.types import Demo, Passage, Question, Span
from askance.methods.common.prompts import OWN as WORDING
from askance.methods.common.prompts import PromptTemplate
from askance.methods.dragin.method import Dragin
from askance.methods.dragin.paper import DraginPaper
from askance.methods.flare import Flare
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.methods.dragins import dragin
from tests.tolerances import near

SEATS = Question("q", "How many people can the home arena of the Lewiston Maineiacs seat?")
ARENA = Passage("a", "Colisée", "It has a capacity of 4,000 (3,677 seated).")
FIRST = " The Lewiston Maineiacs played at home in the Androscoggin Bank Colisée."
DRAFT = Reply(
    f"{FIRST} It has a seating capacity of 4,250. So the answer is 4,250.", entropies={"4,250": 3.0}
)
TELLING = {" seat?", " Androscoggin", " Bank", " Colisée.", " seating", " capacity"}


def looks(pieces):
    """The doubtful number looks back at what it is about, and all that follows looks at the number."""
    if pieces[-1] == " 4,250.":
        return [9.0 if piece in TELLING else 0.1 for piece in pieces]
    return [1000.0 if piece == " 4,250." else 0.1 for piece in pieces]


def run(method, replies, found=(ARENA,), question=SEATS, look=looks):
    model, retriever = ScriptedModel(replies, attention=look), ScriptedRetriever(list(found))
    result = asyncio.run(ask(question, method, {"answer": model}, retriever))
    return result, model, retriever


def paper(**parameters):
    return DraginPaper(**{"ask_short_answer": False, **parameters})


def searches(result):
    return [decision for decision in result.trace.decisions if decision.outcome == "search"]


# Case study 1: the doubtful number is searched for with the words it depends on.


def seats_in_the_papers_reading(**parameters):
    replies = [
        f"{FIRST} It has",
        Reply(" It has a seating capacity of 4,250. So the", entropies={"4,250": 3.0}),
        " 3,677. So the",
        " So the answer is 3,677.",
    ]
    return run(paper(query_top=6, **parameters), replies)


def test_case_1_paper():
    result, model, retriever = seats_in_the_papers_reading()
    assert retriever.queries == ["seat? Androscoggin Bank Colisée. seating capacity"]
    assert model.prompts[2].endswith(f"Answer:{FIRST} It has a seating capacity of")
    assert ["3,677 seated" in prompt for prompt in model.prompts] == [False, False, True, True]
    assert (
        result.answer.text == f"{FIRST.strip()} It has a seating capacity of 3,677. So the answer is 3,677."
    )
    assert result.answer.short == "3,677"
    assert result.usage.searches == 1


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


def test_case_1_flare_loses_the_words_it_should_ask_for():
    doubts = dict.fromkeys(("Lewiston", "home", "Androscoggin", "Bank"), 0.2)
    method = Flare(search_first=False)
    result, _, retriever = run(
        method, [Reply(f"{FIRST} It", doubts), f"{FIRST} It", " So the answer is 4,250."]
    )
    assert retriever.queries == ["The Maineiacs played at in the Colisée."]
    assert result.answer.short == "4,250"


# Case study 2: the right passage is found and shown, and the model errs all the same.

SONG = Question("q", "What is the fight song of the university whose main campus is in Lawrence, Kansas?")
EMPLOYER = Passage("p1", "Lawrence", "The university is the largest employer of the metropolitan area.")
KANSAS = Passage("p2", "University of Kansas", "Its main campus is in Lawrence; Kansas Song is sung there.")
PEOPLE = Passage("p3", "Lawrence, Kansas metropolitan area", "It has 110,000 inhabitants.")


@pytest.mark.parametrize("variant", ["dragin_paper", "dragin_authors"])
def test_case_2_the_relevant_passage_is_used_and_the_failure_is_not_hidden(variant):
    def look(pieces):
        return [1000.0 if piece == " Missouri" else 1.0 for piece in pieces]

    first = " The university in Lawrence is Missouri State. So the"
    rest = " Kansas State. So the" if variant == "dragin_paper" else " The university is Kansas State. So"
    replies = [Reply(first, entropies={"Missouri": 9.0}), rest, " So the answer is the Wildcat song."]
    method = dragin(variant, threshold=3.0)
    result, model, _ = run(method, replies, (EMPLOYER, KANSAS, PEOPLE), SONG, look)
    (search,) = [event for event in result.trace.events if isinstance(event, Searched)]
    assert [hit.passage.id for hit in search.hits] == ["p1", "p2", "p3"]
    assert KANSAS.text in model.prompts[1]
    assert result.answer.short == "the Wildcat song"


# As the paper has it.


def test_passages_stay_where_a_later_search_finds_none():
    replies = [
        Reply(" It holds 4,250. So the", entropies={"4,250": 9.0}),
        Reply(" 3,677 in Maine. So the", entropies={"Maine": 9.0}),
        " Lewiston. So the",
        " So the answer is 3,677.",
    ]
    model = ScriptedModel(replies, attention=lambda pieces: [1.0] * len(pieces))
    retriever = ScriptedRetriever({f"{SEATS.text} It holds": [ARENA]})
    result = asyncio.run(ask(SEATS, paper(query="forward_all", threshold=0.01), {"answer": model}, retriever))
    assert len(searches(result)) == 2
    assert all("3,677 seated" in prompt for prompt in model.prompts[1:])


def test_the_decision_carries_the_numbers():
    result, _, _ = seats_in_the_papers_reading()
    keep, search = result.trace.decisions[:2]
    assert (keep.outcome, search.outcome) == ("keep", "search")
    number = next(word for word in search.words if word.text == "4,250.")
    assert number.is_hit
    assert number.value == near(3.0, "entropy", "scripted")
    assert search.threshold == 1.0


def test_a_function_word_is_never_in_doubt():
    reply = Reply(" It was the river Arno. So the", entropies={"was": 9.0, "the": 9.0})
    result, _, retriever = run(paper(threshold=0.5), [reply, " So the answer is Arno."], look=None)
    assert retriever.queries == []
    assert result.answer.short == "Arno"


def test_the_last_token_is_never_in_doubt():
    reply = Reply(" It is Arno", entropies={"Arno": 9.0}, ends=False)
    _, _, retriever = run(paper(max_tokens=3), [reply])
    assert retriever.queries == []


def test_the_token_after_a_search_causes_no_other():
    replies = [Reply(" Arno is here. So the", entropies={"Arno": 9.0})] * 2 + [" So the answer is Arno."]
    result, _, retriever = run(paper(threshold=0.01), replies, look=lambda pieces: [1.0] * len(pieces))
    assert len(retriever.queries) == 1
    assert result.answer.text == "Arno is here. So the answer is Arno."


@pytest.mark.parametrize(("threshold", "num_searches"), [(0.0, 10), (math.inf, 0)])
def test_thresholds_of_nothing_and_infinity(threshold, num_searches):
    method = paper(threshold=threshold, max_rounds=10)
    result, _, retriever = run(
        method, lambda shown, key: Reply(" red green blue cat dog", sureness=0.5), look=None
    )
    assert len(retriever.queries) == num_searches
    assert result.trace.committed.strip() == result.answer.text


@pytest.mark.parametrize("heads", ["max", "mean"])
def test_heads(heads):
    result, _, _ = seats_in_the_papers_reading(heads=heads)
    assert result.usage.searches == 1


# Any trigger with any query.

QUERIES = """
    real_words question last_n_tokens last_sentence masked current current_wo_wrong forward_all
""".split()


@pytest.mark.parametrize("variant", ["dragin", "dragin_paper", "dragin_authors"])
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("trigger", ["rind", "token_probability", "every_sentence", "every_tokens"])
def test_every_pair_of_trigger_and_query_ends(variant, query, trigger):
    method = dragin(
        variant,
        trigger=trigger,
        query=query,
        threshold=0.3,
        max_tokens=24,
        every_tokens=6,
        max_rounds=12,
    )
    result, _, retriever = run(method, None, look=None)
    assert len(retriever.queries) == result.usage.searches
    assert result.trace.committed.strip() == result.answer.text.strip()
    attends = [event for event in result.trace.events if isinstance(event, Attended)]
    assert not attends or variant == "dragin_authors"


def test_every_sentence_with_the_last_sentence():
    replies = [" One is here. So", " Two is here. So", " So the answer is two."]
    method = paper(trigger="every_sentence", query="last_sentence")
    _, _, retriever = run(method, replies)
    assert retriever.queries == [SEATS.text, "One is here.", "Two is here."]


def test_every_tokens_with_the_last_tokens():
    replies = [" One is here", " Two is there", " So the answer is"]
    method = paper(trigger="every_tokens", query="last_n_tokens", every_tokens=3, query_top=3, max_tokens=9)
    _, _, retriever = run(method, replies)
    assert retriever.queries == [SEATS.text, "One is here", "Two is there"]


def test_probability_with_the_masked_sentence():
    replies = [Reply(" It is Bonn now. So", {"Bonn": 0.2}), " Paris now. So", " So the answer is Paris."]
    method = paper(trigger="token_probability", query="masked", threshold=0.5)
    result, _, retriever = run(method, replies)
    assert retriever.queries == ["It is now."]
    assert result.answer.text == "It is Paris now. So the answer is Paris."


# As the authors' code has it.


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


def test_a_wording_shows_its_content_in_the_repr_of_the_method():
    assert repr(Dragin()) != repr(Dragin(prompts=PromptTemplate(heading="Found:")))
    assert str(Dragin().prompts) == "own"


def test_no_passages_and_odd_texts():
    for text in ("", "<|end|>", "é 中文。 😀 e\u0301 नमस्ते", "Question: the answer is"):
        question = Question("q", f"Who {text}?")
        for method in (code(threshold=0.0), paper(threshold=0.0, max_rounds=5)):
            result, _, _ = run(
                method, lambda shown, key, text=text: f" {text} {text}. So", (), question, look=None
            )
            assert result.trace.committed.strip() == result.answer.text.strip()


def test_what_is_needed():
    assert paper().needs.signals == {"entropy", "attention"}
    assert paper(trigger="every_tokens", query="question").needs.signals == set()
    assert code().needs.capabilities == {"raw", "attend"}
    model = ScriptedModel([], signals=frozenset({"logprob"}))
    with pytest.raises(MissingAbility, match="attention, entropy"):
        asyncio.run(ask(SEATS, paper(), {"answer": model}, ScriptedRetriever()))


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
