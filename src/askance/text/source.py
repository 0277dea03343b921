"""The source of an answer: the passages that say it, or the model's memory with its own probability."""

import math
from collections.abc import Sequence
from itertools import accumulate

from askance.core.answers import Answer
from askance.core.trace import AnyEvent, Decided, Generated, Searched, TracedToken
from askance.text.answers import is_yes_or_no
from askance.text.support import cited_sentences, covered_share, unmarked

_MOST_TITLE = 60


def source_of(answer: Answer, events: Sequence[AnyEvent]) -> str:
    """Return the source of an answer in words: "from [1] [3]", "from “TITLE”" or "from memory, 0.93".

    An answer is from passages if the sentence that states its short answer cites one, or if a passage that a
    prompt showed contains all words of the short answer. Otherwise, it is from memory, unless the method has
    decided between the two (decision "source"). The number is the model's own probability: the geometric mean
    of the probabilities of the short answer's tokens or, if they are unknown, of those of the text or, if
    they are unknown as well, the agreement of sampled answers. An abstained or empty answer has no source.

    Args:
        events: The trace of the question.
    """
    if answer.abstained or not answer.text.strip():
        return ""
    decisions = (event for event in reversed(events) if isinstance(event, Decided))
    ruling = next((event.outcome for event in decisions if event.name == "source"), "")
    if ruling != "memory":
        if answer.citations and (ruling or _is_cited(answer)):
            numbers = sorted({citation.number for citation in answer.citations})
            return " ".join(["from", *(f"[{number}]" for number in numbers)])
        title = _stating_title(answer.short, events)
        if title or ruling:
            return f"from “{title}”" if title else "from passages"
    probability = _probability(answer, events)
    return "from memory" if probability is None else f"from memory, {probability:.2f}"


def _is_cited(answer: Answer) -> bool:
    """Return whether a sentence that states the short answer cites a passage; if none states it, any does."""
    sentences, short = cited_sentences(answer), answer.short.casefold()
    stating = [each for each in sentences if short and short in each.text.casefold()]
    return any(each.passages for each in stating or sentences)


def _stating_title(short: str, events: Sequence[AnyEvent]) -> str:
    """Return the title of the first passage in a prompt that contains all words of the short answer."""
    prompts = [" ".join(event.prompt.split()) for event in events if isinstance(event, Generated)]
    found = (hit.passage for event in events if isinstance(event, Searched) for hit in event.hits)
    for passage in found if not is_yes_or_no(short) else ():  # any passage may contain "no"
        text = " ".join(passage.text.split())
        if covered_share(short, passage.title, passage.text) == 1 and any(text in each for each in prompts):
            return " ".join((passage.title or passage.id).split())[:_MOST_TITLE]
    return ""


def _probability(answer: Answer, events: Sequence[AnyEvent]) -> float | None:
    written = [event for event in events if isinstance(event, Generated) and event.role == "answer"]
    kept = [event for event in written if (text := unmarked(event.text).strip()) and text in answer.text]
    stating = [_tokens_of(answer.short, event) for event in kept] if answer.short else []
    whole = [token for event in kept for token in event.tokens]
    known = filter(None, map(_mean_probability, [*stating, whole]))
    return next(known, answer.agreement)


def _tokens_of(short: str, event: Generated) -> list[TracedToken]:
    """Return the tokens that have a character of the last occurrence of `short`, if there is one."""
    start = event.text.rfind(short)
    ends = accumulate(len(token.text) for token in event.tokens)
    spans = [(end - len(token.text), end, token) for token, end in zip(event.tokens, ends, strict=True)]
    return [token for at, end, token in spans if at < start + len(short) and end > start >= 0]


def _mean_probability(tokens: Sequence[TracedToken]) -> float | None:
    """Return the geometric mean of the tokens' probabilities, or None if one is unknown."""
    logprobs = [token.logprob for token in tokens if token.logprob is not None]
    is_known = logprobs and len(logprobs) == len(tokens)
    return math.exp(sum(logprobs) / len(logprobs)) if is_known else None
