"""L_max, for every method: no more is read, and what was committed is the answer."""

import asyncio
import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from askance.configuration.methods import make_method
from askance.core.errors import BudgetTooSmall, PromptTooLong
from askance.core.token_ledger import BudgetedModel, NoRoom, TokenLedger, has_room
from askance.core.types import Passage, Question
from askance.methods.baselines import FixedSentence, Single
from askance.methods.common.prompts import PromptTemplate, answer_prompt
from askance.methods.selfrag.method import Selfrag
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.asking import ask
from tests.laboratory import EVERY_METHOD

QUESTION = Question("q", "Which sea does the Arno flow into?", demos=())
PASSAGES = tuple(
    Passage(str(number), f"River {number}", "The Arno flows through Pisa into the sea. " * (number % 4))
    for number in range(30)
)
BARE = PromptTemplate(demos=())
CHANCE = random.Random(7)
FOR_ANY_MODEL = [name for name in EVERY_METHOD if name != "selfrag_authors"]  # it needs reflection tokens


def run(method, model=None, retriever=None, question=QUESTION):
    model = model or ScriptedModel(None, context_tokens=32_000)
    return asyncio.run(ask(question, method, {"answer": model}, retriever or ScriptedRetriever(PASSAGES)))


def num_read(result, of=""):
    """Return the input tokens of all calls, or of a member's; those of samples drawn at once count once."""
    prompts = {event.key: event.prompt_tokens for event in result.trace.events if event.type == "generate"}
    passes = [event for event in result.trace.events if event.type in ("score", "attend")]
    if of:
        return sum(tokens for key, tokens in prompts.items() if key[0] == of)
    return sum(prompts.values()) + sum(event.prompt_tokens for event in passes)


def decided(result, name):
    return [each for each in result.trace.decisions if each.name == name]


@pytest.mark.parametrize("name", FOR_ANY_MODEL)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


def sentences(shown, key):
    return " The Arno flows through Pisa. It is long. " if key[-1] == 0 else " It is a river of Italy. It is."


def test_what_was_committed_is_the_answer_and_the_trace_says_why_it_ends():
    method = FixedSentence(passages=2, prompts=BARE, ask_short_answer=False, max_rounds=6)
    whole, results = run(method, ScriptedModel(sentences)), []
    for l_max in range(60, num_read(whole), 30):
        try:
            results.append(run(replace(method, l_max=l_max), ScriptedModel(sentences)))
        except BudgetTooSmall:
            assert not results, "with more, there always is an answer"
    texts = [result.answer.text for result in results]
    assert texts == sorted(texts, key=len)
    assert texts[0] == "The Arno flows through Pisa."
    for result in results:
        assert whole.answer.text.startswith(result.answer.text)
        (end,) = decided(result, "end")
        assert end.outcome == "cut"
        assert "l_max is used up: the next call reads" in end.why
        first = result.answer.citations[0]
        assert result.answer.text[first.start : first.end] == "The Arno flows through Pisa."


def test_single_shows_as_many_passages_as_one_call_has_room_for():
    same = [Passage(str(n), "Arno", "The Arno flows through Pisa into the sea.") for n in range(120)]
    shown = {}
    for l_max in (60, 800, 2000, 20_000):
        model = ScriptedModel([" So the answer is Pisa."], context_tokens=32_000)
        result = run(Single(passages=0, prompts=BARE, l_max=l_max), model, ScriptedRetriever(same))
        shown[l_max] = sum(line.startswith("[") for line in model.prompts[0].splitlines())
        assert num_read(result) <= l_max
    assert 1 <= shown[60] < shown[800] < 100 < shown[2000] <= shown[20_000] == 120, (
        "a second search asks for more"
    )


@pytest.mark.parametrize("guard", ["support", "agreement"])  # agreement reads the question again, for samples
def test_a_guarded_search_shows_the_passages_that_the_answer_from_memory_leaves_room_for(guard):
    def asked(method, l_max, **changed):
        made = make_method(method, {"ask_short_answer": False, "l_max": l_max, **changed})
        return run(replace(made, prompts=BARE), ScriptedModel(lambda *_: " So the answer is Pisa."))

    num_memory = 10 * (2 if guard == "agreement" else 1)
    one, two = (num_read(asked("single", None, passages=num)) for num in (1, 2))
    assert (num_read(asked("closed_book", None)), one, two) == (10, 18, 31)
    for room, num_shown in ((9, None), (10, 0), (17, 0), (18, 1), (30, 1), (31, 2), (999, 3)):
        result = asked(f"single(guard={guard})", num_memory + room)
        (source,) = decided(result, "source")
        is_short = source.why.startswith("there is no room for another answer: the next call reads 10 tokens")
        assert (is_short, source.numbers == {}, result.answer.text) == (
            num_shown is None, num_shown is None, "So the answer is Pisa.",
        )  # fmt: skip
        assert num_read(result) <= num_memory + room
        if num_shown is not None:
            shown = [event.prompt for event in result.trace.events if event.type == "generate"][-1]
            assert shown.count("\n[") == num_shown
    with pytest.raises(BudgetTooSmall, match=r"l_max=9 of method single: .* reads 10 .* nothing is written"):
        asked(f"single(guard={guard})", 9)


