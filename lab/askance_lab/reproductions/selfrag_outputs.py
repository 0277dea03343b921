"""The prompts and outputs of the Self-RAG authors' code: scores, segments and final texts.

The authors' code knows the log-probabilities of only the most likely tokens, and uses -100 for any other
token. Here all log-probabilities are known, and a token counts as missing if its probability is 0.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from askance.core.answers import Citation
from askance.core.parameters import checked_dataclass, parameter
from askance.core.ports import Run
from askance.core.types import (
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
from askance.methods.selfrag.prompts import (
    SEPARATOR,
    Task,
    input_text,
    lettered_options,
    prompt_head,
    task_of,
)
from askance.methods.selfrag.scoring import fit_passage, passage_spans
from askance.methods.selfrag.segments import search_passages
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


@checked_dataclass()
class AuthorsParameters(SelfragParameters):
    """The parameters of the authors' code."""

    fixed_weights: bool = parameter(True, "weights of 1, 1 and 0.5 and no sequence term in the long form")


class QueryContext:
    """One question with its prompt, and methods that search, generate without stop strings, and score."""

    def __init__(self, parameters: AuthorsParameters, question: Question, run: Run) -> None:
        self.parameters, self.question, self.run = parameters, question, run
        self.vocabulary = ReflectionVocabulary.of(run.model)
        self.task = task_of(parameters.task, question)
        text, separator = question_and_separator(question, self.task, parameters.form)
        instruction = getattr(parameters.instructions, self.task)
        self._before = prompt_head(text, instruction, separator, run.trace)

    async def write(self, *behind: Part, hit: Hit | None = None, key: Key, max_tokens: int = 0) -> Generation:
        """Generate text after `behind` and, if `hit` is given, a passage.

        Args:
            behind: The parts of the prompt between the question and the passage.
            max_tokens: The maximum number of new tokens; 0 means the value of the parameter `max_tokens`.
        """
        max_tokens = max_tokens or self.parameters.max_tokens

        def prompt_with(*shown: Hit) -> Raw:
            passages = (part for each in shown for part in (Span(RETRIEVAL), *passage_spans(each)))
            return Raw(self._before, (*behind, *passages))

        prompt = await fit_passage(self.run, self.run.model, prompt_with, hit, max_tokens)
        request = GenerateRequest(prompt, Sampling(max_tokens), WANTED, key=key)
        (written,) = await self.run.model.generate(request)
        return written

    async def write_alone(self) -> str:
        """Generate the answer without passages, and return its text."""
        return self.text_with_end(await self.write(Span(NO_RETRIEVAL), key=("none",)))

    def text_with_end(self, written: Generation) -> str:
        """Return the text of a generation, followed by `END` if `shows_end` is true for this generation."""
        return written.text.removesuffix(END) + END if self.shows_end(written) else written.text

    def shows_end(self, written: Generation) -> bool:
        """Return whether the generation ended with an end token that decodes to a non-empty string."""
        ends = tuple(token.id for token in written.dropped) if written.finish == "end" else ()
        return bool(ends and self.run.model.decode(ends))

    async def record_search(
        self, searches: bool, why: str, signal: str = "", numbers: Mapping[str, float] = {}
    ) -> tuple[Hit, ...]:
        """Record whether the method searches for the question, and return the passages found."""
        outcome, query = ("search", self.question.text) if searches else ("keep", "")
        evidence = {"signal": signal, "threshold": self.parameters.threshold, "numbers": dict(numbers)}
        decision = self.run.trace.decide("retrieve", outcome, why, query=query, **evidence)
        return await search_passages(self.run, decision, self.parameters.passages) if searches else ()

    async def search_by_mode(self) -> tuple[Hit, ...]:
        """Search if the parameter `mode` is "always", and return the passages found."""
        return await self.record_search(self.parameters.mode == "always", f"mode={self.parameters.mode}")

    async def search_by_share(
        self, share: float, threshold: float, kind: str, probs: Distribution
    ) -> tuple[Hit, ...]:
        """Search if `share` exceeds `threshold`, and return the passages found.

        Args:
            share: A number between 0 and 1 for [Retrieval] relative to [No Retrieval].
            kind: The description of `share` in the trace.
            probs: The probabilities from which `share` was computed, recorded in the trace.
        """
        above = "above" if share > threshold else "not above"
        why = f"the {kind} is {share:.2f}, {above} {threshold:g}"
        return await self.record_search(share > threshold, why, kind, {**probs, "share": share})

    def show(self, node: str, text: str, hit: Hit, numbers: Mapping[str, float], judged: Judgements) -> None:
        """Record a candidate in the trace: its text, passage, scores and judgements."""
        known = {name: dict(probs) for name, probs in judged.items() if probs}
        self.run.trace.expand(node, "retrieve", text, passage=hit, numbers=dict(numbers), distributions=known)

    def judgements(self, written: Generation) -> Judgements:
        """Return the distributions of relevance, support and utility.

        The distribution of relevance comes from the first token of the text. Those of support and utility
        come from the first token of the respective group. A missing distribution is empty.
        """
        return {
            "relevance": tokens.first_distribution(written, "relevance"),
            "support": self.vocabulary.group_probs(written.tokens, "support"),
            "utility": self.vocabulary.group_probs(written.tokens, "utility"),
        }

    def answer_scores(self, written: Generation, judged: Judgements) -> dict[str, float]:
        """Return the score of a whole answer (short form) and the components of the score, by name."""
        relevance = tokens.relevance_score(_filled("relevance", judged["relevance"]))
        probs = judged["utility"]
        utility = tokens.utility_score(_filled("utility", probs)) if probs else 0.0
        return self._scored(written, relevance, judged, utility)

    def segment_scores(self, written: Generation, judged: Judgements) -> dict[str, float]:
        """Return the score of a segment (long form) and the components of the score, by name.

        With `fixed_weights`, the weights are 1, 1 and 0.5, and there is no sequence term. The options of the
        authors' script do not change this. Utility is always 0, since the authors' code looks for utility
        tokens among support tokens. If a relevance token is missing, -100 takes the place of its probability
        instead of the logarithm. As a result, a segment without [Relevant] scores best.
        """
        relevance = judged["relevance"]
        relevant, irrelevant = (relevance.get(each, 0.0) or _MISSING for each in tokens.GROUPS["relevance"])
        scores = self._scored(written, relevant / (relevant + irrelevant), judged, 0.0)
        fixed = {"score": scores["relevance"] + scores["support"]}
        return {**scores, **fixed} if self.parameters.fixed_weights else scores

    def _scored(
        self, written: Generation, relevance: float, judged: Judgements, utility: float
    ) -> dict[str, float]:
        parameters, computed = self.parameters, (*written.tokens, *written.dropped)  # the end token included
        sequence = tokens.sequence_score(computed) if computed else 1.0
        probs = judged["support"]
        support = tokens.support_score(_filled("support", probs)) if probs else 0.0
        score = parameters.w_rel * relevance + parameters.w_sup * support + parameters.w_use * utility
        parts = {"sequence": sequence, "relevance": relevance, "support": support, "utility": utility}
        return {"score": score + (sequence if parameters.use_seqscore else 0.0), **parts}


