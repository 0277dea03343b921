"""Self-RAG on networks with reflection tokens: random ones of two families, and a trained one."""

import asyncio
import itertools
import re

import pytest

pytest.importorskip("torch")


from askance.ask import ask
from askance.configuration.build import load_model
from askance.configuration.methods import method_class
from askance.core.types import Passage, Question, Span
from askance.methods.selfrag.method import Selfrag
from askance.methods.selfrag.tokens import (
    ALL_TOKENS,
    CONTINUE,
    GROUPS,
    IRRELEVANT,
    PARAGRAPH_END,
    PARAGRAPH_START,
    RELEVANT,
    RETRIEVAL,
    UTILITIES,
    ReflectionVocabulary,
    has_reflection_tokens,
)
from askance.models.hf import load_hf
from askance.models.scripted import ScriptedModel
from askance.retrieval.bm25 import open_index
from askance.retrieval.scripted import ScriptedRetriever
from tests.choices import watched_choices
from tests.laboratory import usable
from tests.methods.micro_language import learnt_model, passage
from tests.methods.reflecting import cited, tried
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


@pytest.fixture(scope="module")
def speaker_folder(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("speaker"), *learnt_model())


@pytest.fixture(scope="module")
def speaker(speaker_folder):
    """Return a tiny Llama that speaks the micro-language."""
    return load_model(f"hf:{speaker_folder}")


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
    variants = map(method_class, usable("selfrag", "selfrag_authors"))
    for mode, cls in itertools.product(("adaptive", "never", "always"), variants):
        method = cls(form=form, mode=mode, max_tokens=12, max_segments=2, passages=2)
        result = asyncio.run(ask(QUESTIONS[0], method, {"answer": random_model}, ScriptedRetriever(PASSAGES)))
        assert result.trace.committed == result.answer.text
        left = {CONTINUE} if cls is not Selfrag else set()
        assert not any(token in result.answer.text for token in {*ALL_TOKENS} - left)
        for event in tried(result).values():
            assert 0 <= event.numbers["sequence"] <= 1
            for name, probs in event.distributions.items():
                assert tuple(probs) == GROUPS[name]
                assert 0 <= sum(probs.values()) <= 1 + tolerance("float32", "formula")


def asked(model, text, passages=(), **parameters):
    """Return the result of a question in the micro-language, and its queries; passages are (thing, colour)
    pairs.
    """
    if isinstance(passages, dict):
        found = {query: [passage(*each) for each in pairs] for query, pairs in passages.items()}
    else:
        found = [passage(*each) for each in passages]
    models = model if isinstance(model, dict) else {"answer": model}
    retriever = ScriptedRetriever(found)
    result = asyncio.run(ask(Question("q", text), Selfrag(**parameters), models, retriever))
    return result, retriever.queries


def test_the_short_form_on_tokens_that_were_learnt(speaker):
    passages = [("dog", "red"), ("cat", "blue"), ("boat", "green")]
    result, queries = asked(speaker, "What is the cat like?", passages)
    assert queries == ["What is the cat like?"]
    assert result.trace.decisions[0].numbers["share"] > 0.95
    assert result.answer.text == result.answer.short == "The cat is blue now."
    assert cited(result.answer) == [(1, "cat blue", "The cat is blue now.")]
    strange, right, _ = tried(result).values()
    assert strange.text == "No one knows."
    assert strange.numbers["relevance"] < 0.1
    assert strange.numbers["utility"] < -0.9
    assert right.numbers["relevance"] > 0.9
    assert right.numbers["support"] > 0.9
    assert right.numbers["utility"] > 0.9
    assert right.numbers["score"] > 0.9 * 3.5


@pytest.mark.parametrize("form", ["short", "long"])
@pytest.mark.parametrize("threshold", [0.2, None])
def test_a_search_that_the_model_does_not_ask_for_is_not_made(form, threshold, speaker):
    result, queries = asked(speaker, "Count to three.", [("cat", "red")], form=form, threshold=threshold)
    assert queries == []
    assert result.trace.decisions[0].numbers["share"] < 0.05
    assert (result.answer.text, result.answer.citations) == ("One two three.", ())


@pytest.mark.parametrize("form", ["short", "long"])
def test_hard_decisions(form, speaker):
    passages = [("boat", "red"), ("dog", "green")]
    result, queries = asked(speaker, "What is the dog like?", passages, form=form, threshold=None)
    assert len(queries) == 1
    assert result.answer.text == "The dog is green now."


