"""The main path: one question, one method, one coroutine, one trace.

The command line, servers, evaluation and notebooks all answer questions through this module.
"""

import asyncio
from asyncio import CancelledError
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from html import escape
from typing import Any

from askance.confidence import Abstaining, supported_part
from askance.core.answers import UNSUPPORTED, Answer, Usage
from askance.core.errors import AskanceError, InputError, MissingAbility, ModelLacks, QuestionError
from askance.core.filters import Filter
from askance.core.panics import panics_as
from askance.core.parameters import method_spec, name_of
from askance.core.ports import (
    ChecksModels,
    Encoder,
    Method,
    Model,
    Needs,
    PairScorer,
    Retriever,
    RoleModel,
    Run,
    language_model,
    wrap,
)
from askance.core.safe_text import printable
from askance.core.token_ledger import Budget
from askance.core.trace import Answered, AnyEvent, Asked, Failed, Generated, Listener, Noted, Trace
from askance.core.types import Hit, Question, Role
from askance.methods.common.generation_state import ELICITED
from askance.methods.common.question_rewriter import QuestionRewriter
from askance.methods.common.token_limit import answer_within_limit
from askance.middleware.session import Session, SessionModel, SessionRetriever
from askance.retrieval.filters import filtered_retriever
from askance.text.support import checked_answer, cited_passages, marked, source_of


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to a question, its cost, and the trace of how the method arrived at it.

    `print` shows the answer with its sources, and a notebook also the decisions.
    """

    answer: Answer
    usage: Usage
    trace: Trace

    def __str__(self) -> str:
        text = self.answer.statement if self.answer.abstained else marked(self.answer, UNSUPPORTED)
        passages = enumerate(cited_passages(self.answer), start=1)
        sources = [f"[{number}] {each.title or each.id}, {each.location}" for number, each in passages]
        return printable("\n".join([text, *["\nSources:"] * bool(sources), *sources]))

    def _repr_html_(self) -> str:
        """Return the result as a notebook shows it, in which all text is only text."""
        steps = [f"{each.name}: {each.outcome} {each.query} ({each.why})" for each in self.trace.decisions]
        items = "".join(f"<li>{escape(printable(step))}</li>" for step in steps)
        opened = f"<details><summary>{len(steps)} decisions, {self.usage.searches} searches</summary>"
        return f"<p>{escape(str(self)).replace(chr(10), '<br>')}</p>{opened}<ol>{items}</ol></details>"


@dataclass(eq=False)
class Engine:
    """A method with its models and retriever, ready to answer any number of questions.

    Attributes:
        method: The method that answers.
        models: The models by role. The role "answer" is required.
        retriever: The collection to search, for methods that search.
        seed: The seed of all random choices.
        budget: The limits on the cost of one question.
        encoder: The encoder, for methods that compare texts by their vectors.
        why: The reason why this method answers instead of the default one. Every trace records this reason.
        config: The configuration that the engine was made from, as JSON values. Every trace records it.
        rewriter: The rewriter of questions that have a history. If it is None, the method gets the history,
            which some methods show in their prompts but none uses for its first search.
        on_end: A callback that receives the complete trace of every question, also of a question that failed.
        abstaining: What estimates the confidence of answers and decides when to abstain, for methods that
            search. If it is None, answers have no confidence.
        support_scorer: The cross-encoder that checks the sentences that cite a passage (see
            `askance.text.support`). If it is None, only their names and numbers are compared.
        is_strict: Whether sentences that cite no passage are left out of answers, for methods that search.
            The text is then committed only once it is complete.

    Raises:
        MissingAbility: The models, the retriever or the encoder do not meet the method's needs.
    """

    method: Method
    models: Mapping[Role, RoleModel]
    retriever: Retriever | None = None
    seed: int = 0
    budget: Budget = Budget()
    _: KW_ONLY
    encoder: Encoder | None = None
    why: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    rewriter: QuestionRewriter | None = None
    on_end: Callable[[Trace], None] | None = None
    abstaining: Abstaining | None = None
    support_scorer: PairScorer | None = None
    is_strict: bool = False

    def __post_init__(self) -> None:
        check_needs(self.method, self.models, self.retriever, self.encoder)

    async def answer(
        self,
        question: str | Question,
        *,
        listener: Listener | None = None,
        trace: Trace | None = None,
        retriever: Retriever | None = None,
        where: str | Filter | None = None,
    ) -> Result:
        """Answer one question.

        Args:
            question: The question, or its text. A `Question` may have earlier turns as its `history`
                (`Conversation` keeps them).
            listener: A callback that receives every event of the trace as it happens, such as searches,
                decisions and committed text (see `askance.core.trace`).
            trace: The trace to record into; by default a new one. The trace is complete even if this method
                raises. If `trace` is given, `listener` is ignored.
            retriever: A retriever to use instead of the engine's own.
            where: A filter of the documents to search, or its text (see `retrieval.filters`). A filter that
                the retriever already has applies, too. The name of the retriever in the trace has both.

        Returns:
            The answer with its usage and trace.

        Raises:
            QuestionError: The question is no text, empty, or not valid Unicode.
            FilterError, UnknownName: The filter can't be used. The question is not asked.
            ModelFailure, RetrieverFailure: A call failed. The trace names the call.
            ModelFailure: The cross-encoder that the confidence depends on failed.
            BudgetTooSmall: The method's `l_max` was used up before any text was generated.
            LimitReached: The question used up its budget. The trace contains the calls made until then.
        """
        question = Question(id="question", text=question) if isinstance(question, str) else question
        if not isinstance(question, Question):
            raise QuestionError(f"{question!r:.99} is no question: give a text, or an askance.Question.")
        check_question(question.text)
        trace = trace or Trace(listener)
        retriever = retriever or self.retriever
        if where is not None:
            retriever = filtered_retriever(retriever or NoRetriever(), where)
        try:
            run = self._start(question, trace, retriever)
            with panics_as(AskanceError):  # a panic inside a call is a ModelFailure or RetrieverFailure
                if self.rewriter is not None:
                    question = await self.rewriter.rewrite(question, run)
                answer = await self._supported(question, run)
        except BaseException as error:
            if not any(isinstance(event, Failed) for event in trace.events):
                is_stopped = isinstance(error, CancelledError | KeyboardInterrupt)
                trace.fail(error, name_of(type(self.method)), "interrupted" if is_stopped else "")
            raise
        else:
            _note_end(answer, trace)
            usage = trace.usage()
            trace.add(Answered, answer=answer, usage=usage)
            return Result(answer, usage, trace)
        finally:
            if self.on_end is not None:
                self.on_end(trace)

    async def _supported(self, question: Question, run: Run) -> Answer:
        """Return the method's answer with confidence, source and unsupported sentences.

        If strict, sentences without a citation are left out.
        """
        searches = self.method.needs.retriever
        if searches and self.is_strict:
            answer = await answer_within_limit(self.method, question, replace(run, trace=run.trace.aside()))
            answer = supported_part(answer, run.trace)
            run.trace.commit(answer.text)
        else:
            answer = await answer_within_limit(self.method, question, run)
        if searches and self.abstaining is not None:
            answer = await self.abstaining.judge(question, answer, run.trace)
        answer = replace(answer, source=source_of(answer, run.trace.events))
        return await checked_answer(question.text, answer, run.trace.events, self.support_scorer)

    def _start(self, question: Question, trace: Trace, retriever: Retriever | None) -> Run:
        """Record the question with its configuration, and return the run for the method to use."""
        trace.add(
            Asked,
            question_id=question.id,
            text=question.text,
            method=str(method_spec(self.method, is_whole=True)),
            title=str(method_spec(self.method)),
            models={role: model.name for role, model in self.models.items()},
            retriever="" if retriever is None else retriever.name,
            seed=self.seed,
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            precisions=precisions_of(self.models),
            options=question.options,
            history=question.history,
            config=dict(self.config),
        )
        if self.why:
            trace.add(Noted, name="method", text=self.why, place="method")
        session = Session(trace, (self.seed, question.id), self.budget)
        models = {
            role: wrap(model, partial(SessionModel, role=role, session=session), partial(session.score, role))
            for role, model in self.models.items()
        }
        session_retriever = SessionRetriever(retriever or NoRetriever(), session)
        return Run(models, session_retriever, trace, self.seed, self.encoder)

    async def stream(
        self,
        question: str | Question,
        *,
        trace: Trace | None = None,
        retriever: Retriever | None = None,
        where: str | Filter | None = None,
    ) -> AsyncGenerator[AnyEvent]:
        """Answer one question, and yield every event of the trace as it happens.

        Events of type "commit" carry the final text of the answer piece by piece. Events of type "draft"
        carry text that may still change. The last event is an `Answered`. Closing the iterator cancels the
        question. The arguments are those of `answer`, but this method replaces the trace's listener.

        Raises:
            AskanceError: See `answer`.
        """
        events = asyncio.Queue[AnyEvent | None]()
        trace = trace or Trace()
        trace.listener = events.put_nowait
        answering = asyncio.create_task(self.answer(question, trace=trace, retriever=retriever, where=where))
        answering.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            await answering  # raises the error of a failed question
        finally:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)

    def ask(
        self, question: str | Question, *, listener: Listener | None = None, where: str | Filter | None = None
    ) -> Result:
        """Answer one question from synchronous code.

        Args:
            question: The question, or its text (see `answer`).
            listener: A callback that receives every event of the trace as it happens.
            where: A filter of the documents to search, or its text.

        Returns:
            The result: `answer` with text, short answer and citations, `usage` with the cost, and `trace`.

        Raises:
            AskanceError: See `answer`.
            InputError: An event loop is already running, as in a notebook. Use ``await engine.answer(…)``.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.answer(question, listener=listener, where=where))
        raise InputError(
            "Engine.ask was called inside a running event loop: write `await engine.answer(…)` there."
        )


