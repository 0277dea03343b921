"""LangChain, both ways: its models and retrievers in askance, and engines as its retriever and runnable."""

import asyncio
import re

import pytest

pytest.importorskip("langchain_core", reason="needs the extra langchain")

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore
from pydantic import Field

from askance import open_engine
from askance.ask import Engine
from askance.configuration.build import load_model, open_retriever
from askance.configuration.methods import make_method
from askance.core import extensions
from askance.core.errors import InputError, MissingAbility, MissingExtra, PromptTooLong
from askance.core.types import Chat, GenerateRequest, Passage, Raw, Sampling, Span, Turn, Want, untrusted
from askance.integrations.langchain import AskanceRetriever, AskanceRunnable, read_question
from askance.models.langchain import LangchainModel
from askance.models.scripted import ScriptedModel
from askance.retrieval.langchain import LangchainRetriever
from askance.retrieval.scripted import ScriptedRetriever
from tests.contracts.retriever_contract import PASSAGES, RetrieverContract

HERE = "tests.integrations.test_langchain"
UPPSALA = Passage("p", "Ingmar Bergman", "Ingmar Bergman was born in Uppsala.", "film.jsonl", 0, 35)
QUESTION = "Where was Ingmar Bergman born?"


def words_of(text):
    return set(re.findall(r"\w+", text.lower()))


class Words(BaseRetriever):
    """Finds the documents that share a word of the query, in the order in which they are given."""

    documents: list[Document]
    k: int = 2

    def _get_relevant_documents(self, query, *, run_manager):
        words = words_of(query)
        found = [each for each in self.documents if words & words_of(each.page_content)]
        return found[: self.k]


def document(passage):
    return Document(
        id=passage.id,
        page_content=passage.text,
        metadata={"title": passage.title, "source": passage.source, "start_index": passage.start},
    )


# Objects that specifications name.
chat_model = FakeListChatModel(responses=[" He was born in Uppsala. So the answer is Uppsala."])
retriever = Words(documents=[document(UPPSALA)])
nothing = object()


class UppsalaModel(FakeListChatModel):
    """A class of LangChain, which is made without arguments."""

    responses: list[str] = Field(default_factory=lambda: ["So the answer is Uppsala."])


def make_chat_model():
    return chat_model


class TestLangchainRetriever(RetrieverContract):
    """Every promise of a retriever is kept around one of LangChain."""

    @pytest.fixture
    def retriever(self):
        return LangchainRetriever(Words(documents=[document(passage) for passage in PASSAGES]))


def search(retriever, query, k=3, **options):
    return asyncio.run(retriever.search(query, k, **options))


def test_documents_without_an_id_or_metadata_get_stable_ids():
    bare = LangchainRetriever(Words(documents=[Document("one two"), Document("two", metadata={"id": 7})]))
    first, second = search(bare, "two")
    assert (first.passage.title, first.passage.source, first.passage.end) == ("", "", 7)
    assert first.passage.id == search(bare, "one")[0].passage.id
    assert second.passage.id == "7"


@pytest.mark.parametrize(
    ("metadata", "scores"),
    [
        ([{"score": 0.9}, {"score": 0.2}], [0.9, 0.2]),
        ([{"relevance_score": 3, "score": 0.1}, {"score": 2}], [3, 2]),
        ([{"score": 0.2}, {"score": 0.9}], [1, 1 / 2]),
        ([{"score": 0.9}, {}], [1, 1 / 2]),
        ([{"score": "0.9"}, {"score": float("nan")}], [1, 1 / 2]),
    ],
)
def test_documents_keep_their_scores_if_these_agree_with_their_order(metadata, scores):
    documents = [Document(f"river {at}", metadata=each) for at, each in enumerate(metadata)]
    hits = search(LangchainRetriever(Words(documents=documents)), "river")
    assert [(hit.passage.text, hit.score) for hit in hits] == [
        (f"river {at}", score) for at, score in enumerate(scores)
    ]


class Fixed(BaseRetriever):
    """Takes no number of documents."""

    def _get_relevant_documents(self, query, *, run_manager):
        return [document(passage) for passage in PASSAGES]


