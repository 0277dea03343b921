"""The main path: one question, one method, one coroutine, one trace.

The command line, servers, evaluation and notebooks all come through here.
"""

import asyncio
from asyncio import CancelledError
from collections.abc import AsyncIterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from typing import Any

from askance.core.errors import AskanceError, InputError, MissingAbility, ModelLacks, QuestionError
from askance.core.panics import panics_as
from askance.core.parameters import name_of, short_repr
from askance.core.ports import ChecksModels, Encoder, Method, Model, Needs, Retriever, Run
from askance.core.trace import Answered, AnyEvent, Asked, Failed, Listener, Noted, Trace
from askance.core.types import Answer, Hit, Question, Role, Usage
from askance.methods.common.token_limit import answer_within_limit
from askance.middleware.session import Budget, Session, SessionModel, SessionRetriever


@dataclass(frozen=True, slots=True)
class Result:
    """An answer, what it cost, and the trace of how it came about."""

    answer: Answer
    usage: Usage
    trace: Trace


@dataclass(eq=False)
class Engine:
    """A method with its models and index, ready to answer any number of questions.

    Attributes:
        models: by role; "answer" must be there.
        retriever: needed by methods that search.
        budget: what one question may cost.
        encoder: needed by methods that compare texts by their vectors.
        why: this method answers, where it is not the one that would; each trace says it.
        config: what all of it was made of, in values of JSON; each trace holds it.

    Raises:
        MissingAbility: the model, or the lack of a retriever or encoder, does not meet the method's needs.
    """

    method: Method
    models: Mapping[Role, Model]
    retriever: Retriever | None = None
    seed: int = 0
    budget: Budget = Budget()
    _: KW_ONLY
    encoder: Encoder | None = None
    why: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_needs(self.method, self.models, self.retriever, self.encoder)

    async def answer(
        self,
        question: str | Question,
        *,
        listener: Listener | None = None,
        trace: Trace | None = None,
        retriever: Retriever | None = None,
    ) -> Result:
        """Answer one question.

        Args:
            listener: sees every event of the trace as it happens.
            trace: one of your own instead, which is complete also when this raises.
            retriever: another one than the engine's own.

        Raises:
            QuestionError: the question is empty.
            ModelFailure, RetrieverFailure: a call broke; the trace says which.
            BudgetTooSmall: the method's `l_max` is used up, and nothing is written yet.
            LimitReached: it has cost what it may cost; the trace has what was done until then.
        """
        question = Question(id="question", text=question) if isinstance(question, str) else question
        check_question(question.text)
        trace = trace or Trace(listener)
        run = self._begin(question, trace, retriever or self.retriever)
        try:
            with panics_as(AskanceError):  # those of calls have become failures of the model or retriever
                answer = await answer_within_limit(self.method, question, run)
        except BaseException as error:
            if not any(isinstance(event, Failed) for event in trace.events):
                is_stopped = isinstance(error, CancelledError | KeyboardInterrupt)
                told, place = "interrupted" if is_stopped else str(error), name_of(type(self.method))
                trace.add(Failed, error=type(error).__name__, message=told, place=place)
            raise
        usage = trace.usage()
        trace.add(Answered, answer=answer, usage=usage)
        return Result(answer, usage, trace)

    def _begin(self, question: Question, trace: Trace, retriever: Retriever | None) -> Run:
        """What the method has at hand; the trace begins with what everything was made of."""
        trace.add(
            Asked,
            question_id=question.id,
            text=question.text,
            method=repr(self.method),
            title=short_repr(self.method),
            models={role: model.name for role, model in self.models.items()},
            retriever="" if retriever is None else retriever.name,
            seed=self.seed,
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            precisions=precisions_of(self.models),
            options=question.options,
            config=dict(self.config),
        )
        if self.why:
            trace.add(Noted, name="method", text=self.why, place="method")
        session = Session(trace, (self.seed, question.id), self.budget)
        models = {role: SessionModel(model, role, session) for role, model in self.models.items()}
        searched = SessionRetriever(retriever or NoRetriever(), session)
        return Run(models, searched, trace, self.seed, self.encoder)

    async def stream(self, question: str | Question) -> AsyncIterator[AnyEvent]:
        """Answer one question, and give every event of the trace as it happens, an `Answered` as the last.

        Events of type "commit" carry the text of the answer piece by piece, as it stays; those of type
        "draft" carry what may still be taken back. Whoever stops listening gives the question up.
        """
        events = asyncio.Queue[AnyEvent | None]()
        asked = asyncio.create_task(self.answer(question, listener=events.put_nowait))
        asked.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            await asked  # raises what went wrong
        finally:
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)

    def ask(self, question: str | Question, *, listener: Listener | None = None) -> Result:
        """`answer` for code that is not asynchronous."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.answer(question, listener=listener))
        raise InputError(
            "Engine.ask was called inside a running event loop: write `await engine.answer(…)` there."
        )


async def ask(
    question: Question,
    method: Method,
    models: Mapping[Role, Model],
    retriever: Retriever | None = None,
    *,
    trace: Trace | None = None,
    **options: Any,
) -> Result:
    """Answer one question by an engine made for it; `options` are the further fields of `Engine`."""
    return await Engine(method, models, retriever, **options).answer(question, trace=trace)


def check_needs(
    method: Method,
    models: Mapping[Role, Model],
    retriever: Retriever | None,
    encoder: Encoder | None = None,
) -> None:
    """Raise `MissingAbility`, naming what would do, unless all that is given meets the method's needs."""
    needs, model, name = method.needs, models.get("answer"), name_of(type(method))
    if model is None:
        raise MissingAbility("no model for the role 'answer': give one, for example --model bundled.")
    check_can_search(method, retriever, encoder)
    _check_abilities(name, needs, model)
    unused = models.keys() - needs.asked_roles
    if unused:
        raise MissingAbility(
            f"method {name}, set as it is, asks no model in the role {min(unused)}: leave out --model "
            f"{min(unused)}=…, or choose a method or profile that does."
        )
    if needs.attention:
        _check_attention(name, model, models.get("attend"))
    if isinstance(method, ChecksModels):
        method.check_models(models)