def check_needs(
    method: Method,
    models: Mapping[Role, RoleModel],
    retriever: Retriever | None,
    encoder: Encoder | None = None,
) -> None:
    """Check that models, retriever and encoder meet a method's needs.

    Raises:
        MissingAbility: A model, the retriever or the encoder is missing or lacks an ability, or a model is
            given that the method does not use. The message says what would work.
    """
    needs, model, name = method.needs, models.get("answer"), name_of(type(method))
    if model is None:
        raise MissingAbility("no model for the role 'answer': give one, for example --model bundled.")
    check_can_search(method, retriever, encoder)
    unused = models.keys() - needs.asked_roles
    if unused:
        raise MissingAbility(
            f"method {name} with these parameters uses no model in the role {min(unused)}: leave out --model "
            f"{min(unused)}=…, or choose a method that does."
        )
    for role, each in models.items():
        if role not in (("critic", "reward") if isinstance(each, PairScorer) else ("reward",)):
            language_model(each, role)
    model = language_model(model)
    _check_abilities(name, needs, model)
    if needs.attention:
        _check_attention(name, model, models.get("attend"))
    if isinstance(method, ChecksModels):
        method.check_models(models)


def check_can_search(method: Method, retriever: Retriever | None, encoder: Encoder | None) -> None:
    """Check that a method has the retriever and the encoder that it needs.

    Raises:
        MissingAbility: The method needs a retriever or an encoder, and none is given.
    """
    needs, name = method.needs, name_of(type(method))
    if needs.retriever and retriever is None:
        raise MissingAbility(
            f"method {name} searches, but no index is given: name an index (--index DIR; "
            "`askance index FOLDER --out DIR` makes one), or choose --method closed_book, which "
            "does not search."
        )
    if needs.encoder and encoder is None:
        raise MissingAbility(
            f"method {name} with these parameters compares answers by their vectors, but no encoder is "
            "given: name one, for example --encoder bundled, or choose another verifier, for example --set "
            "verifier=jcd."
        )