def test_a_retriever_is_asked_for_as_many_as_needed_if_it_can_be():
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    store.add_documents([Document(f"river {number}") for number in range(9)])
    assert len(search(LangchainRetriever(store.as_retriever(search_kwargs={"k": 1})), "river", 7)) == 7
    assert len(search(LangchainRetriever(Fixed()), "river", 2)) == 2


def generate(model, *, prompt=None, want=Want(), n=1, on_text=None, **sampling):
    chat = Chat((Turn("system", (Span("Be brief."),)), Turn("user", (untrusted("Where?"),))))
    settings = Sampling(**{"max_tokens": 32, **sampling})
    request = GenerateRequest(prompt or chat, settings, want, n=n, key=("test",), on_text=on_text)
    return asyncio.run(LangchainModel(model).generate(request))


def fake(*texts, **settings):
    return GenericFakeChatModel(messages=iter([AIMessage(text, **settings) for text in texts]))


@pytest.mark.parametrize(
    ("sampling", "tokens", "finish"),
    [({}, ["The", " ", "Arno", " ", "flows", "."], "end"),
     ({"max_tokens": 3}, ["The", " ", "Arno"], "length"),
     ({"stop": ("flows",)}, ["The", " ", "Arno", " "], "stop")],
)  # fmt: skip
def test_a_text_is_streamed_split_into_tokens_and_ended_whatever_the_model_takes(sampling, tokens, finish):
    seen = []
    (generation,) = generate(fake("The Arno flows."), on_text=seen.append, **sampling)
    assert [token.text for token in generation.tokens] == tokens
    assert generation.text == "".join(seen) == "".join(tokens)
    assert (generation.finish, generation.is_upper_bound) == (finish, True)
    assert len(seen) > 1


def test_samples_are_separate_calls():
    assert {each.text for each in generate(fake("One", "Two"), n=2, temperature=1.0)} == {"One", "Two"}


class Recorder(FakeListChatModel):
    """A model with the two fields that most integrations have; records what it was called with."""

    temperature: float | None = None
    max_tokens: int | None = None
    calls: list = Field(default_factory=list)

    def _stream(self, messages, stop=None, run_manager=None, **options):
        self.calls.append((self.temperature, self.max_tokens, messages))
        yield from super()._stream(messages, stop, run_manager, **options)

    _astream = FakeListChatModel.__base__._astream


def test_a_model_gets_the_sampling_that_it_takes_and_neutralised_untrusted_text():
    model = Recorder(responses=["Pisa."])
    spans = (untrusted("a<|im_end|>b"), Span("<|im_end|>"))
    generate(model, prompt=Chat((Turn("system", (Span("Be brief."),)), Turn("user", spans))), temperature=0.5)
    ((temperature, max_tokens, messages),) = model.calls
    assert (temperature, max_tokens) == (0.5, 32)
    assert (model.temperature, model.max_tokens) == (None, None)
    assert [message.type for message in messages] == ["system", "human"]
    assert messages[0].content == "Be brief."
    assert messages[1].content.count("<|im_end|>") == 1
    assert messages[1].content.endswith("<|im_end|>")


def test_the_usage_and_the_finish_of_the_model_are_kept():
    class Measured(GenericFakeChatModel):
        async def astream(self, input, **options):
            yield AIMessageChunk(content=[{"type": "reasoning", "reasoning": "Hm."}])
            yield AIMessageChunk(
                content="Pisa",
                usage_metadata={"input_tokens": 11, "output_tokens": 1, "total_tokens": 12},
                response_metadata={"finish_reason": "length"},
            )

    (generation,) = generate(Measured(messages=iter(())))
    assert (generation.prompt_tokens, generation.is_upper_bound, generation.finish) == (11, False, "length")
    assert (generation.text, generation.thoughts) == ("Pisa", "Hm.")


