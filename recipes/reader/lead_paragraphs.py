"""Records made of the paragraphs around the questions: what their opening sentences tell in a set form.

A dataset marks facts in the paragraphs that its questions need, one in five. The others begin in the same
way, "Ada Doe (1 May 1900 – 2 June 1980) was a Danish film director", and so tell dates and nationalities that
nobody asked for. Only what stands in one of these forms is taken; the rest of a paragraph may say anything.
"""

import random
import re
from collections.abc import Sequence

from askance.core.types import Question
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.grounds import Paragraph, SupportingFacts, Triple
from askance.text.answers import sentence_spans
from recipes.reader.relations import is_same_name, questions

NUM_DISTRACTORS = 3
"""Paragraphs beside the one that tells, to choose among."""

_MONTH = "January|February|March|April|May|June|July|August|September|October|November|December"
_DATE = rf"(?:\d{{1,2}} (?:{_MONTH}) \d{{4}}|(?:{_MONTH}) \d{{1,2}}, \d{{4}})"
_LIFE = re.compile(rf"^[^()]{{2,60}}\([^()]{{0,60}}?({_DATE})[^()\d]{{1,40}}?({_DATE})\)")
_BORN = re.compile(rf"^[^()]{{2,60}}\( ?born (?:on )?({_DATE})[^()]{{0,40}}\)")
_PEOPLE = re.compile(r"^[^()]{2,60}\([^()]*\) (?:is|was) an? ([A-Z][a-z]+(?:an|ish|ese|ch|i|sh)) [a-z]")
_FILM = re.compile(r"^[^.]{0,120}? is an? (\d{4}) [^.]{0,80}?film")


def lead_facts(paragraph: Paragraph) -> tuple[Triple, ...]:
    """What the first sentence tells of a person or a film, in the order of the text; often nothing."""
    spans = sentence_spans(paragraph.text)
    opening = paragraph.text[: spans[0][1]] if spans else ""
    found: list[tuple[str, str]] = []
    if life := _LIFE.match(opening):
        found += [("date of birth", life[1]), ("date of death", life[2])]
    elif born := _BORN.match(opening):
        found += [("date of birth", born[1])]
    if found and (people := _PEOPLE.match(opening)):
        found += [("country of citizenship", people[1])]
    if film := _FILM.match(opening):
        found += [("publication date", film[1])]
    return tuple(Triple(paragraph.title, relation, value) for relation, value in found)


def lead_records(examples: Sequence[Example], rng: random.Random) -> tuple[Example, ...]:
    """One record for each paragraph that none of `examples` needs and whose opening tells something.

    They are there to be compared (`composing.comparisons`): their questions ask for one fact each.
    """
    needed = {paragraph.title for example in examples for paragraph in example.grounds.supporting}
    others = {
        paragraph.title: paragraph
        for example in examples
        for paragraph in example.grounds.paragraphs
        if paragraph.title not in needed
    }
    told = {title: lead_facts(paragraph) for title, paragraph in others.items()}
    pool = list(others.values())
    return tuple(_record(others[title], facts, pool, rng) for title, facts in told.items() if facts)


def _record(
    paragraph: Paragraph, facts: tuple[Triple, ...], pool: Sequence[Paragraph], rng: random.Random
) -> Example:
    marked = Paragraph(paragraph.title, paragraph.text, (sentence_spans(paragraph.text)[0],))
    drawn = rng.sample(pool, min(len(pool), NUM_DISTRACTORS + 1))
    apart = [each for each in drawn if not is_same_name(each.title, paragraph.title)]
    question = Question(f"opening of {paragraph.title}", questions(facts[0])[0])
    grounds = SupportingFacts((marked, *apart[:NUM_DISTRACTORS]), facts)
    return Example(question, (facts[0].object,), grounds=grounds, hops=1)
