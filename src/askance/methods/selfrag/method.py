"""Self-RAG: retrieve on demand, generate with each passage, and keep the best-scored segments."""

from collections.abc import Mapping
from typing import ClassVar

from askance.core.answers import Answer
from askance.core.parameters import SearchParameter, checked_dataclass
from askance.core.ports import Needs, RoleModel, Run
from askance.core.token_ledger import NoRoom
from askance.core.types import Question, Role, Span
from askance.methods.common.answer_text import check_citations
from askance.methods.common.generation_state import GenerationState
from askance.methods.common.prompts import layout_needs
from askance.methods.selfrag import prompts, scoring
from askance.methods.selfrag.forms import LongForm, ShortForm
from askance.methods.selfrag.parameters import OwnParameters
from askance.methods.selfrag.segment_writer import NativeWriter, SegmentWriter
from askance.methods.selfrag.segments import Path, cite_passages
from askance.methods.selfrag.tokens import ReflectionVocabulary, has_reflection_tokens


@checked_dataclass()
class Selfrag(OwnParameters):
    """Self-RAG (Asai et al. 2024): reflection tokens decide when to search and which text to keep.

    Form "short" searches at most once and writes an answer for each passage. It takes the best answer by
    equation 4 or, for questions with options, the option with the most votes (section 3.3). Form "long" is a
    segment-level beam search: answers grow segment by segment, and each search uses the latest segment
    (algorithm 1).

    A model that was trained on reflection tokens scores relevance, support and utility while it writes
    (`scorer=native`). Any other model writes sentences as segments and is asked about each of them in words.
    The probabilities of label words then replace those of the tokens (`scorer=prompted`). A model in the role
    critic scores in place of the answering model.

    The page docs/methods/selfrag.md lists each difference from the paper.
    """

    paper: ClassVar[str] = "Asai et al. 2024 (Self-RAG)"
    searches: ClassVar[str] = "when the model asks for it"
    calibrated: ClassVar[SearchParameter] = SearchParameter("threshold", belongs_to=("scorer", "form"))

    @property
    def needs(self) -> Needs:
        return Needs(
            signals=frozenset({"logprob"} if self.use_seqscore else ()),
            one_of=layout_needs(self.layout, continues=self.form == "long"),
            retriever=self.mode != "never",
            roles=frozenset({"critic"}),
        )

    def warning(self, models: Mapping[Role, RoleModel]) -> str:
        """Return a warning if questions in words take the place of reflection tokens that nobody gave up."""
        _, critic = scoring.critics(models)
        if self.scorer != "auto" or has_reflection_tokens(critic):
            return ""
        return (
            f"selfrag asks {critic.name} in words, since it has no reflection tokens, and small models "
            "answer such questions badly: use --model bundled:selfrag or another model that was trained for "
            "Self-RAG; --set scorer=prompted accepts it."
        )

    def check_models(self, models: Mapping[Role, RoleModel]) -> None:
        _, critic = scoring.critics(models)
        if self.scorer == "native":
            ReflectionVocabulary.of(critic)

    async def answer(self, question: Question, run: Run) -> Answer:
        return await self.answer_with(self._default_writer(question, run), question, run)

    async def answer_with(self, writer: SegmentWriter, question: Question, run: Run) -> Answer:
        """Return the answer that `writer` writes in the chosen form, with citations and a short answer."""
        form = ShortForm if self.form == "short" else LongForm
        path, option = await form(writer).answer()
        if writer.was_short and not cite_passages(path)[0]:
            raise NoRoom("no segment had room")
        return await self.finish(path, option, question, run, is_native=isinstance(writer, NativeWriter))

    async def finish(
        self, path: Path, option: str, question: Question, run: Run, *, is_native: bool
    ) -> Answer:
        """Return the answer of a path with its citations, and with a short answer, which may be asked for.

        Args:
            option: The option that the path names, or an empty string.
            is_native: Whether the path was written with reflection tokens.
        """
        judged = is_native or "support" in self.needed_groups
        text, citations = check_citations(question, run.trace, *cite_passages(path), judged=judged)
        run.trace.commit(text)
        if is_native:
            short = prompts.named_option(text, question) if prompts.answer_options(question) else text
        else:
            hits = () if path.current_hit is None else (path.current_hit,)
            asks = self.ask_short_answer and not option
            writing = GenerationState(question, run, asks, self.layout, self.prompts, hits=hits)
            writing.text = path.written.rstrip()
            text += await writing.ask_short_answer()
            short = prompts.named_option(text, question)
        return Answer(text, option or short, citations, reflection=path.reflection)

    def _default_writer(self, question: Question, run: Run) -> SegmentWriter:
        """Return the writer for the model.

        A model with reflection tokens scores its own text, unless another model is the critic. A critic that
        judges pairs alone leaves the other judgements to the model.
        """
        is_native, (pair_critic, critic) = has_reflection_tokens(run.model), scoring.critics(run.models)
        scores_natively = self.scorer != "prompted" and has_reflection_tokens(critic)
        head = self.head(question, run) if is_native or scores_natively else ()
        if scores_natively and critic is run.model and pair_critic is None:
            return NativeWriter(self, question, run, None, head)
        scorer = scoring.prompted_scorer(critic, question, run)
        if scores_natively:
            scorer = scoring.reflection_token_scorer(critic, head, run)
        if pair_critic is not None:
            scorer = scoring.pair_scorer(pair_critic, question, others=scorer)
        if is_native:
            return NativeWriter(self, question, run, scorer, head)
        return SegmentWriter(self, question, run, scorer)

    def head(self, question: Question, run: Run) -> tuple[Span, ...]:
        """Return the prompt of a Self-RAG checkpoint up to where the answer begins."""
        task = prompts.task_of(self.task, question)
        options = prompts.lettered_options(question) if task == "choice" else ()
        text, instruction = prompts.input_text(question, options), getattr(self.instructions, task)
        return prompts.prompt_head(text, instruction, trace=run.trace)
