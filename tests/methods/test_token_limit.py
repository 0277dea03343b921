"""L_max, for every method: no more is read, and what was committed is the answer."""

import asyncio
import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from askance.ask import ask
from askance.configuration.methods import make_method, method_class
from askance.core.errors import BudgetTooSmall, ParameterError
from askance.core.token_ledger import BudgetedModel, NoRoom, TokenLedger, has_room
from askance.core.trace import Trace
from askance.core.types import Hit, Passage, Question
from askance.methods.baselines import FixedSentence, Single
from askance.methods.common.prompts import PromptTemplate, answer_prompt
from askance.methods.selfrag.method import Selfrag
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.laboratory import EVERY_METHOD

QUESTION = Question("q", "Which sea does the Arno flow into?", demos=())
PASSAGES = tuple(
    Passage(str(number), f"River {number}", "The Arno flows through Pisa into the sea. " * (number % 4))
    for number in range(30)
)
BARE = PromptTemplate(demos=())
FOR_ANY_MODEL = [name for name in EVERY_METHOD if name != "selfrag_authors"]  # it needs reflection tokens


def run(method, model=None, passages=PASSAGES, question=QUESTION):
    model = model or ScriptedModel(None, context_tokens=32_000)
    return asyncio.run(ask(question, method, {"answer": model}, ScriptedRetriever(passages)))


def num_read(result, of=""):
    """Input tokens of all calls, or of a method's within another; of samples drawn at once, once."""
    prompts = {event.key: event.prompt_tokens for event in result.trace.events if event.type == "generate"}
    passes = [event for event in result.trace.events if event.type in ("score", "attend")]
    if of:
        return sum(tokens for key, tokens in prompts.items() if key[0] == of)
    return sum(prompts.values()) + sum(event.prompt_tokens for event in passes)


def decided(result, name):
    return [each for each in result.trace.decisions if each.name == name]


@pytest.mark.parametrize("name", FOR_ANY_MODEL)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(l_max=200, seed=21)  # the direct answer of airrag is empty, and is drawn anew at the end
@given(l_max=st.sampled_from([1, 60, 200, 400, 700, 1000, 1500, 2500, 4000, 9000]), seed=st.integers(0, 99))
def test_no_method_reads_more_than_l_max(name, l_max, seed):
    parameters = {"l_max": l_max} | ({"strict_budget": True} if name == "blender" else {})
    question = Question(f"q{seed}", QUESTION.text, demos=())
    try:
        result = run(make_method(name, parameters), question=question)
    except BudgetTooSmall:
        return
    assert num_read(result) == decided(result, "budget")[-1].numbers["input tokens"] <= l_max
    assert result.trace.committed.strip() == result.answer.text.strip()


@pytest.mark.parametrize("name", FOR_ANY_MODEL)
def test_a_great_l_max_changes_nothing(name):
    free, bounded = run(make_method(name)), run(make_method(name, {"l_max": 1_000_000}))
    assert bounded.answer == free.answer
    assert num_read(bounded) == num_read(free)
    assert "l_max" in method_class(name).__dataclass_fields__


def sentences(shown, key):
    return " The Arno flows through Pisa. It is long. " if key[-1] == 0 else " It is a river of Italy. It is."


def test_what_was_committed_is_the_answer_and_the_trace_says_why_it_ends():
    method = FixedSentence(passages=2, prompts=BARE, ask_short_answer=False, max_rounds=6)
    whole = run(method, ScriptedModel(sentences))
    results = {}
    for l_max in range(60, num_read(whole), 15):
        try:
            results[l_max] = run(replace(method, l_max=l_max), ScriptedModel(sentences))
        except BudgetTooSmall:
            assert not results, "with more, there always is an answer"
    texts = [result.answer.text for result in results.values()]
    assert [len(text) for text in texts] == sorted(map(len, texts))
    assert texts[0] == "The Arno flows through Pisa."
    for result in results.values():
        assert whole.answer.text.startswith(result.answer.text)
        assert [each.outcome for each in decided(result, "end")] == ["cut"]
        assert "l_max is used up: the next call reads" in decided(result, "end")[0].why
        first = result.answer.citations[0]
        assert result.answer.text[first.start : first.end] == "The Arno flows through Pisa."


def test_where_nothing_is_written_the_error_says_what_would_have_been_read():
    with pytest.raises(
        BudgetTooSmall,
        match=r"parameter l_max=5 of method flare: the next call reads \d+ tokens, and 5 are left, and "
        r"nothing is written yet: set it higher, or show fewer passages",
    ):
        run(make_method("flare", {"l_max": 5}))
    with pytest.raises(BudgetTooSmall, match=r"set it higher\.$"):
        run(make_method("closed_book", {"l_max": 5}))
    with pytest.raises(ParameterError, match="l_max=0"):
        make_method("flare", {"l_max": 0})


def test_short_answers_are_asked_for_only_where_there_is_room():
    def reply(shown, key):
        return " the sea." if key[-1] == "elicit" else " It flows there."

    parameters = {"prompts": BARE, "passages": 1}
    whole = run(Single(**parameters), ScriptedModel(reply))
    assert whole.answer.short == "the sea"
    result = run(Single(**parameters, l_max=num_read(whole) - 1), ScriptedModel(reply))
    assert (result.answer.text, result.answer.short) == ("It flows there.", "")
    assert "l_max has no room to ask for it" in [e.why.split("and ")[-1] for e in decided(result, "end")]


