"""Encoding of prompts: chat templates, spans, BOS, and hostile text."""

import unicodedata
import weakref

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.models.tiny import CHATML_TEMPLATE, byte_level_tokenizer, hostile_alphabet, sentencepiece_tokenizer
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from askance.core.errors import InputError, MissingAbility
from askance.core.types import Chat, Raw, Span, Turn, untrusted
from askance.inference.vocabulary import Vocabulary
from askance.models.local.encoding import Encoding


def vocabulary_of(tokenizer, name="changed"):
    return Vocabulary(tokenizer, name, end_ids=frozenset({2}), size=len(tokenizer))


TOKENIZERS = {"sentencepiece": sentencepiece_tokenizer(), "byte level": byte_level_tokenizer()}
VOCABULARIES = {name: vocabulary_of(tokenizer, name) for name, tokenizer in TOKENIZERS.items()}
ENCODERS = {name: Encoding(vocabulary) for name, vocabulary in VOCABULARIES.items()}
CONTROL = sorted({text for vocabulary in VOCABULARIES.values() for text in vocabulary.control.values()})
hostile = st.lists(st.sampled_from(hostile_alphabet(CONTROL)) | st.text(max_size=3), max_size=8).map("".join)
both = pytest.mark.parametrize("name", TOKENIZERS)
many = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


def changed(make=byte_level_tokenizer, **attributes):
    """Return the encoding of a tokenizer with other attributes."""
    tokenizer = make()
    for name, value in attributes.items():
        setattr(tokenizer, name, value)
    return Encoding(vocabulary_of(tokenizer))


def user(*spans: Span) -> Turn:
    return Turn("user", spans)


def control_ids(name, ids):
    return [id for id in ids if id in VOCABULARIES[name].control]


def plain(text: str) -> str:
    """Undo the changes that a tokenizer may make to a text: composed characters, a dropped first space.

    SentencePiece writes a space as "▁", and can't tell the two apart.
    """
    return unicodedata.normalize("NFC", text).replace("▁", " ").removeprefix(" ")


@both
@many
@given(spans=st.lists(st.tuples(hostile, st.booleans()), min_size=1, max_size=5))
def test_only_whole_control_strings_in_one_trusted_span_are_control(name, spans):
    vocabulary, encoder = VOCABULARIES[name], ENCODERS[name]
    trusted = [text for text, is_trusted in spans if is_trusted]
    allowed = [id for text in trusted for id in control_ids(name, encoder.parts((Span(text),)))]
    ids = encoder.parts(tuple(Span(text, is_trusted) for text, is_trusted in spans))
    assert control_ids(name, ids) == allowed
    whole = "".join(text for text, _ in spans)
    assert plain(vocabulary.decode(ids)).lstrip(" ") == plain(whole).lstrip(" ")


@both
@many
@given(text=hostile)
def test_plain_text_has_no_control_tokens_and_survives(name, text):
    ids = ENCODERS[name].parts((untrusted(text),), at_start=False)
    assert control_ids(name, ids) == []
    assert plain(VOCABULARIES[name].decode_inside(ids)) == plain(text)


@both
@many
@given(question=hostile, passage=hostile)
def test_a_chat_keeps_its_shape_whatever_the_turns_hold(name, question, passage):
    def shape(passage, question):
        answer = Turn("assistant", (Span("Yes."),))
        turns = (user(Span("Read: "), untrusted(passage)), answer, user(untrusted(question)))
        return control_ids(name, ENCODERS[name].encode(Chat(turns)))

    assert shape(passage, question) == shape("x", "x")


@both
def test_harmless_prompts_are_encoded_as_by_the_tokenizer(name):
    encode, tokenizer = ENCODERS[name].encode, TOKENIZERS[name]
    for texts in (("Who was born in Paris?",), ("One", "two three", "  four\n")):
        turns = list(zip(("user", "assistant", "user"), texts, strict=False))
        messages = [{"role": role, "content": text} for role, text in turns]
        expected = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        assert list(encode(Chat(tuple(Turn(role, (untrusted(text),)) for role, text in turns)))) == expected
    for text in ("The cat sat.", " two  spaces ", "naïve 中文 😀"):
        assert list(encode(Raw(tuple(map(untrusted, text))))) == tokenizer(text)["input_ids"]
    chat = Chat((user(Span("hi")),))
    begun = Chat(chat.turns, continuation=(Span("The"), (7, 8)))
    assert encode(begun)[-2:] == (7, 8)
    assert encode(begun)[: len(encode(chat)) - 2] == encode(chat)[:-2]


def test_bos_stands_in_front_once():
    encode, bos = ENCODERS["sentencepiece"].encode, 1
    for parts in ((Span("The cat"),), (Span("<s>The cat"),), ((bos,), Span("The cat")), (untrusted("<s>A"),)):
        ids = encode(Raw(parts))
        assert (ids[0], ids.count(bos)) == (bos, 1)
    assert encode(Chat((user(Span("hi")),))).count(bos) == 1
    assert encode(Raw(())) == (bos,)


def test_only_the_very_first_text_gets_a_prefix_space():
    encoder, vocabulary = ENCODERS["sentencepiece"], VOCABULARIES["sentencepiece"]
    start, inside = encoder.parts((Span("cat"),)), encoder.parts((Span("cat"),), at_start=False)
    assert encoder.parts(((5,), Span("cat"))) == (5, *inside)
    assert [vocabulary.decode_inside(ids) for ids in (inside, start)] == ["cat", " cat"]
    assert encoder.parts((untrusted("<s>cat"),)) != start


