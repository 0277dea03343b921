"""Wrappers that write every call into the trace. A method is given nothing but these."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from askance.core.errors import AskanceError, ModelFailure, RetrieverFailure
from askance.core.machine import machine_failure
from askance.core.notes import Notes, noted
from askance.core.panics import INTERRUPTIONS
from askance.core.ports import Model, Retriever, WrappedModel, WrappedRetriever
from askance.core.trace import (
    Attended,
    Failed,
    Generated,
    Noted,
    ScoredOptions,
    Searched,
    Trace,
    TracedToken,
)
from askance.core.types import (
    Attention,
    Chat,
    GenerateRequest,
    Generation,
    Hit,
    Key,
    Part,
    Prompt,
    Role,
    Scored,
    Span,
    TokenIds,
    Watch,
)


class RecordedModel(WrappedModel):
    """A model whose calls are traced, and whose keys are put into `scope`: (seed, question id)."""

    def __init__(self, model: Model, role: Role, trace: Trace, scope: Key) -> None:
        super().__init__(model)
        self._role, self._trace, self._scope = role, trace, scope

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        began = time.perf_counter()
        key, guarded = request.key, None if request.watch is None else _Guarded(request.watch)
        asked = replace(request, key=(*self._scope, *key), watch=guarded)
        with _calling(self._trace, f"{self._role} model {self.name}, {_name(key)}", ModelFailure):
            generations = await self._model.generate(asked)
        if guarded is not None and guarded.error is not None:
            raise guarded.error
        seconds = time.perf_counter() - began
        shown = prompt_text(request.prompt, self._model)
        for generation in generations:
            self._record(generation, shown, key, seconds / request.n)
        return generations

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        began = time.perf_counter()
        with _calling(self._trace, f"{self._role} model {self.name}, score", ModelFailure):
            scores = await self._model.score(prompt, options)
        self._trace.add(
            ScoredOptions,
            seconds=time.perf_counter() - began,
            role=self._role,
            prompt=prompt_text(prompt, self._model),
            options=tuple(options),
            logprobs=tuple(score.logprob for score in scores),
            prompt_tokens=self._model.count(prompt) + sum(score.num_tokens for score in scores),
            is_upper_bound=not self._model.counts_exactly,
        )
        return scores

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        began = time.perf_counter()
        with _calling(self._trace, f"{self._role} model {self.name}, attend", ModelFailure):
            attention = await self._model.attend(text, bos=bos)
        seconds = time.perf_counter() - began
        self._trace.add(Attended, seconds=seconds, role=self._role, prompt_tokens=len(attention.ids))
        return attention

    def _record(self, generation: Generation, shown: str, key: Key, seconds: float) -> None:
        self._trace.add(
            Generated,
            seconds=seconds,
            role=self._role,
            key=key,
            prompt=shown,
            text=generation.text,
            finish=generation.finish,
            tokens=tuple(TracedToken(t.text, t.logprob, t.entropy, t.probs) for t in generation.tokens),
            prompt_tokens=generation.prompt_tokens,
            generated_tokens=generation.generated_tokens,
            reused_tokens=generation.reused_tokens,
            is_upper_bound=generation.is_upper_bound,
        )


class _Guarded:
    """A watcher whose failure is kept apart from the model's."""

    def __init__(self, watch: Watch) -> None:
        self.error: Exception | None = None
        self._watch = watch

    def __call__(self, text: str) -> None:
        try:
            self._watch(text)
        except Exception as error:  # the listener's own, raised again once the model is done
            self.error = self.error or error


class RecordedRetriever(WrappedRetriever):
    """A retriever whose searches are traced."""

    def __init__(self, retriever: Retriever, trace: Trace) -> None:
        super().__init__(retriever)
        self._trace = trace

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        began = time.perf_counter()
        with _calling(self._trace, f"retriever {self.name}", RetrieverFailure):
            hits = await self._retriever.search(query, k, exclude=exclude)
        self._trace.add(Searched, seconds=time.perf_counter() - began, query=query, k=k, hits=hits)
        return hits


def prompt_text(prompt: Prompt, model: Model) -> str:
    """The prompt as a person reads it. Chat turns are headed by their role; token ids are decoded."""
    if isinstance(prompt, Chat):
        turns = [f"<{turn.role}>\n{_parts_text(turn.parts, model)}\n" for turn in prompt.turns]
        return "".join(turns) + "<assistant>\n" + _parts_text(prompt.continuation, model)
    return _parts_text((*prompt.parts, *prompt.continuation), model)


def _parts_text(parts: Sequence[Part], model: Model) -> str:
    return "".join(part.text if isinstance(part, Span) else model.decode(part) for part in parts)


@contextmanager
def _calling(trace: Trace, place: str, kind: type[AskanceError]) -> Iterator[None]:
    """A call: what it notes and how it fails is traced. An error that is not ours becomes one of `kind`."""
    try:
        with noted(_notes(trace, place)):
            yield
    except INTERRUPTIONS:
        raise
    except BaseException as error:  # the panic of an extension is no Exception
        trace.add(Failed, error=type(error).__name__, message=str(error), place=place)
        if isinstance(error, AskanceError):
            raise
        raise machine_failure(error) or kind(f"{place}: {type(error).__name__}: {error}") from error


def _notes(trace: Trace, place: str) -> Notes:
    """Puts notes into the trace; what is so for all calls, which a retry is not, once."""

    def take(name: str, text: str) -> None:
        before = (event for event in trace.events if isinstance(event, Noted))
        if name == "retry" or all((event.name, event.text) != (name, text) for event in before):
            trace.add(Noted, name=name, text=text, place=place)

    return take


def _name(key: Key) -> str:
    return " ".join(map(str, key))