def log_retrieval_share(probs: Distribution) -> float:
    """Return |log p([Retrieval])| / (|log p([Retrieval])| + |log p([No Retrieval])|).

    The more probable [Retrieval] is, the smaller this ratio. If no other token is possible, a ratio above 0.2
    means that p([Retrieval]) is below 0.7245. A missing token makes the authors' code crash. Here its
    log-probability is -100, as the authors intended.
    """
    filled = _filled("retrieve", probs)
    search, none = (abs(math.log(filled[token])) for token in (RETRIEVAL, NO_RETRIEVAL))
    return search / (search + none) if search + none else 0.0


def is_rewritten(probs: Distribution, threshold: float | None) -> bool:
    """Return whether a [No Retrieval] token with these probabilities counts as [Retrieval].

    It does if (p([Retrieval]) + p([Continue to Use Evidence])) / (p([Retrieval]) + p([No Retrieval])) exceeds
    `threshold`. This ratio may exceed 1. Nevertheless, a threshold of 1 is never exceeded, because the
    authors' code then compares the result of the comparison with the threshold, too. A threshold of 0 is
    always exceeded, since a missing token has a probability of e^-100. If there is no threshold, the authors'
    code crashes. Here the token then stays [No Retrieval].
    """
    if threshold is None or threshold >= 1:
        return False
    filled = _filled("retrieve", probs)
    return (filled[RETRIEVAL] + filled[tokens.CONTINUE]) / (
        filled[RETRIEVAL] + filled[NO_RETRIEVAL]
    ) > threshold


