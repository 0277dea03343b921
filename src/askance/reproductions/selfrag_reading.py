"""What the Self-RAG authors' code writes behind the question's prompt, and what it reads out of that.

It reads log-probabilities of the likeliest tokens and takes -100 for one that is not among them. Here all
are known, and one is missing where its probability is 0.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from askance.core.ports import Run
from askance.core.types import (
    Citation,
    GenerateRequest,
    Generation,
    Hit,
    Key,
    Part,
    Passage,
    Question,
    Raw,
    Sampling,
    Span,
    Token,
    untrusted,
)
from askance.methods.selfrag import tokens
from askance.methods.selfrag.parameters import SelfragParameters
from askance.methods.selfrag.scoring import fit_passage, passage_spans
from askance.methods.selfrag.segments import search_passages
from askance.methods.selfrag.tasks import Separator, Task, input_text, lettered_options, prompt_head, task_of
from askance.methods.selfrag.tokens import (
    NO_RETRIEVAL,
    RETRIEVAL,
    WANTED,
    Distribution,
    Group,
    ReflectionVocabulary,
)
from askance.text.answers import sentence_spans
from askance.text.options import lettered

Judgements = Mapping[Group, Distribution]

_MISSING = -100.0


class QueryContext:
    """One question, and what is written behind its prompt. Nothing stops it but its length.

    Attributes:
        parameters: those that every reading of Self-RAG has.
        fixed_weights: the scores of segments are weighted as the code has it, whatever the parameters say.
    """

    def __init__(
        self, parameters: SelfragParameters, question: Question, run: Run, *, fixed_weights: bool
    ) -> None:
        self.parameters, self.question, self.run, self.fixed_weights = (
            parameters,
            question,
            run,
            fixed_weights,
        )
        self.vocabulary = ReflectionVocabulary.of(run.model)
        self.task = task_of(parameters.task, question)
        asked, separator = asked_with(question, self.task, parameters.separator, parameters.form)
        self._before = prompt_head(asked, self.task, parameters.instructions, separator, run.trace)

    async def write(self, *behind: Part, hit: Hit | None = None, key: Key, max_tokens: int = 0) -> Generation:
        """All that follows `behind` and a passage, as long as an answer may be unless a length is given."""
        max_tokens = max_tokens or self.parameters.max_tokens

        def prompt_with(*shown: Hit) -> Raw:
            passages = (part for each in shown for part in (Span(RETRIEVAL), *passage_spans(each)))
            return Raw(self._before, (*behind, *passages))

        prompt = fit_passage(self.run, self.run.model, prompt_with, hit, max_tokens)
        request = GenerateRequest(prompt, Sampling(max_tokens), WANTED, key=key)
        (written,) = await self.run.model.generate(request)
        return written

    async def write_alone(self) -> str:
        """The answer without passages."""
        return self.text(await self.write(Span(NO_RETRIEVAL), key=("none",)))

    def text(self, written: Generation) -> str:
        """A generation as text, with the end token where the model's text shows it."""
        return written.text.removesuffix(END) + END if self.shows_end(written) else written.text

    def shows_end(self, written: Generation) -> bool:
        """Whether the model ended, and decodes the token by which it did as some text."""
        ends = tuple(token.id for token in written.dropped) if written.finish == "end" else ()
        return bool(ends and self.run.model.decode(ends))

    async def found(
        self, searches: bool, why: str, signal: str = "", numbers: Mapping[str, float] = {}
    ) -> tuple[Hit, ...]:
        """Record whether there is a search for the question; the passages found."""
        outcome, query = ("search", self.question.text) if searches else ("keep", "")
        told = {
            "signal": signal,
            "threshold": self.parameters.threshold,
            "query": query,
            "numbers": dict(numbers),
        }
        decision = self.run.trace.decide("retrieve", outcome, why, **told)
        return await search_passages(self.run, decision, self.parameters.passages) if searches else ()

    async def found_by_mode(self) -> tuple[Hit, ...]:
        """What is found where there is nothing to decide."""
        return await self.found(self.parameters.mode == "always", f"mode={self.parameters.mode}")

    async def found_by_share(
        self, share: float, threshold: float, kind: str, probs: Distribution
    ) -> tuple[Hit, ...]:
        """What is found where a share of [Retrieval], of whichever kind, decides."""
        above = "above" if share > threshold else "not above"
        why = f"the {kind} is {share:.2f}, {above} {threshold:g}"
        return await self.found(share > threshold, why, kind, {**probs, "share": share})

    def show(self, node: str, text: str, hit: Hit, numbers: Mapping[str, float], judged: Judgements) -> None:
        """A candidate in the trace: its text, passage, scores and what they were read from."""
        found = {name: dict(probs) for name, probs in judged.items() if probs}
        self.run.trace.expand(node, "retrieve", text, passage=hit, numbers=dict(numbers), distributions=found)

    def judgements(self, written: Generation) -> Judgements:
        """Relevance where a continuation begins, support and utility at their first tokens, or empty."""
        return {
            "relevance": tokens.first_distribution(written, "relevance"),
            "support": self.vocabulary.group_probs(written.tokens, "support"),
            "utility": self.vocabulary.group_probs(written.tokens, "utility"),
        }

    def answer_scores(self, written: Generation, judged: Judgements) -> dict[str, float]:
        """The score of a whole answer, and its parts (short form)."""
        relevance = tokens.relevance_score(_filled("relevance", judged["relevance"]))
        read = self.parameters.use_utility and judged["utility"]
        utility = tokens.utility_score(_filled("utility", read)) if read else 0.0
        return self._scored(written, relevance, judged, utility)

    def segment_scores(self, written: Generation, judged: Judgements) -> dict[str, float]:
        """The score of a segment, and its parts (long form).

        With `fixed_weights` they are 1, 1 and 0.5, without a sequence term, as their script has it whatever
        its options say. Utility is 0, since the code looks for its tokens among those of support; and -100
        stands for a missing probability of relevance rather than for its logarithm, which makes a segment
        best that [Relevant] is missing from.
        """
        relevance = judged["relevance"]
        relevant, irrelevant = (relevance.get(each, 0.0) or _MISSING for each in tokens.GROUPS["relevance"])
        scores = self._scored(written, relevant / (relevant + irrelevant), judged, 0.0)
        fixed = {"score": scores["relevance"] + scores["support"]}
        return {**scores, **fixed} if self.fixed_weights else scores

    def _scored(
        self, written: Generation, relevance: float, judged: Judgements, utility: float
    ) -> dict[str, float]:
        parameters, computed = self.parameters, (*written.tokens, *written.dropped)  # the end token included
        sequence = tokens.sequence_score(computed) if computed else 1.0
        read = parameters.use_groundness and judged["support"]
        support = tokens.support_score(_filled("support", read)) if read else 0.0
        score = parameters.w_rel * relevance + parameters.w_sup * support + parameters.w_use * utility
        parts = {"sequence": sequence, "relevance": relevance, "support": support, "utility": utility}
        return {"score": score + (sequence if parameters.use_seqscore else 0.0), **parts}


