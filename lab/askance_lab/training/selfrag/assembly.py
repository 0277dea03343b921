"""Assemble rows with reflection tokens from annotations (Asai et al. 2024, algorithm 4 and appendix).

The authors' code chooses passages at random where the paper takes the best one, so that a model also learns
to write after a passage that does not help. That choice is implemented here, with three differences: an
irrelevant passage is drawn from the irrelevant ones, no sentence is left out for want of a label or of a
passage, and evidence is only continued after a passage.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from askance.methods.selfrag.tokens import (
    CONTINUE,
    FULLY_SUPPORTED,
    IRRELEVANT,
    NO_RETRIEVAL,
    NO_SUPPORT,
    PARTIALLY_SUPPORTED,
    RELEVANT,
    RETRIEVAL,
    UTILITIES,
)
from askance_lab.training.selfrag.annotations import AnnotatedSentence, Annotation, JudgedPassage
from askance_lab.training.selfrag.rows import SelfRagRow, escaped, segment
from askance_lab.training.selfrag.settings import SelfRagSettings


@dataclass(frozen=True, slots=True)
class SourceRule:
    """The differences of the authors' code for rows of one source.

    Attributes:
        negative_share: The share of sentences that get an irrelevant passage even if there is a relevant one.
        needs_support: Whether a relevant passage that does not support the sentence counts as irrelevant.
        no_retrieval_kept: The share of rows with `[No Retrieval]` that are kept.
    """

    negative_share: float = 0.0
    needs_support: bool = False
    no_retrieval_kept: float = 1.0


RULES: Mapping[str, SourceRule] = {
    "nq": SourceRule(negative_share=0.25, needs_support=True, no_retrieval_kept=0.5),
    "fever": SourceRule(needs_support=True),
    "wow": SourceRule(needs_support=True),
}
"""The rules by the name of the source (`dataset_name`)."""
_CLAIM_ANSWERS = ("true", "false")


def assembled_rows(
    annotations: Sequence[Annotation], settings: SelfRagSettings
) -> tuple[tuple[SelfRagRow, ...], Counter[str]]:
    """Return the rows, and the number of rows and sentences for which something was left out, by the reason.

    What is drawn at random depends on the seed in the settings and on the id of the row alone.
    """
    left_out = Counter[str]()
    rows = tuple(row for each in annotations for row in _Assembly(each, settings, left_out).rows())
    return rows, left_out


class _Assembly:
    """The assembly of one row."""

    def __init__(self, annotation: Annotation, settings: SelfRagSettings, left_out: Counter[str]) -> None:
        self._annotation, self._settings, self._left_out = annotation, settings, left_out
        rules = RULES if settings.source_rules else {}
        self._rule = rules.get(annotation.row.dataset, SourceRule())
        self._rng = random.Random(f"{settings.seed} {annotation.row.id} assembly")

    def rows(self) -> Iterator[SelfRagRow]:
        """Yield the row, unless it is left out."""
        row, retrieve = self._annotation.row, self._annotation.retrieve
        if not retrieve or not self._annotation.utility:
            what = "utility" if retrieve else "retrieve"
            self._left_out[f"rows left out: the critic gave no label of {what}"] += 1
            return
        kept = self._settings.no_retrieval_kept
        if retrieve == NO_RETRIEVAL and self._rng.random() >= kept:
            self._left_out[f"rows left out: {NO_RETRIEVAL}, of which {kept:.0%} are kept"] += 1
            return
        output = self._searched() if retrieve == RETRIEVAL else f"{NO_RETRIEVAL}{escaped(row.output.strip())}"
        if not output:
            self._left_out["rows left out: no text to judge"] += 1
            return
        if NO_RETRIEVAL in output and self._rng.random() >= self._rule.no_retrieval_kept:
            self._left_out[f"rows left out: {NO_RETRIEVAL} in {row.dataset}"] += 1
            return
        yield replace(row, output=output + self._utility())

    def _utility(self) -> str:
        """Return the utility token. An answer to a claim is complete if it is a single word."""
        utility = self._annotation.utility
        if utility == UTILITIES[0] and self._annotation.row.output.strip().lower() in _CLAIM_ANSWERS:
            return UTILITIES[-1]
        return utility

    def _searched(self) -> str:
        """Return the answer with the tokens and passages of its sentences."""
        output = ""
        for sentence in self._annotation.sentences:
            text = escaped(sentence.text)
            if sentence.is_short:
                output += f" {text}" if output else text
                continue
            passage = self._choose(sentence) if sentence.retrieve == RETRIEVAL else None
            if passage is not None:
                output += _shown(passage, text)
            elif sentence.retrieve == CONTINUE and RETRIEVAL in output:
                output += f"{CONTINUE}{text}"
            else:
                if sentence.retrieve != NO_RETRIEVAL:
                    what = "a label of retrieve" if not sentence.retrieve else "a passage"
                    self._left_out[f"sentences with {NO_RETRIEVAL} for want of {what}"] += 1
                output += f"{NO_RETRIEVAL}{text}"
        return output

    def _choose(self, sentence: AnnotatedSentence) -> JudgedPassage | None:
        """Return the passage that a sentence is shown with, or None if none has all labels that it needs."""
        passages = [self._by_rule(each) for each in sentence.passages]
        irrelevant = [each for each in passages if each.relevance == IRRELEVANT]
        full, partial, unsupported = (
            next((each for each in passages if each.relevance == RELEVANT and each.support == support), None)
            for support in (FULLY_SUPPORTED, PARTIALLY_SUPPORTED, NO_SUPPORT)
        )
        draw, settings = self._rng.random, self._settings
        if draw() >= self._rule.negative_share:
            if full is not None:
                return full
            if partial is not None and draw() < settings.partial_kept:
                return partial
            if partial is None and unsupported is not None and draw() < settings.unsupported_kept:
                return unsupported
        return self._rng.choice(irrelevant) if irrelevant else full or partial or unsupported

    def _by_rule(self, passage: JudgedPassage) -> JudgedPassage:
        is_unsupported = passage.relevance == RELEVANT and passage.support == NO_SUPPORT
        return (
            replace(passage, relevance=IRRELEVANT) if self._rule.needs_support and is_unsupported else passage
        )


def _shown(passage: JudgedPassage, text: str) -> str:
    support = passage.support if passage.relevance == RELEVANT else ""
    return segment(passage.passage, passage.relevance, text, support)