@pytest.mark.parametrize("limit", ["l_max", "context_tokens"])
@pytest.mark.parametrize(
    ("method", "first", "forced"),
    [
        ("search_agent", "<search>Arno</search>", "\nPisa</answer>"),
        ("search_agent(format=search_o1)", "<|begin_search_query|>Arno<|end_search_query|>", "\\text{Pisa}}"),
        ("self_ask", "Follow up: Where?", " Pisa."),
    ],
)
def test_above_the_first_limit_with_an_answer_there_is_one(limit, method, first, forced):
    """Of a model that searches, thinks at length, and answers only if it is asked for its answer."""

    def reply(shown, key):
        if "elicit" in key:
            return forced
        return first if key[-1] == 0 and {"turn", "lines"} & {*key} else " Hm." * 40

    found = []
    for size in range(5, 500, 9):
        model = ScriptedModel(reply, context_tokens=size if limit == "context_tokens" else 32_000)
        l_max = size if limit == "l_max" else None
        try:
            made = make_method(method, {"max_tokens": 30, "l_max": l_max})
            found.append(run(made, model).answer.short)
        except (BudgetTooSmall, PromptTooLong):
            found.append(None)
    first_answer = found.index("Pisa")
    assert found == [None] * first_answer + ["Pisa"] * (len(found) - first_answer)
    assert first_answer < 15


def test_room_is_what_window_and_every_allowance_leave():
    model = ScriptedModel(None, context_tokens=50)
    prompt = answer_prompt(model, QUESTION, template=BARE)
    count = asyncio.run(model.count(prompt))
    outer = BudgetedModel(model, TokenLedger(count + 5).share(1))
    inner = BudgetedModel(outer, TokenLedger(count + 9).share(1))
    too_little = BudgetedModel(model, TokenLedger(count - 1).share(1))
    for budgeted, num_new, keep, expected in (
        (model, 50 - count, 0, True),
        (model, 51 - count, 0, False),
        (inner, 1, 5, True),
        (inner, 1, 6, False),
        (too_little, 1, 0, False),
    ):
        assert asyncio.run(has_room(budgeted, prompt, num_new, keep=keep)) == expected
    with pytest.raises(NoRoom, match=r"the next call reads \d+ tokens, and 3 are left"):
        asyncio.run(TokenLedger(3).share(1).read(model, prompt, 1))
    with pytest.raises(NoRoom, match=r"the next prompt has \d+ tokens, 49 more .* a context window of 50"):
        asyncio.run(TokenLedger(None).share(1).read(model, prompt, 49))


def answers(shown, key):
    return f" It is river {key[-1]}." if key[2] == "passage" else " yes"


@pytest.mark.parametrize("form", ["short", "long"])
def test_self_rag_leaves_out_what_has_no_room(form):
    def asked(l_max):
        method = Selfrag(form=form, mode="always", passages=3, prompts=BARE, max_segments=2, l_max=l_max)
        return run(method, ScriptedModel(answers, scores=lambda prompt, option: -1.0))

    whole = num_read(asked(None))
    results = [asked(whole * tenths // 10) for tenths in (1, 3, 5, 7, 9)]
    assert all(result.answer.text for result in results)
    assert any(decided(result, "segment") for result in results)


def dawdling(call):
    """Return a method that takes its time, now more, now less."""

    async def dawdle(self, *given, **named):
        for _ in range(CHANCE.randrange(5)):
            await asyncio.sleep(0)
        return await call(self, *given, **named)

    return dawdle


class DawdlingModel(ScriptedModel):
    generate, score = map(dawdling, (ScriptedModel.generate, ScriptedModel.score))


class DawdlingRetriever(ScriptedRetriever):
    search = dawdling(ScriptedRetriever.search)


@pytest.mark.parametrize(
    ("method", "l_max"),
    [
        *(
            (f"selfrag(form={form}, mode=always)", l_max)
            for form in ("short", "long")
            for l_max in (800, 3000)
        ),
        *(("blender(strict_budget=true)", l_max) for l_max in (None, 1200)),
    ],
)
def test_what_a_limit_leaves_out_does_not_depend_on_timing(method, l_max):
    made = make_method(method, {"l_max": l_max})
    results = [run(made, ScriptedModel(None, context_tokens=20_000))]
    results += [
        run(made, DawdlingModel(None, context_tokens=20_000), DawdlingRetriever(PASSAGES)) for _ in range(3)
    ]
    assert len({repr(result.answer) for result in results}) == 1
    assert len({repr(decided(result, "budget")[-1].numbers) for result in results}) == 1
