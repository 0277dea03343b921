"""Short answers that are asked for, which methods add to their text."""

import asyncio

import pytest

from askance.ask import ask
from askance.core.trace import Generated
from askance.core.types import Passage, Question
from askance.methods.baselines import ClosedBook, FixedLength, FixedSentence, Single
from askance.methods.common.prompts import PromptTemplate
from askance.methods.flare import Flare
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever

QUESTION = Question("q", "Which river flows through Pisa?")
ARNO = Passage("a", "Arno", "The Arno flows through Pisa.")
BARE = PromptTemplate(demos=(), instruction="Go on.")
CASE = "Question: Which river flows through Pisa?\nAnswer:"
OWN = [ClosedBook, Single, Flare, FixedLength, FixedSentence]


def run(method, replies, found=(ARNO,), question=QUESTION, **abilities):
    model, retriever = ScriptedModel(replies, **abilities), ScriptedRetriever(list(found))
    result = asyncio.run(ask(question, method, {"answer": model}, retriever))
    assert result.trace.committed.strip() == result.answer.text.strip()
    return result, model


def when_asked(reply, otherwise):
    """A script that knows the call for the short answer by its key: seed, question, name."""
    return lambda shown, key: reply if key[2] == "elicit" else otherwise


def keys(result):
    return [event.key[0] for event in result.trace.events if isinstance(event, Generated)]


@pytest.mark.parametrize("method", OWN)
def test_an_answer_that_is_not_stated_is_asked_for_and_becomes_part_of_the_text(method):
    result, model = run(method(prompts=BARE), [" The Arno flows there.", " Arno. It is long"])
    assert model.prompts[1] == model.prompts[0] + " The Arno flows there. So the answer is"
    assert result.answer.text == "The Arno flows there. So the answer is Arno."
    assert result.answer.short == "Arno"
    decision = result.trace.decisions[-1]
    assert (decision.name, decision.outcome) == ("end", "elicit")
    asked = [event for event in result.trace.events if isinstance(event, Generated)][-1]
    assert (asked.key, asked.parent, asked.generated_tokens) == (("elicit",), decision.id, 2)


@pytest.mark.parametrize("method", OWN)
def test_the_passages_last_shown_stay(method):
    result, model = run(method(prompts=BARE), [" The Arno flows there.", " Arno."])
    assert ("[1] Arno: The Arno flows" in model.prompts[1]) == (method is not ClosedBook)
    assert bool(result.answer.citations) == (method is not ClosedBook)


@pytest.mark.parametrize("method", OWN)
def test_a_stated_answer_is_not_asked_for(method):
    result, _ = run(method(), [" So the answer is Arno."])
    assert "elicit" not in keys(result)
    assert result.answer.short == "Arno"


@pytest.mark.parametrize("method", OWN)
def test_the_parameter_turns_it_off(method):
    result, model = run(method(ask_short_answer=False), [" The Arno."])
    assert (result.answer.text, result.answer.short, len(model.prompts)) == ("The Arno.", "", 1)


@pytest.mark.parametrize("nothing", ["", " ", ".", "\n\nQuestion: next", Reply("\n", ends=False)])
def test_nothing_is_added_when_nothing_came(nothing):
    result, _ = run(ClosedBook(), [" The Arno.", nothing])
    assert (result.answer.text, result.answer.short) == ("The Arno.", "")
    assert keys(result) == ["answer", "elicit"]


@pytest.mark.parametrize("method", OWN)
def test_after_no_text_at_all(method):
    result, model = run(method(prompts=BARE), ["", " Arno."])
    assert model.prompts[1] == model.prompts[0] + " So the answer is"
    assert (result.answer.text, result.answer.short) == ("So the answer is Arno.", "Arno")


@pytest.mark.parametrize(
    ("written", "added"),
    [
        (" The Arno \n", "So the answer is Arno."),
        (" So the answer is", " Arno."),
        (" So the answer is:", " Arno."),
        (" It flows. So the answer", " is Arno."),
        (" The river of Pi", " So the answer is Arno."),
    ],
    ids=["white space behind", "phrase whole", "phrase with colon", "phrase begun", "cut in a word"],
)
def test_how_text_and_phrase_are_joined(written, added):
    result, model = run(ClosedBook(prompts=BARE), [written, " Arno."])
    assert not model.prompts[1][-1].isspace()
    assert result.answer.text == written.lstrip() + added
    assert result.answer.short == "Arno"


def test_it_is_bounded():
    words = [f"w{number}" for number in range(24)]
    result, _ = run(ClosedBook(), [" The Arno.", Reply(f" {' '.join(words)}", ends=False)])
    assert result.answer.text == f"The Arno. So the answer is {' '.join(words[:20])}"


@pytest.mark.parametrize(
    ("replies", "short"),
    [
        ([" They do.", " yes. So"], "yes"),
        ([" They do.", " no. But"], "no"),
        ([" Yes, they do.", " who"], "yes"),
        ([" Yes, they do.", ""], "yes"),
    ],
)
def test_yes_and_no(replies, short):
    """What can't be read as an answer does not hide one that can."""
    result, _ = run(ClosedBook(), replies, question=Question("q", "Is it?", task="yes_no"))
    assert result.answer.short == short
    assert ("answer is" in result.answer.text) == (replies[1] not in (" who", ""))


@pytest.mark.parametrize("method", OWN)
def test_what_question_and_passages_say_about_an_answer_does_not_count(method):
    question = Question("q", "Which song says that the answer is blowing in the wind?")
    passage = Passage("p", "Song", "So the answer is Hey Jude.")
    result, _ = run(method(), when_asked(" Bob Dylan.", otherwise=""), [passage], question)
    assert keys(result)[-1] == "elicit"
    assert result.answer.short == "Bob Dylan"


def test_the_phrase_belongs_to_the_wording():
    template = PromptTemplate(demos=(), elicitation=" In short, the answer is")
    result, _ = run(ClosedBook(prompts=template), [" The Arno.", " Arno."])
    assert result.answer.text == "The Arno. In short, the answer is Arno."
    assert repr(template) != repr(PromptTemplate(demos=()))


def test_a_model_that_only_chats_and_can_not_go_on_is_not_asked():
    result, model = run(ClosedBook(), ["The Arno."], capabilities=frozenset({"chat"}))
    assert (result.answer.text, len(model.prompts)) == ("The Arno.", 1)
    assert "can't continue a text" in result.trace.decisions[-1].why


def test_a_full_window_keeps_the_answer():
    replies = [Reply(" one two three", ends=False), " Arno."]
    prompt_tokens = run(ClosedBook(max_tokens=3, ask_short_answer=False), replies)[0].usage.prompt_tokens
    for spare, num_calls in ((26, 1), (27, 2)):
        # The answer's 3 tokens, the phrase's 4 and the 20 to come.
        result, model = run(ClosedBook(max_tokens=3), replies, context_tokens=prompt_tokens + spare)
        assert len(model.prompts) == num_calls
        assert result.answer.text.startswith("one two three")
    assert result.answer.short == "Arno"


# As the authors' code has it.
