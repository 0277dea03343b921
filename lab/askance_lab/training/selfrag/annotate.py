"""Annotate instructions and answers with a critic: the first step of making Self-RAG's training data.

Asai et al. 2024, section 3.2.2 and appendix. The labels come from any `Scorer`, and passages from any index.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from askance.core.errors import InputError, PromptTooLong
from askance.core.ports import Retriever, RoleModel, Run
from askance.core.safe_text import json_line
from askance.core.trace import Trace
from askance.core.types import Hit, Role
from askance.evaluation.run.result_file import open_results, work_through
from askance.methods.selfrag.prompts import SEPARATOR
from askance.methods.selfrag.scoring import (
    Scorer,
    critics,
    pair_scorer,
    prompted_scorer,
    prompts_digest,
    reflection_token_scorer,
)
from askance.methods.selfrag.tokens import (
    NO_RETRIEVAL,
    RETRIEVAL,
    Distribution,
    Group,
    escape_hit,
    has_reflection_tokens,
    most_likely,
)
from askance.storage.durable_files import write_atomically
from askance.text.answers import sentences
from askance_lab.training.selfrag.annotations import (
    ANNOTATION,
    FILE,
    SUMMARY,
    AnnotatedSentence,
    Annotation,
    JudgedPassage,
    question_of,
)
from askance_lab.training.selfrag.rows import SelfRagRow, prompt_of

MIN_CHARACTERS = 30
"""A shorter sentence in an answer of more than two is not judged, as in the authors' code."""
OnRow = Callable[[int, int], None]
"""A function that receives the number of rows annotated so far, and the total."""


@dataclass(frozen=True, slots=True)
class Annotator:
    """A critic and an index.

    Attributes:
        passages: The number of passages to judge for each sentence.
        identity: What the labels depend on, by name.
    """

    scorer_of: Callable[[SelfRagRow], Scorer]
    retriever: Retriever
    passages: int = 5
    identity: Mapping[str, str] = field(default_factory=dict)

    async def annotate(self, row: SelfRagRow) -> Annotation:
        """Return the labels of a row.

        If the instruction needs no search, the answer is not split. Otherwise each sentence is judged by the
        best passage for the whole answer, and searched for if that does not hold what it states.
        """
        critic = _Critic(self.scorer_of(row), row.id)
        retrieve = await critic.label("retrieve", among=(RETRIEVAL, NO_RETRIEVAL))
        utility = await critic.label("utility", text=row.output)
        if retrieve != RETRIEVAL:
            return Annotation(row, retrieve, utility)
        found = await self._search(f"{question_of(row).text} {row.output}", 1)
        evidence, annotated, before = next(iter(found), None), list[AnnotatedSentence](), ""
        texts = sentences(row.output)
        for number, text in enumerate(texts):
            if len(texts) > 2 and len(text) < MIN_CHARACTERS:
                sentence = AnnotatedSentence(text, is_short=True)
            else:
                decision = retrieve if number == 0 else await critic.label("retrieve", evidence, before, text)
                judged = list[JudgedPassage]()
                if decision == RETRIEVAL:
                    found = await self._search(f"{_without_task(row)} {text}", self.passages)
                    judged = [await critic.judge(hit, before, text) for hit in found]
                sentence = AnnotatedSentence(text, decision, passages=tuple(judged))
            annotated.append(sentence)
            before = f"{before} {text}".strip()
        shown = JudgedPassage(evidence.passage.title, evidence.passage.text) if evidence else None
        return Annotation(row, retrieve, utility, shown, tuple(annotated))

    async def _search(self, query: str, k: int) -> list[Hit]:
        """Return passages whose reflection tokens are escaped."""
        return [escape_hit(hit)[0] for hit in await self.retriever.search(query, k)]


def _without_task(row: SelfRagRow) -> str:
    """Return what is asked, without the task instruction before it."""
    return row.input.strip() or row.instruction.rpartition(SEPARATOR)[2].strip()


@dataclass(slots=True)
class _Critic:
    """The critic of one row, which asks for one label after the other."""

    scorer: Scorer
    id: str
    calls: int = 0

    async def label(
        self,
        group: Group,
        hit: Hit | None = None,
        so_far: str = "",
        text: str = "",
        among: Sequence[str] = (),
    ) -> str:
        """Return the most likely token of a group, or an empty string if the critic gave none of them.

        A prompt that is too long for the critic gets no label.

        Args:
            among: The tokens to choose from; by default all of the group.
        """
        self.calls += 1
        key = (self.id, f"{self.calls}")
        try:
            probs: Distribution = await self.scorer(group, hit, so_far, text, key=key)
        except PromptTooLong:
            return ""
        return most_likely({token: prob for token, prob in probs.items() if not among or token in among})

    async def judge(self, hit: Hit, so_far: str, text: str) -> JudgedPassage:
        """Return the labels of a passage for the sentence `text`."""
        relevance = await self.label("relevance", hit)
        support = await self.label("support", hit, so_far, text)
        return JudgedPassage(hit.passage.title, hit.passage.text, relevance, support)