def test_the_long_form_finds_a_passage_for_each_segment(speaker):
    asks = "What are the cat and the boat like?"
    passages = {
        asks: [("dog", "red"), ("cat", "blue")],
        f"{asks} The cat is blue now.": [("dog", "green"), ("boat", "red")],
        f"{asks} No one knows.": [("dog", "green")],
    }
    result, queries = asked(speaker, asks, passages, form="long")
    assert queries[:2] == list(passages)[:2]
    assert result.answer.text == "The cat is blue now. The boat is red now."
    assert [each[:2] for each in cited(result.answer)] == [(1, "cat blue"), (2, "boat red")]
    first, last = tried(result)["0.2"], tried(result)["0.2.2"]
    assert first.distributions["retrieve"][RETRIEVAL] > 0.9
    assert last.distributions["utility"][UTILITIES[4]] > 0.9
    assert tried(result)["0.2.1"].numbers["relevance"] < 0.1


def test_the_long_form_goes_on_with_the_passage_in_use(speaker):
    result, queries = asked(speaker, "Tell of the boat now.", [("boat", "green")], form="long")
    assert queries == ["Tell of the boat now."]
    assert [each.action for each in tried(result).values()] == ["retrieve", "continue"]
    assert tried(result)["0.1"].distributions["retrieve"][CONTINUE] > 0.9
    assert result.answer.text == "The boat is green now. It is all green now."
    assert [each.passage.id for each in result.answer.citations] == ["boat green"] * 2


def test_a_segment_cut_by_length_asks_what_would_follow(speaker):
    """If only the sentence and its judgement fit, the token after them is read separately."""
    asks = "What are the cat and the boat like?"
    room = len(speaker.tokenize([Span("[Relevant]The cat is blue now.[Fully supported]")]))
    passages = {asks: [("cat", "blue")], f"{asks} The cat is blue now.": [("boat", "red")]}
    result, _ = asked(speaker, asks, passages, form="long", max_tokens=room)
    assert result.answer.text == "The cat is blue now. The boat is red now."
    assert tried(result)["0.1"].distributions["retrieve"][RETRIEVAL] > 0.9
    total = result.trace.decisions[-1].numbers["0.1.1"]
    assert 0.95 < total / ((3 + 3) / 2 + 0.5) < 1.05, "its grade was read, too"


def test_it_judges_what_another_model_wrote(speaker):
    writer = ScriptedModel(lambda prompt, key: " The cat is blue now.")
    models = {"answer": writer, "critic": speaker}
    passages = [("dog", "red"), ("cat", "blue")]
    result, queries = asked(models, "What is the cat like?", passages, ask_short_answer=False)
    assert len(queries) == 1
    assert [each.numbers["relevance"] > 0.9 for each in tried(result).values()] == [False, True]
    assert cited(result.answer) == [(1, "cat blue", "The cat is blue now.")]


def test_its_own_text_is_well_formed(speaker):
    """This covers all of an output from the bare prompt up to the passage, and after it."""
    result, _ = asked(speaker, "What is the cat like?", [("cat", "red")])
    generated = [event for event in result.trace.events if event.type == "generate"]
    supports = "|".join(map(re.escape, GROUPS["support"]))
    well_formed = rf"\[Relevant\]The cat is red now\.({supports})\[Utility:5\]"
    assert re.fullmatch(well_formed, generated[-1].text)
    found = f"{RETRIEVAL}{PARAGRAPH_START}About the cat today\nThe cat is red now.{PARAGRAPH_END}"
    assert generated[-1].prompt.endswith(found)
    assert IRRELEVANT not in generated[-1].text


def test_side_by_side_with_others_it_says_the_same(speaker):
    method = Selfrag(form="long")
    texts = [f"What is the {thing} like?" for thing in ("cat", "dog", "boat")] + ["Count to three."]
    questions = [Question(f"q{number}", text) for number, text in enumerate(texts)]
    retriever = ScriptedRetriever([passage(thing, "red") for thing in ("cat", "dog", "boat")])

    async def together():
        return await asyncio.gather(
            *(ask(each, method, {"answer": speaker}, retriever) for each in questions)
        )

    told = [result.answer.text for result in asyncio.run(together())]
    assert told == [*(f"The {thing} is red now." for thing in ("cat", "dog", "boat")), "One two three."]


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
