"""The prompts and outputs of the Self-RAG authors' code: scores, segments and final texts.

The authors' code reads the log-probabilities of the most likely tokens and uses -100 for any other token.
Here all are known, and a token counts as missing if its probability is 0.
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
from askance.methods.selfrag.prompts import (
    Separator,
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


class QueryContext:
    """One question with its prompt; the methods search, generate without stop strings, and score.

    Attributes:
        parameters: The parameters that all variants of Self-RAG share.
        fixed_weights: Whether segment scores use the fixed weights of the code instead of the parameters.
    """

    def __init__(
        self, parameters: SelfragParameters, question: Question, run: Run, *, fixed_weights: bool
    ) -> None:
        self.parameters, self.question = parameters, question
        self.run, self.fixed_weights = run, fixed_weights
        self.vocabulary = ReflectionVocabulary.of(run.model)
        self.task = task_of(parameters.task, question)
        text, separator = question_and_separator(question, self.task, parameters.separator, parameters.form)
        self._before = prompt_head(text, self.task, parameters.instructions, separator, run.trace)

    async def write(self, *behind: Part, hit: Hit | None = None, key: Key, max_tokens: int = 0) -> Generation:
        """Generate up to `max_tokens` tokens after `behind` and a passage; 0 means the parameter's value."""
        max_tokens = max_tokens or self.parameters.max_tokens

        def prompt_with(*shown: Hit) -> Raw:
            passages = (part for each in shown for part in (Span(RETRIEVAL), *passage_spans(each)))
            return Raw(self._before, (*behind, *passages))

        prompt = fit_passage(self.run, self.run.model, prompt_with, hit, max_tokens)
        request = GenerateRequest(prompt, Sampling(max_tokens), WANTED, key=key)
        (written,) = await self.run.model.generate(request)
        return written

    async def write_alone(self) -> str:
        """Generate the answer without passages, and return its text."""
        return self.text_with_end(await self.write(Span(NO_RETRIEVAL), key=("none",)))

    def text_with_end(self, written: Generation) -> str:
        """Return a generation's text, followed by `END` if `shows_end` is true."""
        return written.text.removesuffix(END) + END if self.shows_end(written) else written.text

    def shows_end(self, written: Generation) -> bool:
        """Return whether the model ended the text itself with an end token that decodes to some text."""
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
        """Search if the share of [Retrieval] exceeds the threshold, and return the passages found."""
        above = "above" if share > threshold else "not above"
        why = f"the {kind} is {share:.2f}, {above} {threshold:g}"
        return await self.record_search(share > threshold, why, kind, {**probs, "share": share})

    def show(self, node: str, text: str, hit: Hit, numbers: Mapping[str, float], judged: Judgements) -> None:
        """Record a candidate in the trace: its text, passage, scores and judgements."""
        known = {name: dict(probs) for name, probs in judged.items() if probs}
        self.run.trace.expand(node, "retrieve", text, passage=hit, numbers=dict(numbers), distributions=known)

    def judgements(self, written: Generation) -> Judgements:
        """Return the distributions of relevance, support and utility.

        Relevance is read at the first token, support and utility at the first token of their group. A missing
        distribution is empty.
        """
        return {
            "relevance": tokens.first_distribution(written, "relevance"),
            "support": self.vocabulary.group_probs(written.tokens, "support"),
            "utility": self.vocabulary.group_probs(written.tokens, "utility"),
        }

    def answer_scores(self, written: Generation, judged: Judgements) -> dict[str, float]:
        """Return the score of a whole answer, and the parts of the score (short form)."""
        relevance = tokens.relevance_score(_filled("relevance", judged["relevance"]))
        read = self.parameters.use_utility and judged["utility"]
        utility = tokens.utility_score(_filled("utility", read)) if read else 0.0
        return self._scored(written, relevance, judged, utility)

    def segment_scores(self, written: Generation, judged: Judgements) -> dict[str, float]:
        """Return the score of a segment, and the parts of the score (long form).

        With `fixed_weights`, the weights are 1, 1 and 0.5, without a sequence term, as in the authors'
        script, whose options do not change them. Utility is 0, since the code looks for utility tokens among
        support tokens. The probability of a missing relevance token, not its logarithm, is set to -100, so a
        segment without [Relevant] scores best.
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


def log_retrieval_share(probs: Distribution) -> float:
    """Return the share of |log p([Retrieval])| in its sum with |log p([No Retrieval])|.

    The more probable [Retrieval] is, the smaller its share: a share above 0.2 means a probability below
    0.7245 if no other token is possible. A missing token, on which the code crashes, counts as -100, as
    intended.
    """
    filled = _filled("retrieve", probs)
    search, none = (abs(math.log(filled[token])) for token in (RETRIEVAL, NO_RETRIEVAL))
    return search / (search + none) if search + none else 0.0


def is_rewritten(probs: Distribution, threshold: float | None) -> bool:
    """Return whether a [No Retrieval] token with these probabilities counts as [Retrieval].

    The probability of "continue" is in the numerator but not in the denominator, so the ratio may exceed 1.
    Still, no ratio exceeds a threshold of 1, because the code compares the result of its comparison again.
    Every ratio exceeds a threshold of 0, since a missing token has the probability e^-100. Without a
    threshold, the code crashes; here nothing is rewritten.
    """
    if threshold is None or threshold >= 1:
        return False
    filled = _filled("retrieve", probs)
    return (filled[RETRIEVAL] + filled[tokens.CONTINUE]) / (
        filled[RETRIEVAL] + filled[NO_RETRIEVAL]
    ) > threshold


@dataclass(frozen=True, slots=True)
class ParsedSegment:
    """A generated segment in the form that the long form's tree needs.

    Attributes:
        text: The text up to the next search, with control tokens spelled out.
        behind: The same text as parts of later prompts, with the generated token ids.
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

    The code searches the text for token names: ordinary text that spells a name counts, and a token that
    decodes to no text does not. The n-th [No Retrieval] in the text may count as [Retrieval], depending on
    the probabilities at the n-th such token. If the text has any, one more is added at its end.

    Args:
        shows_end: Whether the decoded text has the end token, which then becomes `END`.
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
    decisions = (tokens.distribution(token, "retrieve") for token in written if token.id == no_search)
    is_search = dict(enumerate(is_rewritten(probs, threshold) for probs in decisions))
    pieces = enumerate(text.split(NO_RETRIEVAL))
    return "".join(piece + (RETRIEVAL if is_search.get(index) else NO_RETRIEVAL) for index, piece in pieces)


