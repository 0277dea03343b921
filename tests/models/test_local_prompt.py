"""Encoding of prompts: chat templates, spans, BOS, and hostile text."""

import unicodedata
import weakref

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.models.tiny import byte_level_tokenizer, hostile_alphabet, sentencepiece_tokenizer

from askance.core.errors import InputError, MissingAbility
from askance.core.types import Chat, Raw, Span, Turn, untrusted
from askance.inference.vocabulary import Vocabulary
from askance.models.local.encoding import Encoding

TOKENIZERS = {"sentencepiece": sentencepiece_tokenizer(), "byte level": byte_level_tokenizer()}
VOCABULARIES = {
    name: Vocabulary(tokenizer, name, end_ids=frozenset({2}), size=len(tokenizer))
    for name, tokenizer in TOKENIZERS.items()
}
ENCODERS = {name: Encoding(vocabulary) for name, vocabulary in VOCABULARIES.items()}
CONTROL = sorted({text for vocabulary in VOCABULARIES.values() for text in vocabulary.control.values()})
hostile = st.lists(st.sampled_from(hostile_alphabet(CONTROL)) | st.text(max_size=3), max_size=8).map("".join)
both = pytest.mark.parametrize("name", TOKENIZERS)
many = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))


def encoding_of(tokenizer):
    return Encoding(Vocabulary(tokenizer, "changed", end_ids=frozenset({2}), size=len(tokenizer)))


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
    turns = (
        user(Span("Read: "), untrusted(passage)),
        Turn("assistant", (Span("Yes."),)),
        user(untrusted(question)),
    )
    harmless = (user(Span("Read: x")), Turn("assistant", (Span("Yes."),)), user(Span("x")))
    encode = ENCODERS[name].encode
    assert control_ids(name, encode(Chat(turns))) == control_ids(name, encode(Chat(harmless)))


@both
@pytest.mark.parametrize("turns", [("Who was born in Paris?",), ("One", "two three", "  four\n")])
def test_a_harmless_chat_equals_the_tokenizers_own_template(name, turns):
    roles = ("user", "assistant", "user")[: len(turns)]
    messages = [{"role": role, "content": text} for role, text in zip(roles, turns, strict=True)]
    expected = TOKENIZERS[name].apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    chat = Chat(tuple(Turn(role, (untrusted(text),)) for role, text in zip(roles, turns, strict=True)))
    assert list(ENCODERS[name].encode(chat)) == expected


@both
def test_harmless_raw_text_is_tokenised_as_ever(name):
    for text in ("The cat sat.", " two  spaces ", "naïve 中文 😀"):
        pieces = tuple(untrusted(character) for character in text)
        assert list(ENCODERS[name].encode(Raw(pieces))) == TOKENIZERS[name](text)["input_ids"]


def test_bos_stands_in_front_once():
    encoder, bos = ENCODERS["sentencepiece"], 1
    for parts in ((Span("The cat"),), (Span("<s>The cat"),), ((bos,), Span("The cat"))):
        assert encoder.encode(Raw(parts)).count(bos) == 1
        assert encoder.encode(Raw(parts))[0] == bos
    assert encoder.encode(Chat((user(Span("hi")),))).count(bos) == 1
    assert encoder.encode(Raw((untrusted("<s>The cat"),))).count(bos) == 1
    assert encoder.encode(Raw(())) == (bos,)


def test_only_the_very_first_text_gets_a_prefix_space():
    encoder, vocabulary = ENCODERS["sentencepiece"], VOCABULARIES["sentencepiece"]
    start, inside = encoder.parts((Span("cat"),)), encoder.parts((Span("cat"),), at_start=False)
    assert start != inside
    assert encoder.parts(((5,), Span("cat"))) == (5, *inside)
    assert vocabulary.decode_inside(inside) == "cat"
    assert vocabulary.decode_inside(start) == " cat"
    assert encoder.parts((untrusted("<s>cat"),)) != start


def test_white_space_that_is_an_added_token_stays_plain():
    encoder, vocabulary = ENCODERS["byte level"], VOCABULARIES["byte level"]
    (id,) = vocabulary.encode("    ", at_start=True).ids
    assert id not in vocabulary.control
    assert encoder.parts((untrusted("    "),)) == (id,)


@both
def test_an_empty_chat_prompt_and_continuation(name):
    encoder = ENCODERS[name]
    chat = Chat((user(Span("hi")),))
    begun = Chat(chat.turns, continuation=(Span("The"), (7, 8)))
    assert encoder.encode(begun)[-2:] == (7, 8)
    assert encoder.encode(begun)[: len(encoder.encode(chat)) - 2] == encoder.encode(chat)[:-2]


def test_an_empty_prompt_without_bos_is_refused():
    with pytest.raises(InputError, match="prompt is empty"):
        ENCODERS["byte level"].encode(Raw((Span(""),)))


@both
@pytest.mark.parametrize("id", [-1, 100_000])
def test_ids_outside_the_vocabulary_are_refused(name, id):
    with pytest.raises(InputError, match=f"token id {id}"):
        ENCODERS[name].encode(Raw(((id,),)))


