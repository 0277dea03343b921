"""Self-RAG: search when the model asks for it, write with each passage, keep what is judged best."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from askance.core.errors import MissingAbility
from askance.core.parameters import SearchParameter
from askance.core.ports import Model, Needs, Run
from askance.core.token_ledger import NoRoom
from askance.core.types import Answer, Question, Role, Signal, Span
from askance.methods.common.answer_text import check_citations
from askance.methods.common.generation_state import GenerationState
from askance.methods.common.prompts import layout_needs
from askance.methods.selfrag import tasks
from askance.methods.selfrag.judging import Scorer, judged_by_tokens, judged_in_words
from askance.methods.selfrag.long import LongForm
from askance.methods.selfrag.native import NativeWriter
from askance.methods.selfrag.parameters import OwnParameters
from askance.methods.selfrag.segments import cited
from askance.methods.selfrag.short import ShortForm
from askance.methods.selfrag.tokens import ReflectionVocabulary, has_reflection_tokens
from askance.methods.selfrag.writing import PromptedWriter, Writer
from askance.text.answers import short_answer


@dataclass(frozen=True, slots=True)
class Selfrag(OwnParameters):
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

    paper: ClassVar[str] = "Asai et al. 2024 (Self-RAG)"
    searches: ClassVar[str] = "when the model asks for it"
    calibrated: ClassVar[SearchParameter] = SearchParameter("threshold", belongs_to=("scorer", "form"))

    @property
    def needs(self) -> Needs:
        signals: set[Signal] = {"logprob"} if self.use_seqscore else set()
        return Needs(frozenset(signals), retriever=self.mode != "never", roles=frozenset({"critic"}))

    def check_models(self, models: Mapping[Role, Model]) -> None:
        model, judge = models["answer"], models.get("critic", models["answer"])
        if self.scorer == "native":
            ReflectionVocabulary.of(judge)
        if self.closed_aggregation == "option_likelihood" and "score" not in model.capabilities:
            raise MissingAbility(
                f"closed_aggregation=option_likelihood needs the likelihood of options, which {model.name} "
                "does not give: leave it at score_sum, or use a local model (bundled, hf:NAME, gguf:FILE)."
            )
        if has_reflection_tokens(model):
            return
        layouts = layout_needs(self.layout, continues=self.form == "long")
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
        form = ShortForm if self.form == "short" else LongForm
        path, option = await form(self, question, run, writer).answer()
        is_native = isinstance(writer, NativeWriter)
        judged = is_native or "support" in self.read
        text, citations = check_citations(question, run.trace, *cited(path, self.citations), judged=judged)
        if writer.was_short and not text:
            raise NoRoom("no segment had room")
        run.trace.commit(text)
        if is_native:
            short = _short(text, question) if tasks.options_of(question) else text
            return Answer(text, option or short, citations)
        shown = () if path.in_use is None else (path.in_use,)
        elicit_tokens = self.elicit_tokens if self.elicit and not option else 0
        writing = GenerationState(question, run, elicit_tokens, self.layout, self.wording, hits=shown)
        writing.text = path.written.rstrip()
        text += await writing.ask_short_answer()
        return Answer(text, option or _short(text, question), citations)

    def _own_writer(self, question: Question, run: Run) -> Writer:
        """A native writer for a model with the tokens, which judges itself unless another one shall."""
        is_native, judge = has_reflection_tokens(run.model), run.models.get("critic", run.model)
        judges_natively = self.scorer != "prompted" and has_reflection_tokens(judge)
        head = self.head(question, run) if is_native or judges_natively else ()
        scorer: Scorer | None = judged_in_words(judge, question, run)
        if judges_natively:
            scorer = None if judge is run.model else judged_by_tokens(judge, head, run)
        return self.writer(question, run, scorer, head if is_native else None)

    def head(self, question: Question, run: Run) -> tuple[Span, ...]:
        """The prompt of a checkpoint up to where the answer begins."""
        task = tasks.task_of(self.task, question)
        asked = tasks.asked_text(question, tasks.shown_options(question) if task == "choice" else ())
        separator = "training" if self.separator == "auto" else self.separator
        return tasks.prompt_head(asked, task, self.instructions, separator, run.trace)

    def writer(
        self, question: Question, run: Run, scorer: Scorer | None, head: tuple[Span, ...] | None
    ) -> Writer:
        """Who writes, judged by a scorer if one is given; with a head, for a model with the tokens."""
        if head is None:
            return PromptedWriter(self, question, run, scorer)
        return NativeWriter(self, question, run, scorer, head)


def _short(text: str, question: Question) -> str:
    return tasks.named_option(text, question) if tasks.options_of(question) else short_answer(text, question)
