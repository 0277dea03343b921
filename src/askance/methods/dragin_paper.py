"""DRAGIN as its paper has it: stop at a doubtful token, search for what it attends to, go on from there."""

from typing import TYPE_CHECKING

from askance.core.ports import Run
from askance.core.trace import Decided
from askance.core.types import Answer, Question
from askance.methods.eliciting import finished
from askance.methods.looking import own_look
from askance.methods.progress import Progress
from askance.methods.queries import formulate_in_words
from askance.methods.rind_paper import Stretch, judge, want

if TYPE_CHECKING:
    from askance.methods.dragin import Dragin


async def answer(dragin: "Dragin", question: Question, run: Run) -> Answer:
    """Write sentence by sentence; after each search go on from where the doubt arose."""
    so_far = Progress(question, run)
    has_searched, reason = False, f"there were {dragin.max_rounds} rounds"
    if dragin.trigger in ("every_sentence", "every_tokens"):
        why = "the first search is made with the question itself"
        decision = run.trace.decide("retrieve", "search", why, query=question.text)
        so_far.show(await so_far.search(decision, dragin.passages))
    for step in range(dragin.max_rounds):
        room = dragin.max_tokens - so_far.num_tokens
        written = await so_far.write(dragin, want(dragin), room, step)
        ended = so_far.end_reason(written, room)
        stretch = judge(dragin, so_far.judgeable(written), is_over=bool(ended), may_start=not has_searched)
        query = await _query(dragin, so_far, stretch)
        decision = _decide(dragin, so_far, stretch, query)
        has_searched = bool(query)
        if query:
            so_far.keep(stretch.kept, len(stretch.kept_tokens))
            found = await so_far.search(decision, dragin.passages)
            if found:
                so_far.show(found)
            continue
        so_far.keep(written.text, len(written.tokens))
        if ended:
            reason = ended
            break
    run.trace.decide("end", "stop", reason)
    return await finished(dragin, question, run, so_far.text, so_far.shown)


async def _query(dragin: "Dragin", so_far: Progress, stretch: Stretch) -> str:
    if stretch.at is None or so_far.num_searches >= dragin.max_searches:
        return ""
    if dragin.query == "real_words":
        return _attended(dragin, so_far, stretch)
    asking = so_far.asking(stretch.doubt(), dragin.linguistics, dragin.query_top)
    return await formulate_in_words(dragin.query, asking, so_far.run.model)


def _attended(dragin: "Dragin", so_far: Progress, stretch: Stretch) -> str:
    """From the row of the doubtful token, or of the last one that has been fed."""
    written = stretch.written
    tokens = (*written.tokens, *written.dropped)
    fed = [at for at, token in enumerate(tokens[: (stretch.at or 0) + 1]) if token.attention is not None]
    if not fed:
        return ""
    look = own_look(written, so_far.question.text, so_far.text, so_far.run.model)
    return so_far.readable(look, written).context_of(
        len(written.prompt_ids) + fed[-1],
        dragin.query_top,
        dragin.heads_of_query,
        whole=dragin.query_context == "whole_prompt",
    )


def _decide(dragin: "Dragin", so_far: Progress, stretch: Stretch, query: str) -> Decided:
    signals = {"rind": "entropy (nats) × attention", "token_probability": "1 − probability"}
    if query:
        why = (
            f"above {dragin.theta:g}" if dragin.trigger in signals else f"a search is due ({dragin.trigger})"
        )
    elif stretch.at is not None and so_far.num_searches >= dragin.max_searches:
        why = f"in doubt, but {dragin.max_searches} searches are the most"
    elif stretch.at is not None:
        why = "in doubt, but there is nothing to ask"
    elif signals.get(dragin.trigger) and max(stretch.values, default=0.0) > dragin.theta:
        why = "in doubt where the last search was made, which made another of no use"
    else:
        why = f"nothing is above {dragin.theta:g}" if dragin.trigger in signals else "the answer is over"
    return so_far.run.trace.decide(
        "retrieve",
        "search" if query else "keep",
        why,
        signal=signals.get(dragin.trigger, ""),
        threshold=dragin.theta if dragin.trigger in signals else None,
        words=stretch.word_signals(),
        query=query,
    )
