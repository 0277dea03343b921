"""Short answers that the authors' code asks for: it only reads them, and adds nothing to the text."""

import pytest

from askance.core.trace import Generated
from askance.models.scripted import Reply
from askance_lab.reproductions.baselines import (
    ClosedBookAuthors,
    FixedLengthAuthors,
    FixedSentenceAuthors,
    FlareToken,
    SingleAuthors,
)
from askance_lab.reproductions.dragin import DraginAuthors
from tests.methods import test_ask_short_answer as own
from tests.methods.test_ask_short_answer import BARE, CASE, keys, run, when_asked

CODE = [
    ClosedBookAuthors,
    SingleAuthors,
    FixedLengthAuthors,
    FixedSentenceAuthors,
    FlareToken,
    DraginAuthors,
]


@pytest.mark.parametrize("method", CODE)
def test_a_stated_answer_is_not_asked_for(method):
    own.test_a_stated_answer_is_not_asked_for(method)


@pytest.mark.parametrize("method", [FlareToken, DraginAuthors])
def test_what_question_and_passages_say_about_an_answer_does_not_count(method):
    own.test_what_question_and_passages_say_about_an_answer_does_not_count(method)


@pytest.mark.parametrize("method", CODE)
def test_the_authors_code_reads_the_answer_and_leaves_the_text(method):
    parameters = {"max_tokens": 3}
    replies = when_asked(" Arno. Then", otherwise=" The Arno. So")
    with_it, model = run(method(prompts=BARE, **parameters), replies)
    without, _ = run(method(prompts=BARE, ask_short_answer=False, **parameters), replies)
    assert with_it.answer.text == without.answer.text
    assert (with_it.answer.short, without.answer.short) == ("Arno", "")
    assert model.prompts[-1] == f"{CASE} {with_it.answer.text.strip()} So the answer is "
    assert (keys(with_it)[-1], with_it.trace.decisions[-1].outcome) == ("elicit", "elicit")


def test_the_authors_code_cuts_what_was_invented():
    replies = [" The Arno. Note: Question: who? So the answer is me.", " Arno. Question: no"]
    result, model = run(ClosedBookAuthors(prompts=BARE), replies)
    assert model.prompts[1] == f"{CASE} The Arno.  So the answer is "
    assert result.answer.short == "Arno"


@pytest.mark.parametrize(
    ("written", "asked"), [("Note: this.", "Note: this."), ("Note: x Question: y", "Note: x ")]
)
def test_an_invention_right_at_the_start_stays(written, asked):
    _, model = run(ClosedBookAuthors(prompts=BARE), [Reply(written), " x"])
    assert model.prompts[1].startswith(f"{CASE} {asked}")
    assert "y" not in model.prompts[1].removeprefix(CASE)


def test_an_invention_at_the_start_of_what_was_elicited_is_cut():
    result, _ = run(ClosedBookAuthors(), [" The Arno.", "Note: Po."])
    assert result.answer.short == ""


def test_the_authors_code_minds_letter_case():
    result, _ = run(ClosedBookAuthors(), [" The Answer is Po.", " Arno."])
    assert result.answer.short == "Arno"


def test_the_authors_code_keeps_the_answer_in_a_full_window():
    replies = [Reply(" one two three", ends=False), " Arno."]
    prompt_tokens = run(ClosedBookAuthors(max_tokens=3, ask_short_answer=False), replies)[
        0
    ].usage.prompt_tokens
    result, model = run(ClosedBookAuthors(max_tokens=3), replies, context_tokens=prompt_tokens + 20)
    assert (result.answer.text, len(model.prompts)) == (" one two three", 1)
    assert "has no room" in result.trace.decisions[-1].why


def test_an_end_token_is_one_again():
    result, model = run(ClosedBookAuthors(prompts=BARE), [" The Arno.", " Arno."])
    assert model.prompts[1] == f"{CASE} The Arno.<|end|> So the answer is "
    first, second = [event for event in result.trace.events if isinstance(event, Generated)]
    # " The", " Arno.", the end, and the phrase's four with a space behind.
    assert second.prompt_tokens - first.prompt_tokens == 8
