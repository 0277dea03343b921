"""Questions of two hops out of questions of one: where the answer to one is named in another.

"Who composed Carmen?" (Georges Bizet) and "Where did Georges Bizet die?" make "Where did the one who
composed Carmen die?". 2WikiMultihopQA's chains are few relations of a knowledge base; these are people's own
questions about anything, as MuSiQue's are, whose composition by hand (Trivedi et al., 2022) this follows by
rule. What a rule can't turn into a noun phrase is left out.
"""

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from askance.core.types import Question
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.grounds import Paragraph, SupportingFacts
from askance.text.answers import sentences

MOST_PER_BRIDGE = 5
"""Questions about one thing: the name of an article is in half of its questions."""
NUM_DISTRACTORS = 4
"""Paragraphs beside those of the two questions, to choose among."""
LONGEST_FACT_WORDS = 30
"""A longer sentence is not written out: the answer then follows the first fact."""

_BE = r"(?:is|are|was|were)"
_IRREGULAR = (
    "is|are|was|were|has|had|can|could|will|would|may|came|led|won|wrote|became|took|made|held|gave|ran|built|"
    "began|met|saw|said|left|lost|sold|sent|set|put|grew|knew|drew|fought|taught|brought|bought|thought|found"
)
_TWISTED = re.compile(r",|\b(?:do|does|did|called|named)\b")
"""Where the words would have to change their order."""
_BEHIND = (
    r"(?='s\b|[,?.]|$| (?:is|are|was|were|has|had|have|did|do|does|can|could|will|would|may|in|into|to|of|on|"
    r"from|for|at|by|and|or|as|with|without|before|after|during|because|when|while|about|against|become|begin|"
    r"meet|use|try|want|think|believe|say|make|take|get|come|go|lose|win|die|live|start|end|lead|rule|own|"
    r"face)\b)"
)
"""What may stand behind a name that is a thing by itself, not the beginning of "Newtonian physics"."""
_VERB = rf"(?:(?:{_IRREGULAR}|\w+ed|(?!\w*ss\b)\w+s) .+)"
_NOUN = r"((?:[a-z][\w-]* ){0,2}?[a-z][\w-]*?)"
_RULES = (
    (re.compile(rf"(?:What|Who) {_BE} (?:the )?name of (.+)"), r"{0}"),
    (re.compile(rf"(?:What|Who) {_BE} (the .+)"), r"{0}"),
    (re.compile(rf"Who ({_VERB})"), r"the one who {0}"),
    (re.compile(rf"(?:What|Which) {_NOUN} ({_VERB})"), r"the {0} that {1}"),
    (re.compile(rf"Where ({_BE}) (.+) (\w+ed|held|born|found|built|made|shot|set|kept|won|lost|fought)"),
     r"the place where {1} {0} {2}"),
)  # fmt: skip


def noun_phrase(question: str) -> str:
    """What a question asks for, as "the one who composed Carmen"; empty where no rule fits."""
    asked = question.strip().removesuffix("?").strip()
    if _TWISTED.search(asked):
        return ""
    found = ((rule.fullmatch(asked), form) for rule, form in _RULES)
    return next((form.format(*match.groups()) for match, form in found if match), "")


def bridge_questions(examples: Sequence[Example], rng: random.Random) -> tuple[Example, ...]:
    """All such questions, with both paragraphs among others, in a random order.

    Args:
        examples: of one hop, each on one paragraph, with an answer.
    """
    pool = [example.grounds.paragraphs[0] for example in examples]
    made: list[tuple[str, Example]] = []
    asked: set[str] = set()
    for name, leads in sorted(_by_answer(examples).items()):
        found = [
            (lead, example)
            for example in examples
            for lead in leads
            if _names(example, name) and _is_apart(lead, example)
        ]
        rng.shuffle(found)
        for lead, example in found[: 3 * MOST_PER_BRIDGE]:
            if example.question.id in asked or sum(name == each for each, _ in made) == MOST_PER_BRIDGE:
                continue
            asked.add(example.question.id)
            made.append((name, _record(lead, example, name, pool, rng)))
    records = [record for _, record in made]
    rng.shuffle(records)
    return tuple(records)


def _by_answer(examples: Sequence[Example]) -> dict[str, list[Example]]:
    """Questions that a rule can turn, by their answers, which must be names."""
    leads: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        name = example.golds[0].strip()
        if re.fullmatch(r"(?:the )?[A-Z][^\d,.()]{3,40}", name) and noun_phrase(example.question.text):
            leads[name].append(example)
    return leads


def _names(example: Example, name: str) -> bool:
    """Whether the question names it, and not as a part of a longer name."""
    if name not in example.question.text:
        return False
    at = re.search(rf"(?<![\w-]){re.escape(name)}{_BEHIND}", example.question.text)
    return at is not None and not re.search(r"[A-Z][\w'-]*\s$", example.question.text[1 : at.start()])


def _is_apart(lead: Example, example: Example) -> bool:
    """Neither question gives the other's answer away."""
    first, second = lead.golds[0].casefold(), example.golds[0].casefold()
    return first not in second and second not in lead.question.text.casefold()


def _record(
    lead: Example, example: Example, name: str, pool: Sequence[Paragraph], rng: random.Random
) -> Example:
    phrase = noun_phrase(lead.question.text)
    text = re.sub(rf"(?:\b[Tt]he )?{re.escape(name)}", lambda _: phrase, example.question.text, count=1)
    needed = _merged(lead.grounds.paragraphs[0], example.grounds.paragraphs[0])
    others = rng.sample(pool, min(len(pool), 2 * NUM_DISTRACTORS))
    apart = {each.text: Paragraph(each.title, each.text) for each in others if name not in each.text}
    apart = {text: each for text, each in apart.items() if text not in {need.text for need in needed}}
    grounds = SupportingFacts(
        (*needed, *list(apart.values())[:NUM_DISTRACTORS]),
        facts=(f"{_capital(phrase)} is {name}.", *_evidence(example)),
    )
    id = f"{lead.question.id}+{example.question.id}"
    return Example(Question(id, _capital(text)), example.golds, grounds=grounds, hops=2)


def _merged(one: Paragraph, other: Paragraph) -> tuple[Paragraph, ...]:
    if one.text != other.text:
        return one, other
    return (Paragraph(one.title, one.text, tuple(sorted({*one.evidence, *other.evidence}))),)


def _evidence(example: Example) -> Iterator[str]:
    """The sentence of the answer, if it is short."""
    for part in example.grounds.paragraphs[0].evidence_texts:
        for sentence in sentences(part):
            if len(sentence.split()) <= LONGEST_FACT_WORDS and example.golds[0] in sentence:
                yield " ".join(sentence.split())


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
