"""What the traces of FLARE say agrees with what it did; the cases are in `tests/scenarios/flare.jsonl`."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from askance.core.types import Passage, Question
from askance.methods.flare import Flare
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.asking import ask

QUESTION = Question("q", "Where does the Rhine flow?")
WORDS = ["The", "So", "it", "is", "Bonn", "Rhine", "flows", "5", "—", "..."]
SENTENCES = st.lists(
    st.lists(
        st.tuples(st.sampled_from(WORDS), st.sampled_from([0.1, 0.5, 0.8, 0.99])), min_size=1, max_size=5
    ),
    max_size=4,
)


def decisions_of(method, sentences):
    """Return the decisions about sentences, of which each word comes with its probability."""
    replies = [
        Reply(f" {' '.join(word for word, _ in sentence)}. So", doubts=dict(sentence))
        for sentence in sentences
    ]
    model, found = ScriptedModel([*replies, *[" So the answer is 5."] * 9]), [Passage("p", "Rhine", "Bonn.")]
    result = asyncio.run(ask(QUESTION, method, {"answer": model}, ScriptedRetriever(found)))
    return [each for each in result.trace.decisions if each.name == "retrieve" and each.signal], result


def test_a_word_that_can_not_trigger_has_a_value_of_1():
    sentence = [("The", 0.3), ("Rhine", 0.9), ("is", 0.2)]
    (decision, *_), _ = decisions_of(Flare(search_first=False), [sentence])
    assert [(word.text, round(word.value, 2)) for word in decision.words] == [
        ("The", 1),
        ("Rhine", 0.9),
        ("is.", 1),
    ]
    assert round(decision.numbers["least probability"], 2) == 0.9
    (decision, *_), _ = decisions_of(Flare(search_first=False, as_published=True), [sentence])
    assert [round(word.value, 2) for word in decision.words] == [0.3, 0.9, 0.2]


@given(SENTENCES, st.booleans(), st.sampled_from([True, False, "auto"]))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_traces_never_contradict_the_decisions(sentences, as_published, search_first):
    method = Flare(as_published=as_published, search_first=search_first, ask_short_answer=False)
    decisions, result = decisions_of(method, sentences)
    for each in decisions:
        assert each.numbers["least probability"] == min((word.value for word in each.words), default=1.0)
        assert [word.is_hit for word in each.words] == [word.value <= each.threshold for word in each.words]
        assert (
            (each.outcome == "search")
            == bool(each.query)
            == (any(word.is_hit for word in each.words) and "but" not in each.why)
        )
    if not as_published:
        queries = [
            event.query.casefold().strip(".") for event in result.trace.events if event.type == "search"
        ]
        assert len({*queries}) == len(queries)