def check_can_search(method: Method, retriever: Retriever | None, encoder: Encoder | None) -> None:
    """Raise `MissingAbility` where a method searches or compares vectors, and there is nothing for it."""
    needs, name = method.needs, name_of(type(method))
    if needs.retriever and retriever is None:
        raise MissingAbility(
            f"method {name} searches, but there is nothing to search: name an index (--index DIR; "
            "`askance index FOLDER --out DIR` makes one), or choose --method closed_book, which "
            "does not search."
        )
    if needs.encoder and encoder is None:
        raise MissingAbility(
            f"method {name}, set as it is, compares answers by their vectors, but there is no encoder: name "
            "one, for example --encoder bundled, or choose another verifier, for example --set verifier=jcd."
        )


def precisions_of(models: Mapping[Role, Model]) -> dict[str, str]:
    """What the models' numbers are computed in, by role; without those of which nobody tells."""
    return {role: model.precision for role, model in models.items() if model.precision}


def models_told(names: Mapping[Role, str] | Mapping[str, str], precisions: Mapping[str, str]) -> str:
    """Models by role as screens and reports show them: ``bundled (float32), attend: hf:NAME (bfloat16)``."""
    told = {
        role: f"{name} ({precisions[role]})" if role in precisions else name for role, name in names.items()
    }
    others = (f"{role}: {name}" for role, name in told.items() if role != "answer")
    return ", ".join([told.get("answer", "none"), *others])


def _check_abilities(name: str, needs: Needs, model: Model) -> None:
    lacking: list[str] = sorted((needs.signals - model.signals) | (needs.capabilities - model.capabilities))
    if needs.one_of and not any(each <= model.capabilities for each in needs.one_of):
        lacking.append(needs.choice)
    if lacking:
        raise ModelLacks(
            f"method {name} needs {', '.join(lacking)}, which {model.name} does not give",
            "use a local model (--model bundled, hf:NAME or gguf:FILE)",
        )


def _check_attention(method: str, model: Model, proxy: Model | None) -> None:
    if proxy is not None and "attend" not in proxy.capabilities:
        raise MissingAbility(
            f"model {proxy.name} in the role attend can't show its attention: give that role a local model, "
            "for example --model attend=bundled."
        )
    if proxy is None and "attention" not in model.signals:
        raise ModelLacks(
            f"method {method} needs attention, which {model.name} does not give",
            "let a small local model read along (add --model attend=bundled), or use a local model (--model "
            "bundled, hf:NAME or gguf:FILE)",
        )


def check_question(text: str) -> None:
    """Raise `QuestionError` for a question that can't be asked."""
    if not text.strip():
        raise QuestionError("the question is empty: say what you want to know.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise QuestionError(f"the question is not valid Unicode: {error}. Write it in UTF-8.") from error


class NoRetriever:
    """Stands where no retriever was given; `check_needs` keeps methods that search from reaching it."""

    name = fingerprint = ""

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        """Always an error."""
        raise MissingAbility(f"a search for {query!r} was asked for, but there is nothing to search.")