def precisions_of(models: Mapping[Role, RoleModel]) -> dict[str, str]:
    """Return the floating-point format of each model that reports one, by role."""
    return {role: found for role, model in models.items() if (found := getattr(model, "precision", ""))}


def describe_models(names: Mapping[Role, str] | Mapping[str, str], precisions: Mapping[str, str]) -> str:
    """Return the models by role as a string: ``bundled (float32), attend: hf:NAME (bfloat16)``."""
    models = {
        role: f"{name} ({precisions[role]})" if role in precisions else name for role, name in names.items()
    }
    others = (f"{role}: {name}" for role, name in models.items() if role != "answer")
    return ", ".join([models.get("answer", "none"), *others])


def _check_abilities(name: str, needs: Needs, model: Model) -> None:
    lacking: list[str] = sorted((needs.signals - model.signals) | (needs.capabilities - model.capabilities))
    if needs.one_of and not any(each <= model.capabilities for each in needs.one_of):
        lacking.append(needs.choice)
    if lacking:
        raise ModelLacks(
            f"method {name} needs {', '.join(lacking)}, which {model.name} does not provide",
            "use a local model (--model bundled, hf:NAME or gguf:FILE)",
        )


def _check_attention(method: str, model: Model, proxy: RoleModel | None) -> None:
    if proxy is not None and "attend" not in language_model(proxy, "attend").capabilities:
        raise MissingAbility(
            f"model {proxy.name} in the role attend can't provide its attention: give that role a local "
            "model, for example --model attend=bundled."
        )
    if proxy is None and "attention" not in model.signals:
        raise ModelLacks(
            f"method {method} needs attention, which {model.name} does not provide",
            "let a small local model provide it (add --model attend=bundled), or use a local model (--model "
            "bundled, hf:NAME or gguf:FILE)",
        )


def check_question(text: str) -> None:
    """Raise `QuestionError` if the question is empty or not valid Unicode."""
    if not text.strip():
        raise QuestionError("the question is empty: say what you want to know.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise QuestionError(f"the question is not valid Unicode: {error}. Write it in UTF-8.") from error


def _note_end(answer: Answer, trace: Trace) -> None:
    """Note an empty answer, or a limit of tokens that cut its text, unless the model has noted the reason."""
    texts = [event for event in trace.events if isinstance(event, Generated) and event.role == "answer"]
    texts = texts[:-1] if texts and texts[-1].key == ELICITED else texts
    is_cut = texts and texts[-1].finish == "length" and texts[-1].text.strip()
    known = {event.name for event in trace.events if isinstance(event, Noted)} & {"cut", "thoughts"}
    if is_cut and not known and texts[-1].text.strip() in answer.text:
        why = "the text of the answer was cut at the limit of new tokens: allow more (--set max_tokens=N)."
        trace.add(Noted, name="cut", text=why, place="answer")
    if texts and not (known or answer.text.strip() or answer.abstained):
        trace.add(Noted, name="empty", text="the model wrote no answer.", place="answer")


class NoRetriever:
    """A placeholder for a missing retriever. `check_needs` rejects methods that would search with it."""

    name = fingerprint = ""

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        """Raise `MissingAbility`."""
        raise MissingAbility(f"the method searches for {query!r:.99}, but no retriever is given.")
