"""Self-RAG: search when the model asks for it, write with each passage, keep what is judged best."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from askance.core.errors import MissingAbility
from askance.core.knobs import SearchKnob, knob
from askance.core.ports import Model, Needs, Run
from askance.core.types import Answer, Question, Role, Signal
from askance.methods.bounded import Bounded
from askance.methods.budget import NoRoom
from askance.methods.citing import checked
from askance.methods.eliciting import elicited
from askance.methods.prompts import Layout, layout_needs
from askance.methods.selfrag.citing import cited
from askance.methods.selfrag.deciding import note_disarmed
from askance.methods.selfrag.long import long_form
from askance.methods.selfrag.native import NativeWriter
from askance.methods.selfrag.options import named_option, options_of
from askance.methods.selfrag.prompted import PromptedWriter
from askance.methods.selfrag.scorers import (
    NativeScorer,
    PromptedScorer,
    ReflectionScorer,
    RememberingScorer,
)
from askance.methods.selfrag.segments import Writer
from askance.methods.selfrag.short import short_form
from askance.methods.selfrag.sparing import SparingScorer, SparingWriter
from askance.methods.selfrag.tasks import (
    OWN_INSTRUCTIONS,
    Instructions,
    Separator,
    Task,
    instruction_spans,
    num_broken,
)
from askance.methods.selfrag.vocabulary import Vocabulary, check_abilities, has_reflection_tokens
from askance.methods.wording import OWN, Wording
from askance.reproductions import selfrag as selfrag_code
from askance.text.answers import short_answer


@dataclass(frozen=True, slots=True)
class Selfrag(Bounded):
    """Self-RAG (Asai et al. 2024): reflection tokens decide on retrieval, relevance, support and utility.

    Form "short": one search, if any; an answer for each passage, the best by equation 4, or, for questions
    with options, the option with most behind it (section 3.3). Form "long": a beam of answers that grow
    segment by segment, each search made with what was written last (algorithm 1).

    A model that was trained on the tokens judges while it writes (`scorer=native`). Any other is asked in
    words about each segment, and the probabilities of label words stand for those of the tokens
    (`scorer=prompted`); segments are sentences then. A model in the role critic judges in place of the one
    that answers.

    Profile "code" is the authors' code with its errors, for runs that are to match theirs; it needs a model
    with the tokens. The page (docs/methods/selfrag.md) has a row for each place where paper, authors' code
    and this differ, and the knobs that profile "code" reads.
    """

    profile: Literal["default", "code"] = knob("default", "whose reading: ours, or the authors' code")
    form: Literal["short", "long"] = knob("short", "one answer a passage, or a beam of segments")
    mode: Literal["adaptive", "always", "never"] = knob("adaptive", "when to search")
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
    seqscore_text_only: bool = knob(False, "that of its words alone, without reflection tokens")
    use_groundness: bool = knob(True, "read support at all; without it its score is 0")
    use_utility: bool = knob(True, "read utility at all; without it its score is 0")
    fixed_weights: bool = knob(
        True, "weights of 1, 1 and 0.5 and no sequence term, in the long form of profile=code"
    )
    reject_unsupported: bool = knob(False, "hard constraint: no segment that its passage does not support")
    reject_irrelevant: bool = knob(False, "hard constraint: no segment with an irrelevant passage")
    least_utility: int = knob(1, "hard constraint: no answer of a lower grade", at_least=1, at_most=5)
    closed_aggregation: Literal["score_sum", "option_likelihood"] = knob(
        "score_sum", "how passages vote for options: by their answers' scores, or by each option's likelihood"
    )
    open_dedupe: bool = knob(False, "of equal answers keep that of the best passage, in the short form")
    beam_width: int = knob(2, "answers that are gone on with, in the long form", at_least=1)
    max_segments: int = knob(6, "most segments of an answer, in the long form", at_least=1)
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
    citations: Literal["each_sentence", "last_sentence"] = knob(
        "each_sentence", "the sentences of a segment that cite its passage"
    )
    task: Task = knob("auto", "the instruction before the question, with native tokens")
    instructions: Instructions = knob(OWN_INSTRUCTIONS, "the instructions of all tasks, with native tokens")
    separator: Separator = knob("auto", "what stands between the two; auto is that of the training data")
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
        roles: frozenset[Role] = frozenset({"critic"} if self.profile == "default" else ())
        return Needs(frozenset(signals), retriever=self.mode != "never", roles=roles)

    @property
    def reads_relevance(self) -> bool:
        """Whether anything depends on relevance besides citations: a score, or a constraint."""
        return self.w_rel > 0 or self.reject_irrelevant

    @property
    def reads_support(self) -> bool:
        """The same of support."""
        return (self.use_groundness and self.w_sup > 0) or self.reject_unsupported

    @property
    def reads_utility(self) -> bool:
        """The same of utility."""
        return (self.use_utility and self.w_use > 0) or self.least_utility > 1

    @property
    def scanned_tokens(self) -> int:
        """In which the first decision is looked for."""
        return self.scan_tokens or (25 if self.form == "long" else 1)

    def check_models(self, models: Mapping[Role, Model]) -> None:
        model, judge = models["answer"], models.get("critic", models["answer"])
        if self.profile == "code":
            selfrag_code.check_model(model)
            return
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
        if self.profile == "code":
            return await selfrag_code.answer(self, question, run)
        return await self.answer_with(self._writer(question, run), question, run)

    async def answer_with(self, writer: Writer, question: Question, run: Run) -> Answer:
        """The same with a writer of your own."""
        sparing = None if self.l_max is None else SparingWriter(writer, run)
        if self.form == "short":
            path, option = await short_form(self, question, run, sparing or writer)
        else:
            path, option = await long_form(self, question, run, sparing or writer), ""
        is_native = isinstance(writer, NativeWriter)
        judged = is_native or self.reads_support
        text, citations = checked(question, run.trace, *cited(path, self.citations), judged=judged)
        if sparing and sparing.was_short and not text:
            raise NoRoom("no segment had room")
        run.trace.commit(text)
        if is_native:
            short = option or (_short(text, question) if options_of(question) else text)
            return Answer(text, short, citations)
        shown = () if path.in_use is None else (path.in_use,)
        text += "" if option else await elicited(self, question, run, path.written.rstrip(), shown)
        return Answer(text, option or _short(text, question), citations)

    def _writer(self, question: Question, run: Run) -> Writer:
        if any(map(has_reflection_tokens, run.models.values())):
            note_disarmed(run, "question", num_broken(self, question))
        if has_reflection_tokens(run.model):
            judges_itself = "critic" not in run.models and self.scorer != "prompted"
            return NativeWriter(self, question, run, None if judges_itself else self._scorer(question, run))
        return PromptedWriter(self, question, run, self._scorer(question, run))

    def _scorer(self, question: Question, run: Run) -> ReflectionScorer:
        judge = run.models.get("critic", run.model)
        scorer: ReflectionScorer = PromptedScorer(judge, question, run)
        if self.scorer != "prompted" and has_reflection_tokens(judge):
            scorer = NativeScorer(judge, instruction_spans(self, question), run)
        return RememberingScorer(scorer) if self.l_max is None else SparingScorer(scorer)


def _short(text: str, question: Question) -> str:
    return named_option(text, question) if options_of(question) else short_answer(text, question)
