"""The grammar of reflection tokens: what is written is read again, and anything at all can be read."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance.core.types import Hit, Passage
from askance.methods.selfrag.tokens import (
    ALL_TOKENS,
    CLOSES,
    FULLY,
    GROUPS,
    IRRELEVANT,
    JUDGED,
    KEEP_USING,
    NO_SEARCH,
    OPENS,
    RELEVANT,
    SEARCH,
    UNSUPPORTED,
    UTILITIES,
    Output,
    OutputSegment,
    disarmed,
    disarmed_hit,
    likeliest,
    parse,
    render,
    without_tokens,
)

HALVES = [half for token in ALL_TOKENS for half in (token[:-1], token[1:], token[0], token[-1])]
PIECES = st.sampled_from([*ALL_TOKENS, *HALVES, " ", "\n", "Arno", "é"])
ANYTHING = st.lists(PIECES | st.text(max_size=3), max_size=8).map("".join)
HARMLESS = st.lists(st.sampled_from([*HALVES, " ", "\n", "Arno", "é"]), min_size=1, max_size=4).map("".join)


def holds_token(text):
    return any(token in text for token in ALL_TOKENS)


WORDS = HARMLESS.filter(lambda text: text.strip() and not holds_token(text))
PASSAGES = st.lists(PIECES, min_size=1, max_size=4).map("".join).filter(lambda text: CLOSES not in text)
FOUND = st.builds(
    OutputSegment, WORDS, st.just(SEARCH), PASSAGES, st.just(RELEVANT), st.sampled_from(GROUPS["support"])
) | st.builds(OutputSegment, WORDS, st.just(SEARCH), PASSAGES, st.just(IRRELEVANT))
UNAIDED = st.builds(OutputSegment, WORDS, st.sampled_from([NO_SEARCH, KEEP_USING]))
LEADS = st.lists(st.builds(OutputSegment, WORDS), max_size=1)
OUTPUTS = st.builds(
    lambda lead, segments, utility: Output((*lead, *segments), utility),
    LEADS,
    st.lists(FOUND | UNAIDED, max_size=4),
    st.sampled_from(["", *UTILITIES]),
)


def test_the_fifteen_strings():
    assert ALL_TOKENS == (
        "[Retrieval]", "[No Retrieval]", "[Continue to Use Evidence]", "[Relevant]", "[Irrelevant]",
        "[Fully supported]", "[Partially supported]", "[No support / Contradictory]",
        "[Utility:1]", "[Utility:2]", "[Utility:3]", "[Utility:4]", "[Utility:5]",
        "<paragraph>", "</paragraph>",
    )  # fmt: skip
    assert ALL_TOKENS[:13] == JUDGED


def test_an_output_of_all_kinds_of_segments():
    written = (
        "Well.[Retrieval]<paragraph>Arno\nIt flows through Pisa.</paragraph>[Relevant]Pisa has a river."
        "[Fully supported][Continue to Use Evidence]It is the Arno."
        "[Retrieval]<paragraph>Po\nIt flows through Turin.</paragraph>[Irrelevant]I know no more."
        "[No Retrieval]That is all.[Utility:4]"
    )
    assert parse(written) == Output(
        (
            OutputSegment("Well."),
            OutputSegment("Pisa has a river.", SEARCH, "Arno\nIt flows through Pisa.", RELEVANT, FULLY),
            OutputSegment("It is the Arno.", KEEP_USING),
            OutputSegment("I know no more.", SEARCH, "Po\nIt flows through Turin.", IRRELEVANT),
            OutputSegment("That is all.", NO_SEARCH),
        ),
        "[Utility:4]",
    )


@settings(max_examples=60)
@given(OUTPUTS)
def test_what_is_rendered_is_read_again(output):
    assert parse(render(output)) == output


@settings(max_examples=20)
@given(OUTPUTS, WORDS)
def test_a_plain_segment_behind_a_supported_one_is_its_own(output, text):
    supported = OutputSegment("Pisa.", SEARCH, "Arno", RELEVANT, FULLY)
    whole = Output((*output.segments, supported, OutputSegment(text)), output.utility)
    assert parse(render(whole)) == whole


@given(ANYTHING | st.text())
def test_anything_is_read_and_no_word_is_lost(text):
    output = parse(text)
    assert output.utility in ("", *UTILITIES)
    for segment in output.segments:
        assert segment != OutputSegment()
        assert not holds_token(segment.text)
        assert segment.retrieve in ("", *GROUPS["retrieve"])
        assert segment.relevance in ("", *GROUPS["relevance"])
        assert segment.support in ("", *GROUPS["support"])
    if OPENS not in text:
        bare = re.split("|".join(map(re.escape, ALL_TOKENS)), text)
        read = "".join(segment.text for segment in output.segments)
        assert "".join(read.split()) == "".join("".join(bare).split())


@pytest.mark.parametrize(
    ("text", "segments", "utility"),
    [
        ("", (), ""),
        ("[Utility:2]", (), "[Utility:2]"),
        ("One.[Utility:2]Two.[Utility:5]", (OutputSegment("One."), OutputSegment("Two.")), "[Utility:2]"),
        (
            "[Relevant]One.[Irrelevant]Two.",
            (OutputSegment("One.", relevance=RELEVANT), OutputSegment("Two.", relevance=IRRELEVANT)),
            "",
        ),
        (
            "[No support / Contradictory]One.",
            (OutputSegment(support=UNSUPPORTED), OutputSegment("One.")),
            "",
        ),
        ("[Retrieval]<paragraph>Arno", (OutputSegment(retrieve=SEARCH, passage="Arno"),), ""),
        (
            "<paragraph>a[Relevant]<paragraph>b</paragraph></paragraph>One.",
            (OutputSegment("One.", passage="a[Relevant]<paragraph>b"),),
            "",
        ),
        (
            "<paragraph>a</paragraph><paragraph>b</paragraph>",
            (OutputSegment(passage="a"), OutputSegment(passage="b")),
            "",
        ),
        ("One.[Utility:1][Fully supported]", (OutputSegment("One.", support=FULLY),), "[Utility:1]"),
    ],
)
def test_orders_that_the_grammar_does_not_know(text, segments, utility):
    assert parse(text) == Output(segments, utility)


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("[Relevant]The Arno.[Fully supported][Utility:5]", "The Arno."),
        ("[Continue to Use Evidence]The\nArno.", "The Arno."),
        (": Arno", "Arno"),
        ("# # Arno", "# Arno"),
        ("[Retrieval]<paragraph>Po\nTurin.</paragraph>The Arno.", "The Arno."),
        ("The Arno.<paragraph>Po", "The Arno."),
        ("The</paragraph>Arno.", "The Arno."),
        ("[Rele[Relevant]vant]", "[Rele vant]"),
        ("[No[Relevant]Retrieval] Arno", "Arno"),
        ("[No\nRetrieval] Arno", "Arno"),
        ("", ""),
    ],
)
def test_text_without_tokens(text, bare):
    assert without_tokens(text) == bare


@given(ANYTHING)
def test_no_token_is_left(text):
    bare = without_tokens(text)
    assert not holds_token(bare)
    assert bare == " ".join(bare.split())


@given(ANYTHING)
def test_a_disarmed_text_holds_no_token_and_reads_the_same(text):
    broken, count = disarmed(text)
    assert not holds_token(broken)
    assert (count > 0) == holds_token(text)
    assert len(broken) == len(text) + count
    assert disarmed(broken) == (broken, 0)
    assert "\u200b" in text or broken.replace("\u200b", "") == text


def test_a_disarmed_hit_counts_title_and_text():
    hit = Hit(Passage("a", "[Relevant]", "One <paragraph> and [Utility:5]."), 0.5, 2)
    broken, count = disarmed_hit(hit)
    assert count == 3
    assert broken.passage.title == "[\u200bRelevant]"
    assert broken.passage.text == "One <\u200bparagraph> and [\u200bUtility:5]."
    assert (broken.passage.id, broken.score, broken.rank) == ("a", 0.5, 2)


def test_the_likeliest():
    assert likeliest({SEARCH: 0.2, NO_SEARCH: 0.5, KEEP_USING: 0.3}) == NO_SEARCH
    assert likeliest({SEARCH: 0.0, NO_SEARCH: 0.0}) == ""
    assert likeliest({}) == ""
