"""The confidence of answers, and when an answer is abstained from."""

import pytest

from askance.ask import Engine
from askance.confidence import (
    MOST_PASSAGES,
    Abstaining,
    AnswerEvidence,
    ConfidenceModel,
    default_calibration,
    passages_read,
    supported_part,
)
from askance.configuration.methods import make_method
from askance.configuration.settings import EngineConfig
from askance.conversation import Conversation
from askance.core.answers import Answer, Citation
from askance.core.errors import InputError, MissingAbility, MissingExtra, ModelFailure
from askance.core.trace import Committed, Decided, Searched, Trace, Uncited
from askance.core.types import Hit, Passage
from askance.methods.airrag.state import Node, PathState
from askance.methods.airrag.verifiers import agreement_with
from askance.methods.baselines import ClosedBook, Single
from askance.methods.selfrag.segments import Path, Segment
from askance.methods.selfrag.tokens import FULLY_SUPPORTED, IRRELEVANT, NO_SUPPORT, RELEVANT
from askance.models.scripted import Reply, ScriptedEncoder, ScriptedModel, ScriptedPairScorer
from askance.retrieval.scripted import ScriptedRetriever
from tests.laboratory import EVERY_METHOD
from tests.tolerances import near

PISA = Passage("1", "Pisa", "The leaning tower stands in Pisa.")
BONN = Passage("2", "Bonn", "Beethoven was born in Bonn.")
TEXT = " The leaning tower stands in Pisa. So the answer is Pisa."
CALIBRATION = ConfidenceModel(0.0, {"relevance": 1.0, "agreement": 2.0}, {"agreement": 0.5}, 0.3)


def abstaining(logit, below=0.3):
    return Abstaining(ScriptedPairScorer(lambda *pair: float(logit)), below, CALIBRATION)


SEARCHES = {
    ("lines", 0): " Follow up: Where does the leaning tower stand?",
    ("turn", 0): "<search>leaning tower</search>",
}
"""The replies that make methods search which need not."""


def engine(method=None, logit=5.0, passages=(PISA, BONN), **fields):
    model = ScriptedModel(
        lambda prompt, key: Reply(SEARCHES.get(key[2:], TEXT), sureness=0.3),
        scores=lambda prompt, option: -1.0,
    )
    fields = {"abstaining": abstaining(logit), "encoder": ScriptedEncoder()} | fields
    return Engine(method or Single(), {"answer": model}, ScriptedRetriever(passages), **fields)


SPECIAL = ("dragin_paper", "selfrag_authors")
"""Methods that need other signals than those of the scripted model here."""


@pytest.mark.parametrize(
    "name", [name for name in EVERY_METHOD if not name.startswith("closed_book") and name not in SPECIAL]
)
def test_every_method_that_searches_abstains_where_no_passage_supports_its_answer(name):
    method = make_method(name, {"drafts": 0} if name == "draft_agreement" else {})  # else it need not search
    supported = engine(method, 5.0).ask("Where does the leaning tower stand?")
    unsupported = engine(method, -5.0).ask("Where does the leaning tower stand?")
    assert supported.answer.confidence > 0.9
    assert not supported.answer.abstained
    assert unsupported.answer.confidence < 0.1
    assert "below 0.30" in unsupported.answer.abstained
    assert unsupported.answer.text == supported.answer.text, "abstaining changes no text"
    assert unsupported.answer.citations == (), "nothing supports the text"


UNSUPPORTED = "no passage supports it: best support"


@pytest.mark.parametrize(
    ("options", "confidence", "abstained"),
    [
        ({"logit": -3.0}, 0.1192, f"{UNSUPPORTED} 0.12, below 0.30"),
        ({"logit": 9.0, "passages": ()}, 0.0, "no passage was read"),
        ({"method": ClosedBook(), "logit": -9.0}, None, ""),
        ({"abstaining": abstaining(-9.0, below=0)}, 0.0003, ""),
        ({"abstaining": abstaining(-1.0008, below=0.5)}, 0.4998, f"{UNSUPPORTED} 0.4998, below 0.5000"),
    ],
    ids=range(5),
)
def test_an_answer_below_the_threshold_says_why(options, confidence, abstained):
    result = engine(**options).ask("Where?")
    answer = result.answer
    assert answer.confidence == (
        confidence if confidence is None else near(confidence, "as told", "4 decimals")
    )
    assert answer.abstained == abstained
    for event in result.trace.events:
        if isinstance(event, Decided) and event.name == "confidence":
            assert event.outcome == ("abstain" if abstained else "answer")
            assert (event.why == abstained) or not abstained
            assert event.numbers["confidence"] == answer.confidence
    talk = Conversation(engine(**options))
    talk.ask("Where?")
    assert talk.history[0].answer.startswith("Not in the documents: ") == bool(abstained)