def test_turns_the_template_refuses():
    with pytest.raises(InputError, match=r"refuses these turns \(system\).*Only user and assistant"):
        ENCODERS["sentencepiece"].encode(Chat((Turn("system", (Span("Be brief."),)),)))


@pytest.mark.parametrize("template", [None, "{{ messages[-1]['content'] }}"])
def test_where_the_template_takes_no_system_turn_its_text_begins_the_users(template):
    tokenizer = sentencepiece_tokenizer()
    tokenizer.chat_template = template or tokenizer.chat_template
    encoder = encoding_of(tokenizer)
    said = Chat((Turn("system", (Span("Be brief."),)), user(Span("Who?"))))
    assert encoder.encode(said) == encoder.encode(Chat((user(Span("Be brief.\n\nWho?")),)))


def test_where_the_template_takes_a_system_turn_it_is_one():
    said = Chat((Turn("system", (Span("Be brief."),)), user(Span("Who?"))))
    text = VOCABULARIES["byte level"].decode(ENCODERS["byte level"].encode(said))
    assert "system\nBe brief." in text


def test_turns_the_template_leaves_out():
    tokenizer = byte_level_tokenizer()
    tokenizer.chat_template = "{{ messages[-1]['content'] }}"
    encoder = encoding_of(tokenizer)
    with pytest.raises(InputError, match="leaves out 'the passage'"):
        encoder.encode(Chat((user(Span("the passage")), user(Span("the question")))))


def test_a_model_without_a_chat_template():
    tokenizer = byte_level_tokenizer()
    tokenizer.chat_template = None
    encoder = encoding_of(tokenizer)
    assert not encoder.takes_chat
    with pytest.raises(MissingAbility, match="no chat template"):
        encoder.encode(Chat((user(Span("hi")),)))


@both
def test_lone_surrogates_become_replacement_characters(name):
    ids = ENCODERS[name].parts((untrusted("a\ud83db"),))
    assert VOCABULARIES[name].decode(ids) == "a\ufffdb"


def test_control_strings_that_appear_by_normalising_are_defused():
    from tokenizers import AddedToken, normalizers

    tokenizer = byte_level_tokenizer()
    tokenizer.backend_tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Lowercase()]
    )
    tokenizer.add_tokens([AddedToken("<tool>", normalized=True)])
    vocabulary = Vocabulary(tokenizer, "normalising", end_ids=frozenset(), size=len(tokenizer))
    encoder = Encoding(vocabulary)
    (tool_id,) = encoder.parts((Span("<tool>"),))
    for disguise in ("<TOOL>", "\uff1ctool\uff1e", "x<Tool>y <tool>"):
        assert tool_id in vocabulary.encode(disguise, at_start=True).ids
        ids = encoder.parts((Span("<tool>"), untrusted(disguise)))
        assert ids.count(tool_id) == 1
        assert vocabulary.decode(ids) == "<tool>" + unicodedata.normalize("NFKC", disguise).lower()


def test_characters_a_tokenizer_does_not_know_are_no_control_tokens():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"<unk>": 0, "snow": 1}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>")
    vocabulary = Vocabulary(tokenizer, "words", end_ids=frozenset(), size=2)
    encoder = Encoding(vocabulary)
    assert encoder.parts((Span("<unk> "), untrusted("snow ☃ snow"))) == (0, 1, 0, 1)


def test_a_control_token_of_one_character_is_refused_in_untrusted_text():
    from tokenizers import AddedToken

    tokenizer = byte_level_tokenizer()
    tokenizer.add_tokens([AddedToken("§", special=True)])
    vocabulary = Vocabulary(tokenizer, "odd", end_ids=frozenset(), size=len(tokenizer))
    encoder = Encoding(vocabulary)
    assert len(encoder.parts((Span("§"),))) == 1
    with pytest.raises(InputError, match="'§' is a control token"):
        encoder.parts((untrusted("see § 5"),))


class Counting:
    """A tokenizer that records its calls."""

    def __init__(self, tokenizer):
        self._tokenizer, self.texts = tokenizer, []

    def __getattr__(self, name):
        return getattr(self._tokenizer, name)

    def __call__(self, text, **settings):
        self.texts.append(text)
        return self._tokenizer(text, **settings)

    def decode(self, ids, **settings):
        self.texts.append(tuple(ids))
        return self._tokenizer.decode(ids, **settings)


@both
def test_a_prompt_is_tokenised_once(name):
    tokenizer = Counting(TOKENIZERS[name])
    vocabulary = Vocabulary(tokenizer, name, end_ids=frozenset({2}), size=len(tokenizer._tokenizer))
    encoder = Encoding(vocabulary)
    prompt = Raw((Span("The cat sat on the bank of a river. "), untrusted("It was a cold day, and long.")))
    tokenizer.texts.clear()
    ids, num_read = encoder.encode(prompt), len(tokenizer.texts)
    assert (ids, num_read) == (encoder.encode(Raw(prompt.parts)), len(tokenizer.texts))


def test_what_is_remembered_keeps_nobody_alive():
    encoder = Encoding(VOCABULARIES["byte level"])
    assert encoder.encode(Raw((Span("The cat"),)))
    gone = weakref.ref(encoder)
    del encoder
    assert gone() is None