WINDOW = "40000 tokens are to be written, and the window has 32768"
LACKS = [
    (lambda: generate(fake("x"), prompt=Raw((Span("x"),))), MissingAbility, "raw prompts and continuations"),
    (lambda: generate(fake("x"), want=Want(entropy=True)), MissingAbility, "signals of tokens"),
    (lambda: generate(fake("x"), max_tokens=40_000), PromptTooLong, WINDOW),
    (lambda: asyncio.run(LangchainModel(fake()).attend("x", bos=False)), MissingAbility, "attention"),
    (lambda: asyncio.run(LangchainModel(fake()).score(Raw(()), ["x"])), MissingAbility, "scores of options"),
]


@pytest.mark.parametrize(("ask", "error", "message"), LACKS)
def test_what_a_chat_model_lacks_is_named(ask, error, message):
    with pytest.raises(error, match=message):
        ask()


@pytest.mark.parametrize("name", ["chat_model", "UppsalaModel"])
def test_specifications_name_models_and_retrievers(name):
    engine = open_engine(
        models={"answer": f"langchain:{HERE}:{name}?context=4096"},
        retriever=f"langchain:{HERE}:retriever",
        method="single",
    )
    result = engine.ask(QUESTION)
    assert (result.answer.short, result.answer.citations[0].passage) == ("Uppsala", UPPSALA)
    assert engine.models["answer"].context_tokens == 4096
    assert engine.retriever.name == f"langchain:{HERE}:retriever"


def test_the_default_method_gives_way_to_one_that_the_model_supports():
    made = open_engine(
        models={"answer": f"langchain:{HERE}:chat_model"}, retriever=f"langchain:{HERE}:retriever"
    )
    assert type(made.method).__name__ == "DraftAgreement"


def retrieve_with(spec):
    return open_retriever(None, spec)


@pytest.mark.parametrize(
    ("opened", "spec", "message"),
    [
        (load_model, f"{HERE}:nothing", "is no chat model of LangChain .object.: it has no astream"),
        (
            load_model,
            f"{HERE}:make_chat_model",
            "no chat model of LangChain .function.: it has no astream",
        ),
        (load_model, f"{HERE}:absent", "can't be imported: AttributeError"),
        (load_model, "no_such_module:x", "no object that can be imported: write langchain:module:object"),
        (load_model, "x", "names no object"),
        (load_model, "", "names no model: write langchain:MODULE:OBJECT"),
        (load_model, f"{HERE}:chat_model?context=0", "context='0' is no number of tokens above 1"),
        (load_model, f"{HERE}:chat_model?windows=9", "unknown model option 'windows'"),
        (
            retrieve_with,
            f"{HERE}:nothing",
            "is no retriever of LangChain .object.: it has no ainvoke",
        ),
        (retrieve_with, "", "'langchain' names no object"),
    ],
)
def test_wrong_specifications_are_named(opened, spec, message):
    with pytest.raises(InputError, match=message):
        opened(f"langchain:{spec}")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(extensions, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"needs the package 'langchain-core'.*\[langchain\]"):
        load_model(f"langchain:{HERE}:chat_model")


def engine(*replies):
    model, found = ScriptedModel(replies), ScriptedRetriever((*PASSAGES, UPPSALA))
    return Engine(make_method("single", {"ask_short_answer": False, "passages": 4}), {"answer": model}, found)


ANSWER = " Ingmar Bergman was born in Uppsala. So the answer is Uppsala."


def test_an_engine_is_a_retriever_of_its_collection_or_of_what_its_method_finds():
    retriever = AskanceRetriever(engine=engine(), k=2)
    documents = retriever.invoke("river")
    assert [each.id for each in documents] == ["rhine", "elbe"]
    assert documents[0].page_content == PASSAGES[0].text
    metadata = {"title": "Rhine", "source": "rivers.jsonl", "start_index": 0, "score": 1.0}
    assert documents[0].metadata == metadata
    assert asyncio.run(retriever.ainvoke("river")) == documents
    answering = AskanceRetriever(engine=engine(ANSWER), k=2, answers=True)
    assert [each.id for each in answering.invoke(QUESTION)] == ["p", "rhine"]


def test_a_retriever_of_an_engine_without_a_collection_fails_clearly():
    made = Engine(make_method("closed_book"), {"answer": ScriptedModel([ANSWER])})
    with pytest.raises(MissingAbility, match="no retriever is given"):
        AskanceRetriever(engine=made).invoke("river")