def inverted_share(probs: Distribution) -> float:
    """The share of [Retrieval] in the logarithms of its probability and that of [No Retrieval].

    The more probable it is, the smaller its share: above 0.2 means a probability below 0.7245, where the two
    tokens are all there is. Ours: a missing token counts -100, as meant; the code fails on one.
    """
    filled = _filled("retrieve", probs)
    search, none = (abs(math.log(filled[token])) for token in (RETRIEVAL, NO_RETRIEVAL))
    return search / (search + none) if search + none else 0.0


def is_rewritten(probs: Distribution, threshold: float | None) -> bool:
    """Whether a [No Retrieval] with these probabilities beside it is read as [Retrieval].

    "Continue" speaks for it and is not in the divisor, so that the ratio may be above 1. Nothing is above a
    threshold of 1 all the same: the code compares the outcome of the comparison once more. With a threshold
    of 0 it always is, since a missing token counts e^-100. Ours: without a threshold, on which the code
    fails, nothing is rewritten.
    """
    if threshold is None or threshold >= 1:
        return False
    filled = _filled("retrieve", probs)
    return (filled[RETRIEVAL] + filled[tokens.CONTINUE]) / (
        filled[RETRIEVAL] + filled[NO_RETRIEVAL]
    ) > threshold


@dataclass(frozen=True, slots=True)
class Read:
    """A continuation as the tree of the long form takes it.

    Attributes:
        text: up to where another search begins, as text, in which control tokens are told by their names.
        behind: the same for later prompts, in the ids written.
        searches: another segment may follow.
        is_end: the end token and nothing else, where the model's text shows it.
    """

    text: str
    behind: tuple[Part, ...] = ()
    searches: bool = False
    is_end: bool = False


def segment(
    written: Generation, shows_end: bool, vocabulary: ReflectionVocabulary, threshold: float | None
) -> Read:
    """What is left of a continuation when the tail behind the first [Retrieval] is thrown away.

    The code looks for names in the text: an ordinary text that spells one counts, and a token that the
    model's text does not show doesn't. Each [No Retrieval] of the text may be read as [Retrieval] by the
    probabilities at the token of the same number; where any is in the text, one more is added at its end.

    Args:
        shows_end: the model's text has the end token, and so it has `END`.
    """
    ends = tuple(token.id for token in written.dropped) if shows_end else ()
    text = written.text.removesuffix(END) + END if ends else written.text
    told = _rewritten(text, written.tokens, vocabulary.ids[NO_RETRIEVAL], threshold)
    at = told.find(RETRIEVAL)
    shown = [token for token in written.tokens if token.text or token.id not in vocabulary.control_ids]
    if 0 <= at <= len(written.text):
        return Read(told[:at], _parts(shown, at), searches=True)
    stray = (vocabulary.ids[NO_RETRIEVAL],) if len(told) > len(text) else ()
    ids = (*(token.id for token in shown), *ends, *stray)
    return Read(told if at < 0 else told[:at], (ids,), searches=at >= 0, is_end=told == END)


