"""DRAGIN in the reading of its authors' code: draft all, find the first doubtful sentence, write it again."""

from typing import TYPE_CHECKING

from askance.core.ports import Run
from askance.core.trace import Decided, WordSignal
from askance.core.types import Answer, Hit, Key, Question
from askance.methods.authors import Answering, joined, space_marker
from askance.methods.queries import Asking, formulate
from askance.methods.rind import Doubt
from askance.methods.triggers import Trigger

if TYPE_CHECKING:
    from askance.methods.dragin import Dragin


async def answer(dragin: "Dragin", question: Question, run: Run) -> Answer:
    """Rounds of a draft without passages and, where it is in doubt, one sentence with them."""
    so_far = Answering(question, run, dragin.wording, dragin.passages, dragin.query_tokens)
    marker = space_marker(dragin.space_marker, run.model)
    trigger = Trigger(
        dragin.trigger,
        dragin.theta,
        dragin.every_tokens,
        marker,
        dragin.linguistics,
        dragin.real_words_only,
        dragin.doubt,
    )
    for step in range(dragin.max_rounds):
        chars_before = len(so_far.text)
        draft = await so_far.write(_joint(so_far.text), dragin.max_tokens, ("draft", step), want=trigger.want)
        doubt = await trigger.first_doubt(draft, run.model)
        if doubt is None:
            run.trace.decide("retrieve", "keep", "no sentence of the draft is in doubt")
            so_far.replace(f"{so_far.text.strip()} {draft.text.strip()}")
        else:
            asking = Asking(
                question.text,
                so_far.text,
                doubt,
                dragin.linguistics,
                marker,
                dragin.query_top,
                dragin.query_share,
                so_far.control,
            )
            decision = _decide(dragin, run, doubt, await formulate(dragin.query, asking, run.model))
            with run.trace.because(decision):
                hits = await so_far.search(decision.query)
                again = await _again(dragin, so_far, doubt, hits, ("again", step))
            so_far.replace(joined(so_far.text.strip(), doubt.kept.strip(), again.strip()))
        reason = so_far.end_reason(chars_before, dragin.max_tokens)
        if reason:
            break
    run.trace.decide("end", "stop", reason or f"there were {dragin.max_rounds} rounds")
    return await so_far.answer(dragin)


async def _again(dragin: "Dragin", so_far: Answering, doubt: Doubt, hits: tuple[Hit, ...], key: Key) -> str:
    """What replaces the doubtful sentence: the first sentence, or the first tokens, written with passages."""
    text = _joint(so_far.text, doubt.kept.strip())
    if dragin.trigger == "every_tokens":
        return (await so_far.write(text, dragin.every_tokens, key, hits)).text
    written = await so_far.write(text, dragin.max_tokens, key, hits)
    return next(iter(dragin.linguistics.sentences(written.text)), "")


def _joint(*parts: str) -> str:
    text = joined(*parts)
    return f" {text}" if text else ""


def _decide(dragin: "Dragin", run: Run, doubt: Doubt, query: str) -> Decided:
    most = max(doubt.scores, default=0.0)
    whys = {
        "rind": f"a word scores {most:.2f}, above {dragin.theta:g}",
        "token_probability": f"the sentence is improbable by more than {dragin.theta:g}",
        "every_sentence": "every sentence is searched for",
        "every_tokens": f"a search is due every {dragin.every_tokens} tokens",
    }
    signals = {"rind": f"relative attention × {dragin.doubt} (nats)", "token_probability": "1 − probability"}
    return run.trace.decide(
        "retrieve",
        "search",
        whys[dragin.trigger],
        signal=signals.get(dragin.trigger, ""),
        threshold=dragin.theta if dragin.trigger in signals else None,
        words=tuple(map(WordSignal, doubt.words, doubt.scores, doubt.hits)),
        query=query,
        numbers={"kept characters": float(len(doubt.kept))},
    )
