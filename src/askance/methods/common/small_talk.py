"""Small talk: turns of a conversation that nothing is searched for, such as "Thanks!" and "Who are you?".

A rule of word lists (`small_talk.toml`) recognises them, in English only. A sentence is small talk if all its
words are listed for one of four kinds, and some are those that the kind needs. Names, numbers and words such
as "he" and "where" are in no list, so follow-ups are questions.
"""

import re
import tomllib
from dataclasses import replace
from pathlib import Path

from askance.core.parameters import checked_dataclass
from askance.core.ports import Run
from askance.core.types import Question
from askance.methods.common.prompts import PromptTemplate
from askance.methods.common.question_rewriter import QuestionRewriter

_LISTS = tomllib.loads(Path(__file__).with_name("small_talk.toml").read_text(encoding="utf-8"))
_PHRASES = {phrase.strip() for phrase in " ".join(_LISTS.pop("phrases").split()).split(";")}
_FILLER = frozenset(_LISTS.pop("filler").split())
_NEEDS = [[frozenset(words.split()) for words in kind["needs"]] for kind in _LISTS.values()]
_KNOWN = [
    _FILLER.union(kind["others"].split(), *needs, *_NEEDS[0])
    for kind, needs in zip(_LISTS.values(), _NEEDS, strict=True)
]
_MOST_CHARACTERS = 200
INSTRUCTION = "You answer from documents. Reply to the small talk briefly, and from the conversation alone."


def is_small_talk(text: str) -> bool:
    """Return whether each sentence of a turn is small talk or a question about the conversation."""
    if len(text) > _MOST_CHARACTERS:
        return False
    clauses = re.split(r"(?<=\?)|[.,;:!\n]", text.lower())
    listed = [_is_listed(words) for clause in clauses if (words := re.findall(r"\w+|\?", clause))]
    return bool(listed) and all(listed)


def _is_listed(words: list[str]) -> bool:
    kinds, found = zip(_NEEDS, _KNOWN, strict=True), set(words)
    is_kind = any(found <= known and all(found & need for need in needs) for needs, known in kinds)
    return is_kind or " ".join(words).removesuffix(" ?") in _PHRASES


@checked_dataclass()
class SmallTalkHistory(QuestionRewriter):
    """What shows the last turns of the conversation to the method that replies to small talk."""

    async def rewrite(self, question: Question, run: Run) -> Question:
        """Return the question with the earlier turns that fit, and record why nothing is searched for."""
        run.trace.decide("retrieve", "none", "small talk: nothing to search for")
        return replace(question, history=await self.clipped(question, run.model))


def small_talk_prompt(question: Question, *, is_chat: bool) -> PromptTemplate:
    """Return the fixed text of the prompt for a reply."""
    told = f"{INSTRUCTION} Earlier questions of the user: {len(question.history)}."
    return PromptTemplate((), instruction="" if is_chat else told, system=told, name="small_talk")