@dataclass(frozen=True, slots=True)
class ParsedSegment:
    """A generated segment, parsed for the tree of the long form.

    Attributes:
        text: The text up to the next search, with control tokens spelled out.
        behind: The same text as parts of later prompts, which consist of the generated token ids.
        searches: Whether another segment may follow.
        is_end: Whether the text is only `END`.
    """

    text: str
    behind: tuple[Part, ...] = ()
    searches: bool = False
    is_end: bool = False


def parse_segment(
    written: Generation, shows_end: bool, vocabulary: ReflectionVocabulary, threshold: float | None
) -> ParsedSegment:
    """Parse a generated segment, and cut it off at the first [Retrieval].

    The authors' code searches the text for the names of tokens. Ordinary text that spells a name therefore
    counts, and a token that decodes to an empty string does not. The n-th [No Retrieval] in the text may
    count as [Retrieval], depending on the probabilities at the n-th such token (see `is_rewritten`). If the
    text contains any [No Retrieval], one more is added at the end of the text.

    Args:
        shows_end: Whether the decoded text ends with the end token, which then becomes `END`.
    """
    ends = tuple(token.id for token in written.dropped) if shows_end else ()
    text = written.text.removesuffix(END) + END if ends else written.text
    rewritten = _rewritten(text, written.tokens, vocabulary.ids[NO_RETRIEVAL], threshold)
    end = rewritten.find(RETRIEVAL)
    shown = [token for token in written.tokens if token.text or token.id not in vocabulary.control_ids]
    if 0 <= end <= len(written.text):
        return ParsedSegment(rewritten[:end], _parts(shown, end), searches=True)
    stray = (vocabulary.ids[NO_RETRIEVAL],) if len(rewritten) > len(text) else ()
    ids = (*(token.id for token in shown), *ends, *stray)
    kept = rewritten if end < 0 else rewritten[:end]
    return ParsedSegment(kept, (ids,), searches=end >= 0, is_end=rewritten == END)


def _rewritten(text: str, written: Sequence[Token], no_search: int, threshold: float | None) -> str:
    if NO_RETRIEVAL not in text:
        return text
    decisions = (tokens.distribution([token], "retrieve") for token in written if token.id == no_search)
    is_search = dict(enumerate(is_rewritten(probs, threshold) for probs in decisions))
    pieces = enumerate(text.split(NO_RETRIEVAL))
    return "".join(piece + (RETRIEVAL if is_search.get(index) else NO_RETRIEVAL) for index, piece in pieces)


def _parts(written: Sequence[Token], num_chars: int) -> tuple[Part, ...]:
    """Return the tokens of the first `num_chars` characters as parts of a prompt.

    If this limit lies inside a token, the part of the token before the limit is returned as text.
    """
    whole = tuple(token.id for token in written if token.end <= num_chars and token.start < num_chars)
    cut = [token for token in written if token.start < num_chars < token.end]
    return (whole, *(untrusted(token.text[: num_chars - token.start]) for token in cut))


def _filled(group: Group, probs: Distribution) -> Distribution:
    return {token: probs.get(token, 0.0) or math.exp(_MISSING) for token in tokens.GROUPS[group]}


SegmentAndPassage = tuple[str, Passage]
"""The text of a segment, control tokens included, and the passage in the prompt of that segment."""

END = "</s>"
"""The end token, as the authors' code spells it in texts."""

_STRIPPED = [token for token in tokens.ALL_TOKENS if token != tokens.CONTINUE]
_CONTINUED = f".{tokens.CONTINUE}"
_UNSPACED = re.compile(r"(?<=\w)([.!?])(?=\w)")


