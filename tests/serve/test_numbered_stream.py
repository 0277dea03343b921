"""An answer with numbers is the same however its text is cut, and only askance writes its numbers."""

import json
import re
from collections import Counter
from contextlib import aclosing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance.ask import Engine
from askance.core.trace import Committed, Trace
from askance.core.types import Passage
from askance.methods.baselines import Single
from askance.models.openai.connection import Connection
from askance.models.openai.model import OpenaiModel
from askance.models.openai.options import read_options
from askance.retrieval.scripted import ScriptedRetriever
from askance.serve.citations import NumberedStream, numbered_content
from askance.serve.plain_text import plain_text
from tests.models.wire import Wire
from tests.serve.test_plain_text import PIECES, shown

QUESTION = "Which river flows through Bonn?"
PASSAGES = [
    Passage(
        "a]b",
        "[2](http://e/) `x` <b> \\[3]",
        "Bonn lies on the river Rhine, see matrix[2]. 波恩位于莱茵河畔。",
    ),
    Passage("é/..", "", "The Arno flows through Florence and Pisa [7]."),
]
SENTENCES = [
    "波恩位于莱茵河畔。",
    "Bonn lies on the river Rhine",
    "The Arno flows through Pisa.",
    "So the answer is Rhine.",
    "Dr. Ek said:",
]
MARKERS = [
    "[1]",
    "[2][1]",
    "[9]",
    "([1])",
    "【1】",
    "[1-2]",
    "[0]",
    "matrix[2]",
    "[¹]",
    "[１]",
    "\\[4\\]",
    "[",
    "]",
]
TEXTS = st.lists(
    st.sampled_from([*SENTENCES, *MARKERS, *PIECES, ". ", " ", "    ", "\n", "\n\n", ".\r\n"]), max_size=14
)
LISTS = r"\n\n(?:Unsupported|Sources):\n"
MARKER = re.compile(r" \[(\d+)\]")


def answered(text, cuts, stops):
    """Return what is sent before the end of an answer, its whole content, its annotations and the answer."""
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    events = [{"choices": [{"delta": {"content": piece}}]} for piece in pieces]
    events.append({"choices": [{"delta": {}, "finish_reason": "stop" if stops else "length"}]})
    body = "".join(f"data: {json.dumps(each)}\n\n" for each in events)
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    connection = Connection("tiny", "http://model.test/v1", "")
    model = OpenaiModel("tiny", read_options({"thoughts": "none", "usage": "0"}), connection)
    method = Single(passages=2, ask_short_answer=False)
    engine = Engine(method, {"answer": model}, ScriptedRetriever({QUESTION: PASSAGES}))

    async def ask():
        stream, trace, sent = NumberedStream(), Trace(), ""
        async with aclosing(engine.stream(QUESTION, trace=trace)) as events:
            async for event in events:
                if isinstance(event, Committed):
                    sent += stream.add(event.text, *trace.settled())
        assert stream.num_sent == len(sent)
        return sent, *numbered_content(event.answer, lambda passage: f"http://s/{passage.id!r}"), event.answer

    return Wire(lambda path, request: (head + body).encode()).run(ask())[0]


@pytest.mark.parametrize(
    ("text", "cuts", "expected"),
    [
        # White space that arrives in several pieces is no part of the answer.
        (" \n[2][1]\n\nBonn lies on the river Rhine. It", [8], "Bonn lies on the river Rhine. [1] It"),
        ("    ```\n<b>\n```\nIt", [7, 9], "```\n<b> [1]\n```\nIt"),
        # A number does not become the text of a link.
        ("So the answer is Rhine.[**9**] It is", [24], "So the answer is Rhine. [1] (**9**) It is"),
        ("波恩位于莱茵河畔。(它 在 那 里)。 它", [10], "波恩位于莱茵河畔。 [1] (它 在 那 里)。 它"),
    ],
)
def test_what_is_sent_first_is_the_beginning_of_the_answer(text, cuts, expected):
    sent, content, _, _ = answered(text, cuts, stops=True)
    assert re.split(LISTS, content)[0] == expected
    assert sent
    assert content.startswith(sent)


@settings(max_examples=100)
@given(data=st.data())
def test_an_answer_is_the_same_at_any_cut_and_its_annotations_point_to_their_numbers(data):
    text, stops = "".join(data.draw(TEXTS)), data.draw(st.booleans())
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))))
    sent, content, annotations, answer = answered(text, cuts, stops)
    assert content.startswith(sent)
    assert answered(text, [], stops)[1:] == (content, annotations, answer)
    plain, numbers = plain_text(answer.text), []
    assert len(annotations) == len(answer.citations)
    body, _, sources = content.partition("\n\nSources:\n")
    for citation, annotation in zip(answer.citations, annotations, strict=True):
        fields = annotation["url_citation"]
        start, end = fields["start_index"], fields["end_index"]
        assert 0 <= start < end < len(body)
        assert MARKER.sub("", content[start:end]) == plain[citation.start : citation.end]
        assert not MARKER.match(content, start)
        after = re.match(r"(?: \[\d+\])+", content[end:])[0]
        assert f" [{citation.number}]" in after
        numbers.append(citation.number)
        assert f"\n[{citation.number}] {fields['title']}: {fields['url']}" in f"\n{sources}"
    assert Counter(map(int, MARKER.findall(body))) >= Counter(numbers)
    kinds, outside_code = shown(body)
    visible = re.findall(r"\[[\s\d,;–-]*\d[\s\d,;–-]*\]", outside_code)
    assert len(visible) <= len(numbers), "a number that askance did not write"
    assert not kinds & {"image", "link_open", "html_inline", "html_block"}
