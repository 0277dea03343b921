"""Engines in LangChain: a retriever, and a runnable that takes what a chat model takes.

Importing this module imports langchain-core. If it is missing, the error names the pip line to install it.
"""

import dataclasses
from collections.abc import AsyncIterator
from importlib.util import find_spec
from typing import Any

from askance.core.concurrency import run_blocking
from askance.core.errors import InputError, MissingExtra

if find_spec("langchain_core") is None:
    raise MissingExtra("langchain-core", "langchain", "an engine in LangChain")

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, convert_to_messages
from langchain_core.prompt_values import PromptValue
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableConfig

from askance.ask import Engine, NoRetriever
from askance.conversation import engine_for, read_messages
from askance.core.trace import Answered, AnyEvent, Committed, Searched
from askance.core.types import Passage, Question


class AskanceRetriever(BaseRetriever):
    """A retriever of LangChain that finds the passages of an engine.

    Attributes:
        engine: The engine.
        k: The maximum number of documents.
        answers: If false, the retriever searches the engine's own collection with the query. If true, the
            engine's method answers the query, with as many searches and queries of its own as it takes, and
            the documents are the passages that it found: first those that the answer cites, then the others
            in the order of their ranks.
    """

    engine: Any
    k: int = 4
    answers: bool = False

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return run_blocking(self._documents(query))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        return await self._documents(query)

    async def _documents(self, query: str) -> list[Document]:
        if not self.answers:
            retriever = self.engine.retriever or NoRetriever()
            return [_document(hit.passage, hit.score) for hit in await retriever.search(query, self.k)]
        result = await self.engine.answer(query)
        found = [event.hits for event in result.trace.events if isinstance(event, Searched)]
        ranked = sorted((hit for hits in found for hit in hits), key=lambda hit: hit.rank)
        passages = {each.passage.id: each.passage for each in result.answer.citations}
        for hit in ranked:
            passages.setdefault(hit.passage.id, hit.passage)
        return [_document(passage) for passage in [*passages.values()][: self.k]]


def _document(passage: Passage, score: float | None = None) -> Document:
    metadata = {"title": passage.title, "source": passage.source, "start_index": passage.start}
    place = {name: each for name in ("page", "section") if (each := getattr(passage, name))}
    scored = {} if score is None else {"score": score}
    return Document(id=passage.id, page_content=passage.text, metadata={**metadata, **place, **scored})


class AskanceRunnable(Runnable[LanguageModelInput, AIMessage]):
    """A runnable of LangChain that answers with an engine.

    The input is that of a chat model: a text, messages or a prompt. The last message is the question, and the
    earlier ones are the conversation (see `Conversation`). The output is a message with the answer. Its
    `response_metadata` has the keys `short_answer`, `confidence`, `abstained`, `source`, `citations`,
    `unsupported`, `decisions`, and `ignored` with sentences about system messages, which are not used, since
    methods have their own prompts.
    `astream` yields the text of the answer as soon as it is final.

    Args:
        engine: The engine.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def invoke(
        self, input: LanguageModelInput, config: RunnableConfig | None = None, **options: Any
    ) -> AIMessage:
        return run_blocking(self.ainvoke(input, config))

    async def ainvoke(
        self, input: LanguageModelInput, config: RunnableConfig | None = None, **options: Any
    ) -> AIMessage:
        return await self._acall_with_config(self._answer, input, config)

    async def astream(
        self, input: LanguageModelInput, config: RunnableConfig | None = None, **options: Any
    ) -> AsyncIterator[AIMessage]:
        async def inputs() -> AsyncIterator[LanguageModelInput]:
            yield input

        async for chunk in self._atransform_stream_with_config(inputs(), self._chunks, config):
            yield chunk

    def _engine_for(self, question: Question) -> Engine:
        return engine_for(self._engine, question) if question.history else self._engine

    async def _answer(self, input: LanguageModelInput) -> AIMessage:
        question, ignored = read_question(input)
        result = await self._engine_for(question).answer(question)
        event = result.trace.events[-1]
        assert isinstance(event, Answered)
        return AIMessage(result.answer.text, **_details(event, result.trace.events, ignored))

    async def _chunks(self, inputs: AsyncIterator[LanguageModelInput]) -> AsyncIterator[AIMessage]:
        async for input in inputs:
            (question, ignored), events = read_question(input), list[AnyEvent]()
            async for event in self._engine_for(question).stream(question):
                events.append(event)
                if isinstance(event, Committed):
                    yield AIMessageChunk(content=event.text)
                elif isinstance(event, Answered):
                    yield AIMessageChunk(content="", **_details(event, events, ignored))


def _details(answered: Answered, events: list[AnyEvent], ignored: list[str]) -> dict[str, Any]:
    answer, usage = answered.answer, answered.usage
    total = usage.prompt_tokens + usage.generated_tokens
    return {
        "response_metadata": {
            "short_answer": answer.short,
            "confidence": answer.confidence,
            "abstained": answer.abstained,
            "source": answer.source,
            "citations": [dataclasses.asdict(citation) for citation in answer.citations],
            "unsupported": [dataclasses.asdict(each) for each in answer.unsupported],
            "decisions": [dataclasses.asdict(event) for event in events if event.type == "decide"],
            "ignored": ignored,
        },
        "usage_metadata": {
            "input_tokens": usage.prompt_tokens,
            "output_tokens": usage.generated_tokens,
            "total_tokens": total,
        },
    }


_ROLES = {"human": "user", "ai": "assistant", "system": "system"}


def read_question(input: LanguageModelInput) -> tuple[Question, list[str]]:
    """Return the question that the input of a chat model asks, with the earlier turns as its history.

    Returns:
        The question, and sentences about system messages, which are not used.

    Raises:
        InputError: The last message is not from a human, or a message is that of a tool.
    """
    if isinstance(input, str):
        return Question("question", input), []
    messages = input.to_messages() if isinstance(input, PromptValue) else convert_to_messages(input)
    for message in messages:
        if message.type not in _ROLES:
            raise InputError(
                f"a message of type {message.type!r} can't be given to an engine, which calls no tools: "
                "leave it out."
            )
    if not messages or messages[-1].type != "human":
        raise InputError("the last message is not from a human: end with the question.")
    return read_messages((_ROLES[message.type], str(message.text)) for message in messages)