def num_shown(model):
    return sum(line.startswith("[") for line in model.prompts[0].splitlines())


def test_single_shows_as_many_passages_as_one_call_has_room_for():
    same = [Passage(str(n), "Arno", "The Arno flows through Pisa into the sea.") for n in range(40)]
    shown = {}
    for l_max in (60, 200, 400, 800, 2000):
        model = ScriptedModel([" So the answer is Pisa."], context_tokens=32_000)
        result = run(Single(passages=0, prompts=BARE, l_max=l_max), model, same)
        shown[l_max] = num_shown(model)
        assert num_read(result) <= l_max
        if shown[l_max] < 40:
            assert decided(result, "passages")[0].why == f"there is room for {shown[l_max]} of 40"
    assert 1 <= shown[60] < shown[200] < shown[400] < shown[800] == shown[2000] == 40
    model = ScriptedModel([" So the answer is Pisa."], context_tokens=300)
    run(Single(passages=0, prompts=BARE, max_tokens=20), model, same)
    assert 5 < num_shown(model) < 40, "the window is a limit, too"
    model = ScriptedModel([" So the answer is Pisa."])
    run(Single(passages=5, prompts=BARE, l_max=60), model, same)
    assert 1 <= num_shown(model) < 5


def test_room_is_what_window_and_every_allowance_leave():
    model = ScriptedModel(None, context_tokens=50)
    prompt = answer_prompt(model, QUESTION, template=BARE)
    count = asyncio.run(model.count(prompt))
    assert asyncio.run(has_room(model, prompt, 50 - count))
    assert not asyncio.run(has_room(model, prompt, 51 - count))
    outer = BudgetedModel(model, TokenLedger(count + 5).share(1))
    inner = BudgetedModel(outer, TokenLedger(count + 9).share(1))
    assert asyncio.run(has_room(inner, prompt, 1, keep=5))
    assert not asyncio.run(has_room(inner, prompt, 1, keep=6)), "of the outer one"
    assert not asyncio.run(has_room(BudgetedModel(model, TokenLedger(count - 1).share(1)), prompt, 1))


def test_a_trace_beside_keeps_its_own_commits():
    trace = Trace()
    one, other = trace.aside(), trace.aside()
    one.commit("a")
    other.commit("b")
    one.commit("c")
    trace.commit("d")
    assert (one.committed, other.committed, trace.committed) == ("ac", "b", "d")


def answers(shown, key):
    return f" It is river {key[-1]}." if key[2] == "passage" else " yes"


@pytest.mark.parametrize("form", ["short", "long"])
def test_self_rag_leaves_out_what_has_no_room(form):
    def asked(l_max):
        method = Selfrag(form=form, mode="always", passages=3, prompts=BARE, max_segments=2, l_max=l_max)
        return run(method, ScriptedModel(answers, scores=lambda prompt, option: -1.0))

    whole = asked(None)
    some = [num_read(whole) * tenths // 10 for tenths in range(1, 10)]
    results = [asked(l_max) for l_max in some]
    assert all(result.answer.text for result in results)
    assert any(decided(result, "segment") for result in results)
    with pytest.raises(BudgetTooSmall, match="no segment had room"):
        asked(5)


class Dawdling(ScriptedModel):
    """Takes its time, now more, now less."""

    chance = random.Random(7)

    async def generate(self, request):
        for _ in range(self.chance.randrange(5)):
            await asyncio.sleep(0)
        return await super().generate(request)

    async def score(self, prompt, options):
        for _ in range(self.chance.randrange(5)):
            await asyncio.sleep(0)
        return await super().score(prompt, options)


class Searching(ScriptedRetriever):
    """So does this."""

    chance = random.Random(8)

    async def search(self, *given, **named):
        for _ in range(self.chance.randrange(5)):
            await asyncio.sleep(0)
        return await super().search(*given, **named)


@pytest.mark.parametrize("form", ["short", "long"])
def test_what_self_rag_leaves_out_does_not_depend_on_timing(form):
    for l_max in (800, 1600, 3000):
        method = Selfrag(form=form, mode="always", prompts=BARE, max_segments=3, l_max=l_max)
        found = [run(method, ScriptedModel(None, context_tokens=9000)).answer]
        for _ in range(4):
            asked = ask(
                QUESTION, method, {"answer": Dawdling(None, context_tokens=9000)}, Searching(PASSAGES)
            )
            found.append(asyncio.run(asked).answer)
        assert len(set(map(repr, found))) == 1


def test_a_call_that_does_not_fit_says_why():
    model = ScriptedModel(None, context_tokens=30)
    prompt = answer_prompt(model, QUESTION, (Hit(PASSAGES[3], 1.0, 1),), template=BARE)
    with pytest.raises(NoRoom, match=r"the next call reads \d+ tokens, and 3 are left"):
        asyncio.run(TokenLedger(3).share(1).read(model, prompt, 1))
    with pytest.raises(NoRoom, match=r"the next prompt has \d+ tokens, 9 more .* a context window of 30"):
        asyncio.run(TokenLedger(None).share(1).read(model, prompt, 9))
