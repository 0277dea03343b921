"""Self-RAG on networks with reflection tokens: random ones of two families, and the bundled ones."""

import asyncio
import itertools

import pytest

pytest.importorskip("torch")


from askance.configuration.methods import method_class
from askance.core.types import Passage, Question, Span
from askance.methods.selfrag.method import Selfrag
from askance.methods.selfrag.tokens import (
    ALL_TOKENS,
    CONTINUE,
    GROUPS,
    RELEVANT,
    ReflectionVocabulary,
    has_reflection_tokens,
)
from askance.models.hf import load_hf
from askance.models.scripted import ScriptedModel
from askance.retrieval.bm25 import open_index
from askance.retrieval.scripted import ScriptedRetriever
from tests.asking import ask
from tests.choices import watched_choices
from tests.laboratory import usable
from tests.methods.reflecting import tried
from tests.models.tiny import (
    add_reflection_tokens,
    byte_level_tokenizer,
    save_slow_checkpoint,
    sentencepiece_tokenizer,
    tiny_module,
)
from tests.tolerances import near, tolerance

FAMILIES = {"llama": (sentencepiece_tokenizer, True), "qwen2": (byte_level_tokenizer, False)}
PASSAGES = [
    Passage("a", "River", "The boats went down the blue river."),
    Passage("b", "City", "The capital of Île-de-France is 巴黎 🙂."),
]
QUESTIONS = [
    Question(f"q{number}", f"Who sat on the {thing}?") for number, thing in enumerate(("river", "ball"))
]


def saved(folder, tokenizer, module):
    module.config.eos_token_id = module.generation_config.eos_token_id = tokenizer.eos_token_id
    module.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


RELEASED = {
    "released": {"legacy": True},
    "without BOS, with an end token": {"legacy": True, "add_bos_token": False, "add_eos_token": True},
    "no space behind tokens": {"legacy": False},
}
"""Tokenizers that are a SentencePiece model with byte fallback, and what their configurations say."""


@pytest.fixture(scope="module", params=[*FAMILIES, *RELEASED])
def random_model(request, tmp_path_factory):
    """Return a random model with the tokens, special or ordinary added ones by family."""
    if request.param in RELEASED:
        folder = tmp_path_factory.mktemp("released")
        return load_hf(str(save_slow_checkpoint(folder, **RELEASED[request.param])))
    make_tokenizer, special = FAMILIES[request.param]
    tokenizer = make_tokenizer()
    module = tiny_module(request.param, vocabulary=len(tokenizer))
    add_reflection_tokens(tokenizer, module, special=special)
    return load_hf(str(saved(tmp_path_factory.mktemp(request.param), tokenizer, module)))


def test_ids_are_found_by_their_strings(random_model):
    assert has_reflection_tokens(random_model)
    ids = ReflectionVocabulary.of(random_model).ids
    assert tuple(ids) == ALL_TOKENS
    assert random_model.pieces(tuple(ids.values())) == ALL_TOKENS
    assert min(ids.values()) > 250, "behind all others"
    text = "One[Relevant]two<paragraph>"
    assert ids[RELEVANT] in random_model.tokenize([Span(text)])
    assert not set(ids.values()) & set(random_model.tokenize(text))


def test_a_model_without_the_tokens_has_none(llama):
    assert not has_reflection_tokens(llama)


@pytest.mark.parametrize("form", ["short", "long"])
def test_questions_side_by_side_are_answered_as_each_alone(form, random_model):
    method = Selfrag(form=form, mode="always", max_tokens=8, max_segments=2, threshold=None)
    retriever, models = ScriptedRetriever(PASSAGES), {"answer": random_model}

    async def together():
        return await asyncio.gather(*(ask(each, method, models, retriever) for each in QUESTIONS))

    with watched_choices() as choices:
        alone = [asyncio.run(ask(each, method, models, retriever)) for each in QUESTIONS]
    assert choices.are_clear("two layers"), "or else their tokens can't be compared"
    for one, other in zip(asyncio.run(together()), alone, strict=True):
        assert one.answer == other.answer
        assert tried(one).keys() == tried(other).keys()
        for node, event in tried(one).items():
            assert event.text == tried(other)[node].text
            assert event.numbers == near(tried(other)[node].numbers, "two layers", "float32")


