"""Readers to compare a Self-RAG model with: the same base, trained on the same answers without tokens.

The rows of which Self-RAG learns the tokens alone, and those with an irrelevant passage, would only teach
them to write what the passage does not say. They learn from the other rows, so they take fewer steps.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from askance.core.answers import Answer
from askance.core.concurrency import gather_or_cancel
from askance.core.parameters import checked_dataclass, parameter
from askance.core.ports import Needs, Run
from askance.core.types import (
    GenerateRequest,
    Generation,
    Hit,
    Question,
    Raw,
    Sampling,
    Span,
    Want,
    untrusted,
)
from askance.methods.common.search import search_for
from askance.methods.common.token_limit import TokenLimited
from askance.methods.selfrag.prompts import instruction_prompt
from askance.methods.selfrag.tokens import IRRELEVANT, sequence_score
from askance.terminal.console import err
from askance_lab.commands.progress import TrainingProgress
from askance_lab.training.reader.data_mix import DataMix
from askance_lab.training.reader.save import TrainingReport
from askance_lab.training.reader.train_reader import Base, train_language_model
from askance_lab.training.selfrag.rows import (
    SelfRagRow,
    is_held_out,
    parse_output,
    training_example,
    written_segments,
)
from askance_lab.training.selfrag.settings import SelfRagSettings


@checked_dataclass()
class PlainReader(TokenLimited):
    """Answer with a model that was trained without reflection tokens, on rows of `plain_rows`.

    The model reads the first passage, all passages together, or each by itself. In the last case, the answer
    with the greatest sum of two shares is taken: the passage's share of all scores of BM25, and the mean
    probability of the answer's tokens.
    """

    reads: Literal["none", "first", "all", "each"] = parameter("first", "passages that the model reads")
    passages: int = parameter(5, "passages to search for", at_least=1)
    max_tokens: int = parameter(100, "maximum number of new tokens of an answer", at_least=1)

    paper: ClassVar[str] = "Asai et al. 2024 (Self-RAG), no critic, no retriever"
    searches: ClassVar[str] = "once, with the question"

    @property
    def needs(self) -> Needs:
        return Needs(frozenset({"logprob"}), frozenset({"raw"}), retriever=self.reads != "none")

    async def answer(self, question: Question, run: Run) -> Answer:
        hits: Sequence[Hit] = ()
        if self.reads != "none":
            wanted = 1 if self.reads == "first" else self.passages
            hits = await search_for(question.text, run, wanted, "this method searches once")
        shown = [hits[at : at + 1] for at in range(len(hits))] if self.reads == "each" and hits else [hits]
        written = await gather_or_cancel(
            self._write(question, some, run, number) for number, some in enumerate(shown)
        )
        scores = [sum(hit.score for hit in some) for some in shown]
        total = sum(scores) or 1.0
        best = max(range(len(shown)), key=lambda at: scores[at] / total + sequence_score(written[at].tokens))
        text = written[best].text.strip()
        run.trace.commit(text)
        return Answer(text, text)

    async def _write(self, question: Question, hits: Sequence[Hit], run: Run, number: int) -> Generation:
        prompt = Raw(instruction_prompt((untrusted(question.text),), shown_passages(hits)))
        request = GenerateRequest(
            prompt, Sampling(self.max_tokens), Want(logprob=True), key=("answer", f"{number}")
        )
        (written,) = await run.model.generate(request)
        return written


def shown_passages(hits: Sequence[Hit]) -> tuple[Span, ...]:
    """Return passages as the input of a prompt, in the form of `plain_rows`."""
    texts = "\n\n".join(f"{hit.passage.title}\n{hit.passage.text}" for hit in hits)
    return (untrusted(texts),) if texts else ()


def plain_rows(rows: Sequence[SelfRagRow], *, with_passages: bool = True) -> Iterator[SelfRagRow]:
    """Yield rows without reflection tokens, whose passages are in the input.

    Rows of which only the tokens are learned, and rows with an irrelevant passage, are left out.
    """
    for row in rows:
        segments, _ = written_segments(row.output)
        if row.learned == "tokens" or not segments or any(each.relevance == IRRELEVANT for each in segments):
            continue
        passages = [each.passage for each in segments if each.passage]
        shown = "\n\n".join(f"{passage.title}\n{passage.text}" for passage in passages)
        text = " ".join(each.text for each in segments)
        yield replace(row, input=shown if with_passages else "", output=text)


def train_plain(rows: Sequence[SelfRagRow], base: Base, settings: SelfRagSettings, out: Path) -> None:
    """Train a model on rows without reflection tokens, and write it into the folder `out`.

    Raises:
        InputError: As for `train_reader`.
    """
    parts: dict[bool, list[Any]] = {False: [], True: []}
    for row in rows:
        example = training_example(row, parse_output(row.output), "plain")
        parts[is_held_out(row, settings.held_out)].append(example)
    mix = DataMix(tuple(parts[False]), tuple(parts[True]), {"plain": len(rows)}, Counter())

    def card(folder: Path, report: TrainingReport[SelfRagSettings]) -> str:
        return (
            f"# A reader to compare with\n\nTrained from `{report.base}` on rows without reflection tokens.\n"
        )

    with TrainingProgress(err) as progress:
        train_language_model(
            lambda model: mix, base, settings, out, progress, lambda report: None, card, is_dry_run=False
        )