def _parts(written: Sequence[Token], num_chars: int) -> tuple[Part, ...]:
    """Return the tokens of the first `num_chars` characters; a token cut at that limit becomes text."""
    whole = tuple(token.id for token in written if token.end <= num_chars and token.start < num_chars)
    cut = [token for token in written if token.start < num_chars < token.end]
    return (whole, *(untrusted(token.text[: num_chars - token.start]) for token in cut))


def _filled(group: Group, probs: Distribution) -> Distribution:
    return {token: probs.get(token, 0.0) or math.exp(_MISSING) for token in tokens.GROUPS[group]}


SegmentAndPassage = tuple[str, Passage]
"""The text of a segment, control tokens included, and the passage it was written with."""

END = "</s>"
"""The end token, as texts in the authors' code contain it."""

_STRIPPED = [token for token in tokens.ALL_TOKENS if token != tokens.CONTINUE]
_CONTINUED = f".{tokens.CONTINUE}"
_UNSPACED = re.compile(r"(?<=\w)([.!?])(?=\w)")


def question_and_separator(
    question: Question, task: Task, separator: Separator, form: str
) -> tuple[str, Separator]:
    """Return the text of the question, and the separator between instruction and question.

    In the short form, "auto" depends on the task; in the long form, it means the separator of the training
    data.
    """
    shown = _four_options(lettered_options(question)) if task == "choice" else ()
    if separator == "auto" and form == "short":
        separator = "choice" if task == "choice" else "short_form"
    return input_text(question, shown), "training" if separator == "auto" else separator


def _four_options(shown: Sequence[str]) -> Sequence[str]:
    """Return options as the authors' script for ARC shows them: A to D, with D possibly empty, never E.

    If A, B or C is missing, which crashes the script, the options stay unchanged.
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
    """Return the text by which closed answers are grouped (`postprocess_answer_option_conditioned`)."""
    return without_control_tokens(text).replace("\n", "").replace("<|endoftext|>", "")


def without_leading_sign(text: str) -> str:
    """Return `text` without a single leading "#" or ":"."""
    return text[1:] if text.startswith(("#", ":")) else text


def segment_text(text: str) -> str:
    """Remove control tokens, then one leading blank, from a segment or long answer (`postprocess`)."""
    return without_control_tokens(text).removeprefix(" ")


def with_sentence_spaces(text: str) -> str:
    """Return `text` with a space after each sentence end, even inside "3.14" and "U.S" (`fix_spacing`)."""
    return _UNSPACED.sub(r"\1 ", text)


def whole_text(path: Sequence[SegmentAndPassage]) -> str:
    """Return the segments joined by blanks, after the empty text of the root.

    The result for two segments of only control tokens is therefore not empty.
    """
    return segment_text(" ".join(["", *(text for text, _ in path)]))


def distinct_segments(path: Sequence[SegmentAndPassage]) -> list[tuple[int, str, Passage]]:
    """Return the segments that the script for ALCE's data sets writes, with their positions, from 1.

    The script omits segments whose text has occurred before, and segments without text or control token.
    """
    kept = dict[str, tuple[int, str, Passage]]()
    for number, (text, passage) in enumerate(path, start=1):
        if text:
            kept.setdefault(segment_text(text), (number, segment_text(text), passage))
    return list(kept.values())


def alce_answer(path: Sequence[SegmentAndPassage]) -> tuple[str, tuple[Citation, ...]]:
    """Return the text and citations that the script for ALCE's data sets makes from a path.

    The script replaces the last character of each segment with the segment's number in the path and a full
    stop. Repeated texts are left out but counted, and a segment of only control tokens leaves a full stop. A
    sentence that ends before "continue to use evidence" cites [1], the first passage of all. Only the last
    sentence of a piece cites, since the number stands at its end.

    Unlike in the script, the text has no numbers, and each number refers to the passage of its own segment.
    In the script's list, after a text is left out, a number may refer to another passage or to none.
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