@pytest.mark.parametrize("form", ["short", "long"])
def test_a_random_model_gets_through(form, random_model):
    """A random model writes anything, including tokens in any order."""
    variants = map(method_class, usable("selfrag", "selfrag_paper", "selfrag_authors"))
    for mode, cls in itertools.product(("adaptive", "never", "always"), variants):
        method = cls(form=form, mode=mode, max_tokens=12, max_segments=2, passages=2)
        result = asyncio.run(ask(QUESTIONS[0], method, {"answer": random_model}, ScriptedRetriever(PASSAGES)))
        assert result.trace.committed == result.answer.text
        left = set() if issubclass(cls, Selfrag) else {CONTINUE}
        assert not any(token in result.answer.text for token in {*ALL_TOKENS} - left)
        for event in tried(result).values():
            assert 0 <= event.numbers["sequence"] <= 1
            for name, probs in event.distributions.items():
                assert tuple(probs) == GROUPS[name]
                assert 0 <= sum(probs.values()) <= 1 + tolerance("float32", "formula")


PISA = [
    Passage("p", "Po", "The Po is a river that flows through Turin."),
    Passage("a", "Arno", "The Arno is a river of Tuscany. It flows through Pisa and Florence."),
]
FLOWS = "The Arno is a river of Tuscany. It flows through Pisa and Florence."


@pytest.mark.parametrize(
    ("form", "text", "nodes"),
    [
        ("short", FLOWS, ["0.1 retrieve p", "0.2 retrieve a"]),
        (
            "long",
            f"{FLOWS} The Arno is a river of Tuscany.",
            ["0.1 retrieve p", "0.2 retrieve a", "0.2.1 retrieve p", "0.2.2 retrieve a, rejected"],
        ),
    ],
)
def test_decisions_of_the_bundled_model_that_learned_the_tokens(form, text, nodes, load_once):
    """It searches, finds the passage about Pisa relevant and the other one not, and repeats nothing."""
    question, method = (
        Question("q", "Which river flows through Pisa?"),
        Selfrag(form=form, max_tokens=32, max_segments=2),
    )
    result = asyncio.run(ask(question, method, {"answer": load_once("selfrag")}, ScriptedRetriever(PISA)))
    assert (result.answer.text, [each.passage.id for each in result.answer.citations]) == (text, ["a", "a"])
    assert result.trace.decisions[0].numbers["share"] > 0.95
    found = tried(result)
    assert nodes == [
        f"{name} {event.action} {event.passage.passage.id}{', rejected' * bool(event.rejected)}"
        for name, event in found.items()
    ]
    assert found["0.1"].numbers["relevance"] < 0.1 < 0.4 < found["0.2"].numbers["relevance"]
    assert found["0.2"].numbers["support"] > 0.9
    assert not any(token in event.text for token in ALL_TOKENS for event in found.values())


def test_it_judges_what_another_model_wrote(load_once):
    writer = ScriptedModel(lambda prompt, key: f" {FLOWS}")
    models, method = {"answer": writer, "critic": load_once("selfrag")}, Selfrag(ask_short_answer=False)
    question = Question("q", "Which river flows through Pisa?")
    result = asyncio.run(ask(question, method, models, ScriptedRetriever(PISA)))
    assert [each.numbers["relevance"] > 0.4 for each in tried(result).values()] == [False, True]
    assert {each.passage.id for each in result.answer.citations} == {"a"}


def test_the_bundled_model_is_asked_in_words(bundled, sample_index):
    """This tests the long form; the tests of all methods cover the short one."""
    question = Question("q", "Who directed Fanny and Alexander?", demos=())
    method = Selfrag(form="long", passages=1, max_tokens=20, max_segments=1, ask_short_answer=False)
    result = asyncio.run(ask(question, method, {"answer": bundled}, open_index(sample_index)))
    (event,) = (each for each in tried(result).values() if each.action != "lead")
    assert result.answer.text == event.text != ""
    assert 0 < result.trace.decisions[0].numbers["share"] < 1
    for probs in event.distributions.values():
        assert sum(probs.values()) == near(1)