def annotator(models: Mapping[Role, RoleModel], retriever: Retriever, passages: int = 5) -> Annotator:
    """Return an annotator whose labels come from models.

    Args:
        models: The model in the role "critic" gives the labels, or that in the role "answer" if there is no
            critic: in words, or by its reflection tokens if it has them. If the critic is a cross-encoder, it
            judges relevance and support alone, and the other model gives the other labels.

    Raises:
        MissingAbility: The model in the role "answer" is a cross-encoder.
    """
    pairs, labeller = critics(models)
    is_native = has_reflection_tokens(labeller)

    def scorer_of(row: SelfRagRow) -> Scorer:
        question, run = question_of(row), Run(models, retriever, Trace())
        scorer = prompted_scorer(labeller, question, run)
        if is_native:
            scorer = reflection_token_scorer(labeller, prompt_of(row), run)
        return scorer if pairs is None else pair_scorer(pairs, question, others=scorer)

    asked: list[RoleModel] = [labeller, *([] if pairs is None else [pairs])]
    identity = {
        "models": ", ".join(each.fingerprint or each.name for each in asked),
        "index content": retriever.fingerprint,
        "prompts": "reflection tokens" if is_native else prompts_digest(),
    }
    return Annotator(scorer_of, retriever, passages, identity)


async def annotate_rows(
    rows: Sequence[SelfRagRow],
    annotator: Annotator,
    out: Path,
    in_flight: int = 1,
    on_row: OnRow = lambda done, total: None,
) -> list[Annotation]:
    """Annotate all rows, or those that an earlier annotation left, and return all annotations in order.

    Each annotation is written into the folder `out` as soon as it is finished. Rows can be added later.

    Raises:
        InputError: Two rows have the same id, a row has no answer, or the folder has an annotation of another
            row with the same id.
        RunFolderError: The folder holds the annotations of another critic, or can't be written.
        ModelFailure, RetrieverFailure: A call failed. The annotations so far are kept.
    """
    check_rows(rows)
    header = {
        "format": "askance-annotations",
        "schema": 1,
        "passages": annotator.passages,
        "shortest sentence": MIN_CHARACTERS,
        **annotator.identity,
    }

    with open_results(out / FILE, header, ANNOTATION) as (finished, append):
        done = {each.row.id: each for each in finished}
        other = next((row for row in rows if row.id in done and done[row.id].row != row), None)
        if other is not None:
            raise InputError(
                f"{out} has an annotation of another row with the id {other.id!r}: name another folder."
            )
        (out / SUMMARY).unlink(missing_ok=True)
        await work_through(
            {row.id: row for row in rows},
            annotator.annotate,
            done,
            append,
            in_flight,
            lambda id: f"the critic failed at row {id!r}",
            on_row,
        )
        write_atomically(out / SUMMARY, json_line({"rows": len(done)}) + "\n")
    return [done[row.id] for row in rows]


def label_counts(annotations: Sequence[Annotation]) -> Counter[tuple[Group, str]]:
    """Return how often the critic gave each label. The name of a missing label is an empty string."""
    counts = Counter[tuple[Group, str]]()
    for each in annotations:
        counts["retrieve", each.retrieve] += 1
        counts["utility", each.utility] += 1
        for number, sentence in enumerate(each.sentences):
            if number and not sentence.is_short:
                counts["retrieve", sentence.retrieve] += 1
            for passage in sentence.passages:
                counts["relevance", passage.relevance] += 1
                counts["support", passage.support] += 1
    return counts


def check_rows(rows: Sequence[SelfRagRow]) -> None:
    """Check that each row has an id of its own and an answer.

    Raises:
        InputError: A row has not.
    """
    ids = Counter(row.id for row in rows)
    twice = next((id for id, count in ids.items() if count > 1), None)
    if twice is not None:
        raise InputError(f"two rows have the id {twice!r}: give each row its own.")
    empty = next((row.id for row in rows if not row.output.strip()), None)
    if empty is not None:
        raise InputError(f'row {empty!r} has no "output" to annotate: leave the row out.')
