"""Self-RAG: search when the model asks for it, write with each passage, keep what is judged best."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from askance.core.errors import MissingAbility
from askance.core.knobs import SearchKnob, knob
from askance.core.ports import Model, Needs, Run
from askance.core.token_ledger import NoRoom
from askance.core.types import Answer, Question, Role, Signal, Span
from askance.methods.bounded import Bounded
from askance.methods.finishing import checked
from askance.methods.prompts import OWN, Layout, Wording, layout_needs
from askance.methods.selfrag import tasks
from askance.methods.selfrag.judging import NativeScorer, PromptedScorer, ReflectionScorer
from askance.methods.selfrag.long import LongForm
from askance.methods.selfrag.native import NativeWriter
from askance.methods.selfrag.segments import Citing, Constraints, Mode, Path, SearchRule, Weights, cited
from askance.methods.selfrag.short import ShortForm
from askance.methods.selfrag.tasks import OWN_INSTRUCTIONS, Instructions, Separator, Task
from askance.methods.selfrag.tokens import Group, Vocabulary, check_abilities, has_reflection_tokens
from askance.methods.selfrag.writing import PromptedWriter, Writer
from askance.methods.writing import Writing
from askance.text.answers import short_answer
from askance.tree.abreast import abreast, in_turn


@dataclass(frozen=True, slots=True)
class SelfragKnobs(Bounded):
    """The knobs that every reading of Self-RAG has."""

    form: Literal["short", "long"] = knob("short", "one answer a passage, or a beam of segments")
    mode: Mode = knob("adaptive", "when to search")
    threshold: float | None = knob(
        0.2,
        "search when the share of [Retrieval] is above this; none: when it is the likeliest token",
        at_least=0,
        at_most=1,
    )
    passages: int = knob(5, "passages per search, each with an answer or segment of its own", at_least=1)
    max_tokens: int = knob(100, "most new tokens of an answer or, in the long form, a segment", at_least=1)
    w_rel: float = knob(1.0, "weight of the share of [Relevant]", at_least=0)
    w_sup: float = knob(1.0, "weight of support, from 0 to 1", at_least=0)
    w_use: float = knob(0.5, "weight of utility, from -1 to 1", at_least=0)
    use_seqscore: bool = knob(True, "add the mean probability of a candidate's tokens to its score")
    use_groundness: bool = knob(True, "read support at all; without it its score is 0")
    use_utility: bool = knob(True, "read utility at all; without it its score is 0")
    reject_unsupported: bool = knob(False, "hard constraint: no segment that its passage does not support")
    beam_width: int = knob(2, "answers that are gone on with, in the long form", at_least=1)
    max_segments: int = knob(6, "most segments of an answer, in the long form", at_least=1)
    task: Task = knob("auto", "the instruction before the question, with native tokens")
    instructions: Instructions = knob(OWN_INSTRUCTIONS, "the instructions of all tasks, with native tokens")
    separator: Separator = knob("auto", "what stands between the two; auto is that of the training data")


@dataclass(frozen=True, slots=True)
class Selfrag(SelfragKnobs):
    """Self-RAG (Asai et al. 2024): reflection tokens decide on retrieval, relevance, support and utility.

    Form "short": one search, if any; an answer for each passage, the best by equation 4, or, for questions
    with options, the option with most behind it (section 3.3). Form "long": a beam of answers that grow
    segment by segment, each search made with what was written last (algorithm 1).

    A model that was trained on the tokens judges while it writes (`scorer=native`). Any other is asked in
    words about each segment, and the probabilities of label words stand for those of the tokens
    (`scorer=prompted`); segments are sentences then. A model in the role critic judges in place of the one
    that answers.

    The page (docs/methods/selfrag.md) has a row for each place where the paper and this differ.
    """

    profile: Literal["default"] = knob("default", "whose reading: ours")
    seqscore_text_only: bool = knob(False, "that of its words alone, without reflection tokens")
    reject_irrelevant: bool = knob(False, "hard constraint: no segment with an irrelevant passage")
    least_utility: int = knob(1, "hard constraint: no answer of a lower grade", at_least=1, at_most=5)
    closed_aggregation: Literal["score_sum", "option_likelihood"] = knob(
        "score_sum", "how passages vote for options: by their answers' scores, or by each option's likelihood"
    )
    open_dedupe: bool = knob(False, "of equal answers keep that of the best passage, in the short form")
    path_power: float = knob(
        1.0, "scores of segments are added up and divided by their number to this power", at_least=0
    )
    retrieval: Literal["dynamic", "static"] = knob(
        "dynamic", "search anew for each segment, or once, in the long form"
    )
    evidence: Literal["current_only", "keep_all"] = knob(
        "current_only", "whether earlier passages stay in the prompt, in the long form with native tokens"
    )
    scan_tokens: int = knob(
        0, "tokens in which the first decision is looked for; 0: 1, or 25 in the long form", at_least=0
    )
    citations: Citing = knob("each_sentence", "the sentences of a segment that cite its passage")
    scorer: Literal["auto", "native", "prompted"] = knob(
        "auto", "who judges: reflection tokens, where the judge has them, or answers to questions in words"
    )
    elicit: bool = knob(True, "ask for the short answer where the text states none, without native tokens")
    elicit_tokens: int = knob(20, "most new tokens of an elicited answer", at_least=1)
    layout: Layout = knob(
        "auto", "raw text or the model's chat format, without native tokens; auto is raw where it is taken"
    )
    wording: Wording = knob(OWN, "examples and fixed lines of the prompt, without native tokens")

    paper: ClassVar[str] = "Asai et al. 2024 (Self-RAG)"
    searches: ClassVar[str] = "when the model asks for it"
    calibrated: ClassVar[SearchKnob] = SearchKnob("threshold", belongs_to=("scorer", "form"))

    @property
    def needs(self) -> Needs:
        signals: set[Signal] = {"logprob"} if self.use_seqscore else set()
        return Needs(frozenset(signals), retriever=self.mode != "never", roles=frozenset({"critic"}))

    @property
    def weights(self) -> Weights:
        """The weights of equation 4; that of a term that is switched off is 0."""
        support, utility = self.w_sup * self.use_groundness, self.w_use * self.use_utility
        return Weights(self.w_rel, support, utility, float(self.use_seqscore))

    @property
    def read(self) -> frozenset[Group]:
        """The judgements that something depends on besides citations: a score, a constraint, or a search."""
        is_read: dict[Group, bool] = {
            "retrieve": self.mode == "adaptive",
            "relevance": self.w_rel > 0 or self.reject_irrelevant,
            "support": self.weights.support > 0 or self.reject_unsupported,
            "utility": self.weights.utility > 0 or self.least_utility > 1,
        }
        return frozenset(group for group, reads in is_read.items() if reads)

    def check_models(self, models: Mapping[Role, Model]) -> None:
        model, judge = models["answer"], models.get("critic", models["answer"])
        if self.scorer == "native":
            Vocabulary.of(judge)
            check_abilities(judge)
        if self.closed_aggregation == "option_likelihood" and "score" not in model.capabilities:
            raise MissingAbility(
                f"closed_aggregation=option_likelihood needs the likelihood of options, which {model.name} "
                "does not give: leave it at score_sum, or use a local model (bundled, hf:NAME, gguf:FILE)."
            )
        if has_reflection_tokens(model):
            return
        layouts = layout_needs(self.layout, goes_on=self.form == "long")
        if layouts and not any(each <= model.capabilities for each in layouts):
            raise MissingAbility(
                f"method selfrag, set to form={self.form} and layout={self.layout}, writes prompts that "
                f"{model.name} can't take: use form=short with layout=auto, or a local model "
                "(bundled, hf:NAME, gguf:FILE)."
            )

    async def answer(self, question: Question, run: Run) -> Answer:
        return await self.answer_with(self._own_writer(question, run), question, run)

    async def answer_with(self, writer: Writer, question: Question, run: Run) -> Answer:
        """The short or the long form, written by `writer`; its text, its citations and its short answer."""
        path, option = await self._path(writer, question, run)
        is_native = isinstance(writer, NativeWriter)
        judged = is_native or "support" in self.read
        text, citations = checked(question, run.trace, *cited(path, self.citations), judged=judged)
        if writer.was_short and not text:
            raise NoRoom("no segment had room")
        run.trace.commit(text)
        if is_native:
            short = _short(text, question) if tasks.options_of(question) else text
            return Answer(text, option or short, citations)
        shown = () if path.in_use is None else (path.in_use,)
        elicit_tokens = self.elicit_tokens if self.elicit and not option else 0
        writing = Writing(question, run, elicit_tokens, self.layout, self.wording, hits=shown)
        writing.text = path.written.rstrip()
        text += await writing.elicit()
        return Answer(text, option or _short(text, question), citations)

    async def _path(self, writer: Writer, question: Question, run: Run) -> tuple[Path, str]:
        """The answer that is taken, and its option where the short form finds one."""
        shared: dict[str, Any] = {
            "question": question,
            "run": run,
            "writer": writer,
            "rule": SearchRule(self.mode, self.threshold),
            "weights": self.weights,
            "constraints": Constraints(self.reject_unsupported, self.reject_irrelevant, self.least_utility),
            "passages": self.passages,
        }
        if self.form == "short":
            votes = self.closed_aggregation
            return await ShortForm(**shared, aggregation=votes, dedupe=self.open_dedupe).answer()
        growing = LongForm(
            **shared, retrieval=self.retrieval, width=self.beam_width, path_power=self.path_power
        )
        return await growing.answer(self.max_segments), ""

    def _own_writer(self, question: Question, run: Run) -> Writer:
        """A native writer for a model with the tokens, which judges itself unless another one shall."""
        is_native, judge = has_reflection_tokens(run.model), run.models.get("critic", run.model)
        judges_natively = self.scorer != "prompted" and has_reflection_tokens(judge)
        head = self.head(question, run) if is_native or judges_natively else ()
        scorer: ReflectionScorer | None = PromptedScorer(judge, question, run)
        if judges_natively:
            scorer = None if judge is run.model else NativeScorer(judge, head, run)
        return self.writer(question, run, scorer, head if is_native else None)

    def head(self, question: Question, run: Run) -> tuple[Span, ...]:
        """The prompt of a checkpoint up to where the answer begins."""
        task = tasks.task_of(self.task, question)
        asked = tasks.asked_text(question, tasks.shown_options(question) if task == "choice" else ())
        separator = "training" if self.separator == "auto" else self.separator
        return tasks.prompt_head(asked, task, self.instructions, separator, run.trace)

    def writer(
        self, question: Question, run: Run, scorer: ReflectionScorer | None, head: tuple[Span, ...] | None
    ) -> Writer:
        """Who writes, judged by a scorer if one is given; with a head, for a model with the tokens."""
        shared: dict[str, Any] = {
            "run": run,
            "scorer": scorer,
            "read": self.read,
            "max_tokens": self.max_tokens,
            "together": abreast if self.l_max is None else in_turn,
        }
        if head is None:
            return PromptedWriter(
                **shared,
                question=question,
                layout=self.layout,
                wording=self.wording,
                use_seqscore=self.use_seqscore,
            )
        return NativeWriter(
            **shared,
            head=head,
            written_options=tasks.written_options(self.task, question),
            scan_tokens=self.scan_tokens or (25 if self.form == "long" else 1),
            reads_first=self.threshold is not None,
            evidence=self.evidence,
            seqscore_text_only=self.seqscore_text_only,
        )


def _short(text: str, question: Question) -> str:
    return tasks.named_option(text, question) if tasks.options_of(question) else short_answer(text, question)