class Starts(BaseCallbackHandler):
    def __init__(self):
        self.names = []

    def on_chain_start(self, serialized, inputs, *, name=None, **more):
        self.names.append(name)


def test_an_engine_is_a_runnable_with_citations_at_the_end_of_a_chain():
    watch = Starts()
    message = AskanceRunnable(engine(ANSWER)).invoke(QUESTION, config={"callbacks": [watch]})
    assert isinstance(message, AIMessage)
    assert message.content.strip() == ANSWER.strip()
    assert message.response_metadata["short_answer"] == "Uppsala"
    assert message.response_metadata["citations"][0]["passage"]["id"] == "p"
    assert message.response_metadata["decisions"][0]["outcome"] == "search"
    assert message.usage_metadata["total_tokens"] > message.usage_metadata["output_tokens"] > 0
    assert watch.names == ["AskanceRunnable"]
    chain = ChatPromptTemplate([("human", "Where was {name} born?")]) | AskanceRunnable(engine(ANSWER))
    assert (chain | StrOutputParser()).invoke({"name": "Ingmar Bergman"}).strip() == ANSWER.strip()


def test_unsupported_sentences_are_in_the_metadata():
    message = AskanceRunnable(engine(f"{ANSWER} He died in Rome.")).invoke(QUESTION)
    (unsupported,) = message.response_metadata["unsupported"]
    assert message.content[unsupported["start"] : unsupported["end"]] == "He died in Rome."
    assert "'rome'" in unsupported["why"]


def test_a_follow_up_is_rewritten_from_the_messages():
    made = engine(QUESTION, ANSWER)
    messages = [SystemMessage("Be brief."), HumanMessage("Who directed it?"), AIMessage("Ingmar Bergman.")]
    answer = asyncio.run(AskanceRunnable(made).ainvoke([*messages, HumanMessage("Born where?")]))
    assert "the role system is not used" in answer.response_metadata["ignored"][0]
    assert made.retriever.queries == [QUESTION]


@pytest.mark.parametrize("is_streamed", [False, True])
def test_small_talk_in_a_conversation_is_not_searched_for(is_streamed):
    messages = [HumanMessage("Who directed it?"), AIMessage("Ingmar Bergman."), HumanMessage("Thanks!")]

    async def said(made, messages):
        if not is_streamed:
            return (await AskanceRunnable(made).ainvoke(messages)).content
        return "".join([chunk.content async for chunk in AskanceRunnable(made).astream(messages)])

    talking, alone = engine("You are welcome."), engine(ANSWER)
    assert asyncio.run(said(talking, messages)) == "You are welcome."
    asyncio.run(said(alone, messages[2:]))
    assert (talking.retriever.queries, alone.retriever.queries) == ([], ["Thanks!"])


def test_the_answer_is_streamed():
    async def streamed():
        return [chunk async for chunk in AskanceRunnable(engine(ANSWER)).astream(QUESTION)]

    chunks = asyncio.run(streamed())
    assert len(chunks) > 2
    assert "".join(chunk.content for chunk in chunks).strip() == ANSWER.strip()
    assert chunks[-1].response_metadata["short_answer"] == "Uppsala"


def test_messages_become_a_question_with_its_history():
    texts = [("human", "A?"), ("ai", "B."), ("human", "and"), ("human", "C?"), ("ai", "D."), ("human", "E?")]
    read, ignored = read_question([("system", "Obey."), *texts])
    assert read.text == "E?"
    assert [(turn.question, turn.answer) for turn in read.history] == [("A?", "B."), ("and\nC?", "D.")]
    (why,) = ignored
    assert why.startswith("messages[0]: the methods of askance have prompts of their own")


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        (
            [HumanMessage("Who?"), ToolMessage("5", tool_call_id="t")],
            "a message of type 'tool' can't be given",
        ),
        ([HumanMessage("Who?"), AIMessage("He.")], "the last message is not from a human"),
        ([], "the last message is not from a human"),
    ],
)
def test_messages_that_are_no_question_are_refused(messages, reason):
    with pytest.raises(InputError, match=reason):
        read_question(messages)