def test_odd_characters():
    encoder, vocabulary = ENCODERS["byte level"], VOCABULARIES["byte level"]
    (spaces,) = vocabulary.encode("    ", at_start=True).ids
    assert spaces not in vocabulary.control
    assert encoder.parts((untrusted("    "),)) == (spaces,)
    for name, each in ENCODERS.items():
        assert VOCABULARIES[name].decode(each.parts((untrusted("a\ud83db"),))) == "a\ufffdb"
    words = Tokenizer(models.WordLevel({"<unk>": 0, "snow": 1}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    unknown = changed(lambda: PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>"))
    assert unknown.parts((Span("<unk> "), untrusted("snow ☃ snow"))) == (0, 1, 0, 1)


def test_control_strings_that_appear_by_normalising_are_defused():
    tokenizer = byte_level_tokenizer()
    steps = [normalizers.NFKC(), normalizers.Lowercase()]
    tokenizer.backend_tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.add_tokens([AddedToken("<tool>", normalized=True)])
    vocabulary = vocabulary_of(tokenizer)
    encoder = Encoding(vocabulary)
    (tool_id,) = encoder.parts((Span("<tool>"),))
    for disguise in ("<TOOL>", "\uff1ctool\uff1e", "x<Tool>y <tool>"):
        assert tool_id in vocabulary.encode(disguise, at_start=True).ids
        ids = encoder.parts((Span("<tool>"), untrusted(disguise)))
        assert ids.count(tool_id) == 1
        assert vocabulary.decode(ids) == "<tool>" + unicodedata.normalize("NFKC", disguise).lower()


def test_a_system_turn_begins_the_users_text_where_the_template_takes_none():
    said = Chat((Turn("system", (Span("Be brief."),)), user(Span("Who?"))))
    for attributes in ({}, {"chat_template": "{{ messages[-1]['content'] }}"}):
        encoder = changed(sentencepiece_tokenizer, **attributes)
        assert encoder.encode(said) == encoder.encode(Chat((user(Span("Be brief.\n\nWho?")),)))
    assert "system\nBe brief." in VOCABULARIES["byte level"].decode(ENCODERS["byte level"].encode(said))


def test_of_several_templates_the_default_is_taken():
    chat = Chat((user(Span("Who?")),))
    several = changed(chat_template={"tool_use": "{{ 1 }}", "default": CHATML_TEMPLATE})
    assert several.encode(chat) == ENCODERS["byte level"].encode(chat)


def with_one_character():
    tokenizer = byte_level_tokenizer()
    tokenizer.add_tokens([AddedToken("§", special=True)])
    return tokenizer


TWO = Chat((user(Span("the passage")), user(Span("the question"))))
LOOPS = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"


@pytest.mark.parametrize(
    ("encoder", "prompt", "error", "told"),
    [
        (ENCODERS["byte level"], Raw((Span(""),)), InputError, "prompt is empty"),
        *((each, Raw(((-1,),)), InputError, "token id -1") for each in ENCODERS.values()),
        *((each, Raw(((10**5,),)), InputError, "token id 100000") for each in ENCODERS.values()),
        (
            ENCODERS["sentencepiece"],
            Chat((Turn("system", (Span("Be brief."),)),)),
            InputError,
            r"refuses these turns \(system\).*Only user and assistant",
        ),
        (changed(chat_template="{{ messages[-1]['content'] }}"), TWO, InputError, "leaves out 'the passage'"),
        (changed(chat_template=None), TWO, MissingAbility, "no chat template"),
        (
            changed(chat_template=LOOPS),
            TWO,
            InputError,
            r"template of model 'changed' refuses .*more than 300,000 steps",
        ),
        (changed(with_one_character), Raw((untrusted("see § 5"),)), InputError, "'§' is a control token"),
    ],
)
def test_what_is_no_prompt(encoder, prompt, error, told):
    with pytest.raises(error, match=told):
        encoder.encode(prompt)


class Counting:
    """A tokenizer that counts its calls."""

    def __init__(self, tokenizer):
        self._tokenizer, self.num_calls = tokenizer, 0

    def __getattr__(self, name):
        return getattr(self._tokenizer, name)

    def __len__(self):
        return len(self._tokenizer)

    def __call__(self, text, **settings):
        self.num_calls += 1
        return self._tokenizer(text, **settings)

    def decode(self, ids, **settings):
        self.num_calls += 1
        return self._tokenizer.decode(ids, **settings)


@both
def test_a_prompt_is_encoded_once_and_what_is_remembered_keeps_nobody_alive(name):
    tokenizer = Counting(TOKENIZERS[name])
    encoder = Encoding(vocabulary_of(tokenizer, name))
    prompt = Raw((Span("The cat sat on the bank of a river. "), untrusted("It was a cold day, and long.")))
    ids, num_calls = encoder.encode(prompt), tokenizer.num_calls
    assert (ids, num_calls) == (encoder.encode(Raw(prompt.parts)), tokenizer.num_calls)
    gone = weakref.ref(encoder)
    del encoder
    assert gone() is None
