"""A method, a retriever, a model, a dataset and a metric for askance."""

from collections.abc import Iterator
from math import exp
from pathlib import Path
from typing import ClassVar

from askance import (
    Answer,
    Example,
    Generation,
    Hit,
    Needs,
    Parameters,
    Passage,
    Question,
    Raw,
    Run,
    Sampling,
    Span,
    Want,
    checked_dataclass,
    parameter,
)
from askance.core.parameters import SearchParameter
from askance.core.types import GenerateRequest
from askance.models.scripted import Reply, ScriptedModel


@checked_dataclass()
class Doubting(Parameters):
    """Answer without passages, then again with passages if a token of the first answer is improbable."""

    threshold: float = parameter(
        0.5, "search where a token is less probable than this", at_least=0, at_most=1
    )
    passages: int = parameter(3, "most passages in the prompt", at_least=1)
    max_tokens: int = parameter(32, "most new tokens of an answer", at_least=1)

    searches: ClassVar[str] = "when a token of the first answer is improbable"
    calibrated: ClassVar[SearchParameter] = SearchParameter("threshold", rises=True)

    @property
    def needs(self) -> Needs:
        return Needs(signals=frozenset({"logprob"}), capabilities=frozenset({"raw"}), retriever=True)

    async def answer(self, question: Question, run: Run) -> Answer:
        written = await self._write(question, run, "", "first")
        lowest = min((exp(token.logprob or 0) for token in written.tokens), default=0.0)
        outcome = "search" if lowest < self.threshold else "keep"
        why = f"the least probable token has {lowest:.2f}"
        decision = run.trace.decide(
            "retrieve", outcome, why, threshold=self.threshold, numbers={"lowest": lowest}
        )
        if outcome == "search":
            with run.trace.because(decision):
                hits = await run.retriever.search(question.text, self.passages)
                context = "\n".join(hit.passage.text for hit in hits)
                written = await self._write(question, run, context, "again")
        run.trace.commit(written.text)
        return Answer(written.text, written.text.strip())

    async def _write(self, question: Question, run: Run, context: str, key: str) -> Generation:
        # Text from users and documents is untrusted, so control tokens in it have no effect.
        asked = Span(f"{context}\nQuestion: {question.text}", trusted=False)
        prompt, sampling = Raw((asked, Span("\nAnswer:"))), Sampling(self.max_tokens, stop=("\n",))
        (written,) = await run.model.generate(
            GenerateRequest(prompt, sampling, Want(logprob=True), key=(key,))
        )
        return written


class Grep:
    """A retriever that searches the lines of a file for the words of a query: ``grep:FILE``."""

    def __init__(self, file: str) -> None:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
        self._passages = [Passage(str(at), "", line, file, end=len(line)) for at, line in enumerate(lines)]
        self.name = self.fingerprint = f"grep {file}"

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        words = set(query.lower().split())
        scored = [(len(words & set(each.text.lower().split())), each) for each in self._passages]
        found = sorted((each for each in scored if each[0]), key=lambda each: -each[0])
        kept = [each for each in found if each[1].id not in exclude][:k]
        return tuple(Hit(passage, float(score), rank) for rank, (score, passage) in enumerate(kept, start=1))


def parrot(reply: str = "Rhine") -> ScriptedModel:
    """Return a model that always gives the same reply: ``parrot:Rhine``.

    A model of your own must have the members of `askance.Model`.
    """
    return ScriptedModel(lambda prompt, key: Reply(f" {reply}"))


def towns(path: Path | None = None) -> Iterator[Example]:
    """Yield two questions, or those of ``towns:FILE``, which has a town, a tab and its river on each line."""
    text = "Bonn\tRhine\nRome\tTiber" if path is None else path.read_text(encoding="utf-8")
    for line in text.splitlines():
        town, river = line.split("\t")
        yield Example(Question(town, f"Which river flows through {town}?"), (river,))


def starts_alike(answer: str, golds: tuple[str, ...]) -> float:
    """Return 1 if the answer begins with the same letter as an accepted answer, or else 0."""
    return float(any(answer[:1] == gold[:1] for gold in golds))
