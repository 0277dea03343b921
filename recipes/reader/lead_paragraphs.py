"""Questions made from the facts that the lead sentences of paragraphs state in a fixed form.

A dataset marks facts only in the paragraphs that its questions need, which are one in five. The other
paragraphs begin in the same form, "Ada Doe (1 May 1900 – 2 June 1980) was a Danish film director", and so
state dates and nationalities that no question asks for. Only facts in such fixed forms are used. The rest of
each paragraph is ignored.
"""

import random
import re
from collections.abc import Sequence

from askance.core.types import Question
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import Paragraph, SupportingFacts, Triple
from askance.text.answers import sentence_spans
from askance_lab.training.actions.relations import is_same_name, questions

NUM_DISTRACTORS = 3
"""The greatest number of distractors that are added to the paragraph that states the facts."""

_MONTH = "January|February|March|April|May|June|July|August|September|October|November|December"
_DATE = rf"(?:\d{{1,2}} (?:{_MONTH}) \d{{4}}|(?:{_MONTH}) \d{{1,2}}, \d{{4}})"
_LIFE = re.compile(rf"^[^()]{{2,60}}\([^()]{{0,60}}?({_DATE})[^()\d]{{1,40}}?({_DATE})\)")
_BORN = re.compile(rf"^[^()]{{2,60}}\( ?born (?:on )?({_DATE})[^()]{{0,40}}\)")
_NATIONALITY = re.compile(r"^[^()]{2,60}\([^()]*\) (?:is|was) an? ([A-Z][a-z]+(?:an|ish|ese|ch|i|sh)) [a-z]")
_FILM = re.compile(r"^[^.]{0,120}? is an? (\d{4}) [^.]{0,80}?film")


def lead_facts(paragraph: Paragraph) -> tuple[Triple, ...]:
    """Return the facts about a person or a film that the paragraph's lead sentence states, if any."""
    spans = sentence_spans(paragraph.text)
    lead = paragraph.text[: spans[0][1]] if spans else ""
    facts: list[tuple[str, str]] = []
    if life := _LIFE.match(lead):
        facts += [("date of birth", life[1]), ("date of death", life[2])]
    elif born := _BORN.match(lead):
        facts += [("date of birth", born[1])]
    if facts and (people := _NATIONALITY.match(lead)):
        facts += [("country of citizenship", people[1])]
    if film := _FILM.match(lead):
        facts += [("publication date", film[1])]
    return tuple(Triple(paragraph.title, relation, value) for relation, value in facts)


def lead_records(examples: Sequence[Example], rng: random.Random) -> tuple[Example, ...]:
    """Return a record for each paragraph that states a fact in its lead sentence and that no example needs.

    The records serve for comparisons (`composed_questions.comparisons`). The question of each record asks for
    the first of its facts.
    """
    needed = {paragraph.title for example in examples for paragraph in example.supporting_facts.supporting}
    others = {
        paragraph.title: paragraph
        for example in examples
        for paragraph in example.supporting_facts.paragraphs
        if paragraph.title not in needed
    }
    facts_by_title = {title: lead_facts(paragraph) for title, paragraph in others.items()}
    pool = list(others.values())
    return tuple(_record(others[title], facts, pool, rng) for title, facts in facts_by_title.items() if facts)


def _record(
    paragraph: Paragraph, facts: tuple[Triple, ...], pool: Sequence[Paragraph], rng: random.Random
) -> Example:
    marked = Paragraph(paragraph.title, paragraph.text, (sentence_spans(paragraph.text)[0],))
    drawn = rng.sample(pool, min(len(pool), NUM_DISTRACTORS + 1))
    distractors = [other for other in drawn if not is_same_name(other.title, paragraph.title)]
    question = Question(f"opening of {paragraph.title}", questions(facts[0])[0])
    supporting_facts = SupportingFacts((marked, *distractors[:NUM_DISTRACTORS]), facts)
    return Example(question, (facts[0].object,), supporting_facts=supporting_facts, hops=1)