def question_and_separator(question: Question, task: Task, form: str) -> tuple[str, str]:
    """Return the text of the question, and the separator between instruction and question.

    In the short form, a choice has a separator of its own. In the long form, it is that of the training data.
    """
    shown = _four_options(lettered_options(question)) if task == "choice" else ()
    short = "\n\n### Input:\n" if shown else f"\n\n{SEPARATOR}"
    return input_text(question, shown), SEPARATOR if form == "long" else short


def _four_options(shown: Sequence[str]) -> Sequence[str]:
    """Return the options A to D, as the authors' script for ARC shows them.

    A missing D is shown as an empty option, and E is never shown. If A, B or C is missing, the script
    crashes. Here the options then stay unchanged.
    """
    texts = dict(lettered(shown).values())
    if not {"A", "B", "C"} <= texts.keys():
        return shown
    return [f"{letter}: {texts.get(letter, '')}" for letter in "ABCD"]


def without_control_tokens(text: str) -> str:
    """Return `text` without control tokens and the end token.

    The authors' list of control tokens lacks "continue to use evidence", so that token stays.
    """
    for token in (*_STRIPPED, END):
        text = text.replace(token, "")
    return text


def closed_answer(text: str) -> str:
    """Return an answer of the short form without control tokens and line breaks.

    This is `postprocess_answer_option_conditioned` of the authors' code.
    """
    return without_control_tokens(text).replace("\n", "").replace("<|endoftext|>", "")


def without_leading_sign(text: str) -> str:
    """Return `text` without a single leading "#" or ":"."""
    return text[1:] if text.startswith(("#", ":")) else text


def segment_text(text: str) -> str:
    """Remove control tokens, then one leading space, from a segment or long answer, and return the rest.

    This is `postprocess` of the authors' code.
    """
    return without_control_tokens(text).removeprefix(" ")


def with_sentence_spaces(text: str) -> str:
    """Return `text` with a space after each ".", "!" or "?" between word characters, even in "3.14".

    This is `fix_spacing` of the authors' code.
    """
    return _UNSPACED.sub(r"\1 ", text)


def whole_text(path: Sequence[SegmentAndPassage]) -> str:
    """Return the segments joined by spaces, without control tokens.

    The empty text of the root comes first. For this reason, the result for two segments that consist only of
    control tokens is a space, not an empty string.
    """
    return segment_text(" ".join(["", *(text for text, _ in path)]))


def distinct_segments(path: Sequence[SegmentAndPassage]) -> list[tuple[int, str, Passage]]:
    """Return the segments that the script for ALCE's data sets keeps.

    The script omits a segment whose text has occurred before, and one with neither text nor control tokens.

    Returns:
        Triples (position in the path from 1, text without control tokens, passage), in order.
    """
    kept = dict[str, tuple[int, str, Passage]]()
    for number, (text, passage) in enumerate(path, start=1):
        if text:
            kept.setdefault(segment_text(text), (number, segment_text(text), passage))
    return list(kept.values())


def alce_answer(path: Sequence[SegmentAndPassage]) -> tuple[str, tuple[Citation, ...]]:
    """Return the text and citations that the script for ALCE's data sets makes from a path.

    The script replaces the last character of each segment with the segment's number in the path and a full
    stop. A segment with a repeated text is left out, but later numbers still count it. A segment of only
    control tokens leaves a full stop. Where a sentence is followed by "continue to use evidence", the segment
    is split, and the piece before the split cites [1], the first passage of all. The number stands at the end
    of a piece, so only the last sentence of the piece has a citation.

    Unlike in the script, the returned text has no numbers, and each number refers to the passage of its own
    segment. In the script, once a text has been left out, a number may refer to another passage or to none.
    """
    text, citations, kept = "", list[Citation](), distinct_segments(path)
    for segment_number, segment, own in kept:
        pieces = with_sentence_spaces(segment[:-1]).split(_CONTINUED)
        for index, piece in enumerate(pieces, start=1):
            number, passage = (segment_number, own) if index == len(pieces) else (1, kept[0][2])
            start = len(text) + bool(text)
            text += f"{' ' if text else ''}{piece}."
            spans = sentence_spans(text[start:])[-1:] or [(0, 0)]
            citations.append(Citation(number, passage, start + spans[0][0], len(text)))
    return text, tuple(citations)
