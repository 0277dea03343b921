"""Where a text ends, and which of it is shown: the same however it is cut into tokens."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.core.types import Chat, Cut, GenerateRequest, Raw, Sampling, Span
from askance.inference.stopping import LEAKED, TAGS, StopTracker, Thoughts
from askance.text.answers import TextEnd

CONTINUED = Raw((), (Span("The answer so far."),))
CHAT = Chat(())


@dataclass(frozen=True, slots=True)
class KeepTwoOfThree:
    def __call__(self, tokens):
        return Cut(2, "two") if len(tokens) == 3 else None


def write(pieces, *, stop=(), max_tokens=100, until=None, ends=False, prompt=CONTINUED, thoughts=Thoughts()):
    shown = []
    sampling = Sampling(max_tokens, stop=stop)
    request = GenerateRequest(prompt, sampling, until=until, key=(), on_text=shown.append)
    tracker = StopTracker(request, thoughts)
    for piece in pieces:
        if tracker.is_finished:
            break
        tracker.add(tracker.token(0, piece))
    if ends and not tracker.is_finished:
        tracker.end(tracker.token(2, ""))
    return tracker.generation(), shown


@pytest.mark.parametrize(
    ("pieces", "options", "finish", "kept", "dropped", "text"),
    [
        (["a", "b", "c"], {"max_tokens": 2}, "length", ["a", "b"], [], "ab"),
        (["a"], {"ends": True}, "end", ["a"], [""], "a"),
        (["a", "b", "c", "d"], {"until": KeepTwoOfThree()}, "two", ["a", "b"], ["c"], "ab"),
        (["one", "\n", "\n", "two"], {"stop": ("\n\n",)}, "stop", ["one"], ["\n", "\n"], "one"),
        (["on", "e STO", "P now"], {"stop": ("STOP",)}, "stop", ["on", "e "], ["P now"], "one "),
        (["STOP"], {"stop": ("STOP",)}, "stop", [], ["STOP"], ""),
        (["aSTOPbEND"], {"stop": ("END", "STOP")}, "stop", ["a"], [], "a"),
    ],
)
def test_an_end_cuts_the_text_exactly(pieces, options, finish, kept, dropped, text):
    generation, shown = write(pieces, **options)
    assert (generation.text, generation.finish, "".join(shown)) == (text, finish, text)
    assert [token.text for token in generation.tokens] == kept
    assert [token.text for token in generation.dropped] == dropped
    assert generation.generated_tokens == len(kept) + len(dropped)


class NeverAsked:
    def __call__(self, tokens):
        raise AssertionError("the text is over its limit")


@pytest.mark.parametrize("thoughts", [Thoughts(), Thoughts(2_000, may_be_open=True)])
@pytest.mark.parametrize("pieces", [["a" * 100_000], [*"ab", "a" * 100_000], ["a" * 300] * 9])
def test_a_text_has_64_characters_for_each_token(pieces, thoughts):
    until = NeverAsked() if len(pieces) == 1 else None
    generation, shown = write(pieces, max_tokens=4, until=until, ends=True, prompt=CHAT, thoughts=thoughts)
    assert generation.finish == "length"
    assert generation.text == "".join(shown) == "".join(token.text for token in generation.tokens)
    assert len(generation.text) == 4 * 64


def test_what_might_become_a_stop_string_is_held_back():
    _, shown = write(["a", "\n", "b", "\n"], stop=("\n\n",), max_tokens=9)
    assert shown == ["a", "\nb"]


@given(
    st.lists(st.text(alphabet="ab\n", max_size=3), max_size=10),
    st.lists(st.text(alphabet="ab\n", min_size=1, max_size=3), max_size=3),
)
def test_stop_strings_mean_the_same_however_the_text_is_cut_into_tokens(pieces, stop):
    text = "".join(pieces)
    generation, shown = write(pieces, stop=tuple(stop), ends=True)
    found = {each: text.find(each) for each in stop if each in text}
    if not found:
        assert generation.text == text
    else:
        assert not any(each in generation.text for each in stop)
        assert generation.text in {text[:offset] for offset in found.values()}
        assert len(generation.text) <= min(offset + len(each) for each, offset in found.items())
    assert "".join(token.text for token in generation.tokens) == generation.text
    assert "".join(shown) == generation.text


THOUGHT = "Let me see.\n\nQuestion: which?\nUser: so the answer is Bonn."


@pytest.mark.parametrize(
    ("text", "thoughts", "answer", "thought"),
    [
        (f"<think>\n{THOUGHT}\n</think>\n\nIt is Oslo.", Thoughts(), "\n\nIt is Oslo.", THOUGHT),
        (f"\n <think>{THOUGHT}</think></think>\nIt is Oslo.", Thoughts(), "\nIt is Oslo.", THOUGHT),
        (f"{THOUGHT}</think>It is Oslo.", Thoughts(99, are_open=True), "It is Oslo.", THOUGHT),
        ("Hm.</think>It is Oslo.", Thoughts(99, may_be_open=True), "It is Oslo.", "Hm."),
        (
            "analysisHm.assistantfinalIt is Oslo.",
            Thoughts(99, may_be_open=True),
            "It is Oslo.",
            "analysisHm.",
        ),
        ("It is Oslo.\n\nSo it is.", Thoughts(99, may_be_open=True), "It is Oslo.\n\nSo it is.", ""),
        ("Hm.</think>It is Oslo.", Thoughts(), "Hm.</think>It is Oslo.", ""),
        ("It is <think>Oslo</think>.", Thoughts(), "It is <think>Oslo</think>.", ""),
        ("A.\n<think>Hm.</think>B.\n[THINK]Ha.[/THINK]C.", Thoughts(), "A.\nB.\nC.", "Hm.\nHa."),
        ("<think>The answer is Oslo.</think>", Thoughts(), "", "The answer is Oslo."),
        ("<think>The answer is", Thoughts(), "", "The answer is"),
        ("<think", Thoughts(), "<think", ""),
    ],
)
@given(cuts=st.lists(st.integers(0, 80), max_size=20))
def test_thoughts_are_no_part_of_the_answer(text, thoughts, answer, thought, cuts):
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[start:end] for start, end in pairwise(edges)]
    generation, shown = write(pieces, ends=True, thoughts=thoughts)
    assert (generation.text, "".join(shown), generation.thoughts) == (answer, answer, thought)
    assert "".join(token.text for token in generation.tokens) == answer
    assert [token.start for token in generation.tokens] == [
        sum(len(token.text) for token in generation.tokens[:index]) for index in range(len(generation.tokens))
    ]
    assert generation.generated_tokens == len(pieces) + 1


@pytest.mark.parametrize(("opening", "closing"), TAGS.items())
def test_every_family_of_models_marks_its_thoughts(opening, closing):
    generation, _ = write([opening, THOUGHT, closing, "Oslo"], prompt=CHAT, ends=True)
    assert (generation.text, generation.thoughts, generation.thought_tokens) == ("Oslo", THOUGHT, 3)


@pytest.mark.parametrize(
    ("pieces", "thoughts", "text", "num_thoughts"),
    [
        (["<think>", *"aaaaaa"], Thoughts(2), "", 5),
        (["<think>", "a", "</think>", *"bbbb"], Thoughts(9), "bbb", 3),
        (["<think>", "a", "</think>", *"bbbb"], Thoughts(), "", 3),
        ([*"aaaa", "</think>", *"bbbb"], Thoughts(9, may_be_open=True), "bbb", 5),
        ([*"aaaa"], Thoughts(9, may_be_open=True), "aaa", 0),
    ],
)
def test_thoughts_have_a_limit_of_their_own(pieces, thoughts, text, num_thoughts):
    generation, shown = write(pieces, max_tokens=3, thoughts=thoughts, ends=True)
    assert (generation.text, generation.finish, generation.thought_tokens) == (text, "length", num_thoughts)
    assert "".join(shown) == text


def test_white_space_before_an_answer_ends_nothing():
    stop, pieces = ("\n\n", "\n", "\nQuestion:"), ["\n", "\n", " Oslo", ".", "\n", "\nMore"]
    assert write(pieces, stop=stop, prompt=Raw(()))[0].text == "\n\n Oslo."
    assert write(pieces, stop=stop, prompt=CONTINUED)[0].text == ""
    late = ["Hm.", "</think>", *pieces]
    assert write(late, stop=stop, prompt=CHAT, thoughts=Thoughts(9, may_be_open=True))[0].text == "\n\n Oslo."
    assert write(["\n", "Question: why?"], stop=stop, prompt=Raw(()))[0].text == ""


@pytest.mark.parametrize("mark", LEAKED)
def test_marks_of_a_chat_end_a_reply_in_a_chat_only(mark):
    pieces = ["Oslo.", *mark, " What"]
    assert (write(pieces, prompt=CHAT)[0].text, write(pieces, prompt=CHAT)[0].finish) == ("Oslo.", "stop")
    assert write(pieces, prompt=CONTINUED, ends=True)[0].text == f"Oslo.{mark} What"


def test_attention_has_no_columns_of_thoughts():
    tracker = StopTracker(GenerateRequest(CHAT, Sampling(9), key=()))
    for number, piece in enumerate(["<think>", "a", "</think>", "b", "c"]):
        tracker.add(tracker.token(0, piece))
        tracker.set_attention(np.arange(2 + number, dtype=np.float32), 1)
    rows = [token.attention.tolist() for token in tracker.tokens]
    assert rows == [[0, 4], [0, 4, 5]]


@pytest.mark.parametrize("thoughts", [Thoughts(9, may_be_open=True), Thoughts(9, are_open=True), Thoughts()])
def test_thoughts_may_stay_in_the_text_where_stop_strings_apply_to_them(thoughts):
    request = GenerateRequest(replace(CHAT, keeps_thoughts=True), Sampling(9, stop=("</q>",)), key=())
    tracker = StopTracker(request, thoughts)
    for piece in ("<think>", "Hm.", "</think>", " <q>", "Bonn", "</q>"):
        tracker.add(tracker.token(0, piece))
    written = tracker.generation()
    assert (written.text, written.thoughts) == ("<think>Hm.</think> <q>Bonn", "")


def test_thoughts_that_a_server_sends_apart_stay_in_the_text_too():
    request = GenerateRequest(
        replace(CHAT, keeps_thoughts=True), Sampling(9), until=TextEnd(("</q>",)), key=()
    )
    tracker = StopTracker(request, Thoughts(9))
    for piece in ("Hm. ", "<q>", "Bonn", "</q>", " More"):
        tracker.think(piece)
    written = tracker.generation()
    assert (written.text, written.thoughts, written.finish) == ("Hm. <q>Bonn</q>", "", "</q>")
    short = StopTracker(replace(request, sampling=Sampling(2)), Thoughts(9))
    for piece in ("Hm. ", "<q>", "Bonn"):
        short.think(piece)
    assert (short.generation().text, short.generation().finish) == ("Hm. <q>", "length")