def test_the_decision_has_the_evidence_and_the_question_is_scored_once():
    layer = abstaining(-3.0)
    events = engine(abstaining=layer).ask("Where?").trace.events
    (decided,) = (event for event in events if isinstance(event, Decided) and event.name == "confidence")
    assert (decided.threshold, decided.numbers["relevance"]) == (0.3, -3.0)
    assert decided.numbers["confidence"] == near(1 / (1 + 2.718281828459045**2))
    assert {query for query, _ in layer.scorer.pairs} == {"Where?"}
    with pytest.raises(ModelFailure, match="broke"):
        engine(logit="broken").ask("Where?")


def test_agreement_and_reflection_are_evidence():
    known = [CALIBRATION.confidence(AnswerEvidence(0, 0, agreement=share)) for share in (0.2, 0.5, 1.0)]
    assert known == sorted(known)
    assert CALIBRATION.confidence(AnswerEvidence(0, 0)) == near(known[1]), "unknown counts as the mean"
    answers = (("Pisa.", 2), ("the Pisa", 1), ("Bonn", 1))
    paths = [Node(PathState(answer=answer, votes=votes)) for answer, votes in answers]
    assert (agreement_with("Pisa", paths), agreement_with("Rome", paths)) == (0.75, 0.0)
    assert agreement_with("Bonn", paths[2:]) is None, "one sample agrees with nothing"
    assert 0.5 <= engine(make_method("blender")).ask("Where?").answer.agreement <= 1
    assert engine(make_method("single")).ask("Where?").answer.agreement is None
    hit = Hit(PISA, 1.0, 1)
    support = {FULLY_SUPPORTED: 0.5, NO_SUPPORT: 0.5}
    sure = Segment("a", "retrieve", hit, relevance={RELEVANT: 0.9, IRRELEVANT: 0.1})
    unsure = Segment("b", "retrieve", hit, relevance={RELEVANT: 0.8, IRRELEVANT: 0.2}, support=support)
    assert Path((sure, unsure)).reflection == near(0.4), "the weakest segment counts"
    assert Path((Segment("c", "none"),)).reflection is None


def test_the_packaged_calibration_prefers_supported_answers():
    calibration = default_calibration()
    weak, strong = AnswerEvidence(-6, 0.1), AnswerEvidence(4, 1.0)
    assert calibration.confidence(weak) < calibration.threshold < calibration.confidence(strong)


def test_cited_passages_are_scored_first_and_only_so_many():
    trace = Trace()
    many = [Passage(f"p{number}", "", "x") for number in range(30)]
    hits = tuple(Hit(passage, 1.0, rank) for rank, passage in enumerate(many, start=1))
    trace.add(Searched, query="x", k=30, hits=hits)
    found = passages_read(Answer("x", citations=(Citation(1, many[20], 0, 1),)), trace)
    assert found == (many[20], *many[: MOST_PASSAGES - 1])


def test_strict_answers_lack_the_sentences_that_cite_nothing():
    text = "The leaning tower stands in Pisa. Penguins like jazz. So the answer is Pisa."
    second = text.index("So the")
    cited = (Citation(1, PISA, 0, 33), Citation(1, PISA, second, len(text)))
    trace = Trace()
    answer = supported_part(Answer(text, "Pisa", cited), trace)
    assert answer.text == "The leaning tower stands in Pisa. So the answer is Pisa."
    pieces = [answer.text[each.start : each.end] for each in answer.citations]
    assert pieces == ["The leaning tower stands in Pisa.", "So the answer is Pisa."]
    assert [event.text for event in trace.events if isinstance(event, Uncited)] == ["Penguins like jazz."]
    assert supported_part(Answer("Penguins like jazz.", "jazz"), Trace()) == Answer("", "")
    model = ScriptedModel([" Penguins like jazz. The leaning tower stands in Pisa. So the answer is Pisa."])
    strict = Engine(Single(), {"answer": model}, ScriptedRetriever((PISA,)), is_strict=True)
    result = strict.ask("Where does the leaning tower stand?")
    assert "Penguins" not in result.answer.text
    committed = "".join(event.text for event in result.trace.events if isinstance(event, Committed))
    assert committed == result.answer.text != ""


def test_what_can_not_abstain_is_refused(monkeypatch):
    with pytest.raises(InputError, match="from 0 to 1"):
        EngineConfig(abstain_below=1.5)
    for settings in ({"abstain_below": 0.5}, {"strict": True}):
        with pytest.raises(MissingAbility, match="closed_book searches nothing"):
            EngineConfig(**settings).engine(ClosedBook(), {"answer": ScriptedModel()}, None, None)
    monkeypatch.setattr("askance.models.loaders.find_spec", lambda name: None)
    config = EngineConfig(abstain_below="auto")
    with pytest.raises(MissingExtra, match="rerank"):
        config.engine(Single(), {"answer": ScriptedModel()}, ScriptedRetriever(), None)