def _rewritten(text: str, written: Sequence[Token], no_search: int, threshold: float | None) -> str:
    if NO_RETRIEVAL not in text:
        return text
    decided = (tokens.distribution(token, "retrieve") for token in written if token.id == no_search)
    turned = [is_rewritten(probs, threshold) for probs in decided]
    pieces = text.split(NO_RETRIEVAL)
    return "".join(
        piece + (RETRIEVAL if turned[at : at + 1] == [True] else NO_RETRIEVAL)
        for at, piece in enumerate(pieces)
    )


def _parts(written: Sequence[Token], num_chars: int) -> tuple[Part, ...]:
    """The tokens of the first `num_chars` characters; of one that they cut, its text."""
    whole = tuple(each.id for each in written if each.end <= num_chars and each.start < num_chars)
    cut = [each for each in written if each.start < num_chars < each.end]
    return (whole, *(untrusted(each.text[: num_chars - each.start]) for each in cut))


def _filled(group: Group, probs: Distribution) -> Distribution:
    return {token: probs.get(token, 0.0) or math.exp(_MISSING) for token in tokens.GROUPS[group]}


Told = tuple[str, Passage]
"""The text of a segment, control tokens included, and the passage that it was written with."""

END = "</s>"
"""How a text of theirs shows the end token, where it shows it."""

_STRIPPED = [token for token in tokens.ALL_TOKENS if token != tokens.CONTINUE]
_GOES_ON = f".{tokens.CONTINUE}"
_UNSPACED = re.compile(r"(?<=\w)([.!?])(?=\w)")


def asked_with(question: Question, task: Task, separator: Separator, form: str) -> tuple[str, Separator]:
    """What is asked, and what stands before it: separators differ by task from those of the training data."""
    shown = _four_options(lettered_options(question)) if task == "choice" else ()
    if separator == "auto" and form == "short":
        separator = "choice" if task == "choice" else "short_form"
    return input_text(question, shown), "training" if separator == "auto" else separator


def _four_options(shown: Sequence[str]) -> Sequence[str]:
    """Options as the authors' script for ARC shows them: A to D, of which D may be empty; E never.

    Ours: where A, B or C is missing, on which the script fails, the options stay as they are.
    """
    texts = dict(lettered(shown).values())
    if not {"A", "B", "C"} <= texts.keys():
        return shown
    return [f"{letter}: {texts.get(letter, '')}" for letter in "ABCD"]


def bare(text: str) -> str:
    """`text` without control tokens and the end token.

    Their list of control tokens lacks "continue to use evidence", which stays.
    """
    for token in (*_STRIPPED, END):
        text = text.replace(token, "")
    return text


def closed_text(text: str) -> str:
    """An answer by which closed questions group (their `postprocess_answer_option_conditioned`)."""
    return bare(text).replace("\n", "").replace("<|endoftext|>", "")


def without_sign(text: str) -> str:
    """`text` without a single "#" or ":" that begins it."""
    return text[1:] if text.startswith(("#", ":")) else text


def segment_text(text: str) -> str:
    """A segment, or a whole long answer: no tokens, and one blank less at its beginning (`postprocess`)."""
    return bare(text).removeprefix(" ")


def spaced(text: str) -> str:
    """With a space behind each sentence, and also in "3.14" and "U.S" (their `fix_spacing`)."""
    return _UNSPACED.sub(r"\1 ", text)


def whole_text(path: Sequence[Told]) -> str:
    """The segments joined by blanks, the root's empty text before them.

    So two segments of nothing but control tokens are something.
    """
    return segment_text(" ".join(["", *(text for text, _ in path)]))


def kept_segments(path: Sequence[Told]) -> list[tuple[int, str, Passage]]:
    """The segments that the script for ALCE's data sets writes, each with its place in the path, from 1.

    Those whose text stood before are left out, and so are those that are not even control tokens.
    """
    kept = dict[str, tuple[int, str, Passage]]()
    for at, (told, passage) in enumerate(path, start=1):
        if told:
            kept.setdefault(segment_text(told), (at, segment_text(told), passage))
    return list(kept.values())


def cited_text(path: Sequence[Told]) -> tuple[str, tuple[Citation, ...]]:
    """What the script for ALCE's data sets makes of a path's segments.

    The last character of each becomes a full stop, whatever it was. In front of that stands the segment's
    place in the path: a text that stood before is left out, but counts; of a segment of nothing but control
    tokens the full stop is left. Where a sentence ends in front of "continue to use evidence", it cites [1],
    the first passage of all. The last sentence of each piece cites, since the number stands at its end.

    Differs from theirs: the numbers are not in the text; and each stands for its segment's passage, where in
    their list of passages it may, behind a text left out, be another's or nobody's.
    """
    text, citations, kept = "", list[Citation](), kept_segments(path)
    for place, segment, own in kept:
        pieces = spaced(segment[:-1]).split(_GOES_ON)
        for at, piece in enumerate(pieces, start=1):
            number, passage = (place, own) if at == len(pieces) else (1, kept[0][2])
            start = len(text) + bool(text)
            text += f"{' ' if text else ''}{piece}."
            spans = sentence_spans(text[start:])[-1:] or [(0, 0)]
            citations.append(Citation(number, passage, start + spans[0][0], len(text)))
    return text, tuple(citations)
