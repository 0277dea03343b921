"""DRAGIN as its paper has it: stop at a doubtful token, search for what it attends to, go on from there."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from askance.core.ports import Model, Run
from askance.core.trace import Decided
from askance.core.types import Answer, Generation, Hit, Question, Sampling, Until
from askance.methods.prompts import STOPS, answer_prompt
from askance.methods.qfs import attended_context
from askance.methods.queries import Asking, formulate
from askance.methods.rind_paper import SentenceFollowed, Stretch, judge, want
from askance.methods.searching import search_with_question
from askance.text.answers import has_answer, short_answer
from askance.text.sentences import SentenceEnd
from askance.text.support import cite

if TYPE_CHECKING:
    from askance.methods.dragin import Dragin


async def answer(dragin: "Dragin", question: Question, run: Run) -> Answer:
    """Write sentence by sentence; after each search go on from where the doubt arose."""
    text, num_kept, hits = "", 0, await _first_search(dragin, question, run)
    shown, has_searched = [(0, hits)], False
    for step in range(dragin.max_rounds):
        prompt = answer_prompt(run.model, question, hits, text, dragin.layout, dragin.wording)
        until = _until(dragin)
        room = dragin.max_tokens - num_kept
        most = min(room, dragin.every_tokens) if dragin.trigger == "every_tokens" else room
        (written,) = await run.model.generate(
            prompt, Sampling(most, stop=STOPS), want(dragin), until, key=("sentence", step),
            watch=run.trace.draft,
        )  # fmt: skip
        is_over = _is_over(written, text, room)
        stretch = judge(dragin, written, is_over=is_over, may_start=not has_searched)
        query = await _query(dragin, question, run, text, stretch)
        decision = _decide(dragin, run, stretch, query)
        kept = stretch.kept if query else written.text
        run.trace.commit(kept)
        text += kept
        has_searched = bool(query)
        if query:
            num_kept += len(stretch.kept_tokens)
            with run.trace.because(decision):
                hits = await run.retriever.search(query, dragin.passages)
            shown.append((len(text), hits))
        else:
            num_kept += len(written.tokens)
            if is_over:
                break
    return _finished(text, question, shown)


async def _first_search(dragin: "Dragin", question: Question, run: Run) -> tuple[Hit, ...]:
    if dragin.trigger not in ("every_sentence", "every_tokens"):
        return ()
    why = "the first search is made with the question itself"
    return await search_with_question(question, run, dragin.passages, why)


def _until(dragin: "Dragin") -> Until | None:
    if dragin.trigger == "every_tokens":
        return None
    return SentenceFollowed() if want(dragin).attention else SentenceEnd()


def _is_over(written: Generation, text: str, room: int) -> bool:
    is_ended = written.finish in ("end", "stop") or not written.text.strip()
    return is_ended or has_answer(text + written.text) or len(written.tokens) >= room


async def _query(dragin: "Dragin", question: Question, run: Run, text: str, stretch: Stretch) -> str:
    if stretch.at is None:
        return ""
    if dragin.query == "real_words":
        return _attended(dragin, run.model, stretch)
    asking = Asking(question.text, text.strip(), stretch.doubt(), dragin.linguistics, "", dragin.query_top)
    if dragin.query == "last_n_tokens":
        return run.model.decode(run.model.tokenize(asking.so_far)[-dragin.query_top :]).strip()
    return await formulate(dragin.query, asking, run.model)


def _attended(dragin: "Dragin", model: Model, stretch: Stretch) -> str:
    """From the row of the doubtful token, or of the last one that has been fed."""
    written = stretch.written
    tokens = (*written.tokens, *written.dropped)
    fed = [at for at, token in enumerate(tokens[: (stretch.at or 0) + 1]) if token.attention is not None]
    row = tokens[fed[-1]].attention if fed else None
    if row is None:
        return ""
    ids = (*written.prompt_ids, *(token.id for token in tokens[: fed[-1]]))
    return attended_context(row, ids, model, dragin.query_top)


def _decide(dragin: "Dragin", run: Run, stretch: Stretch, query: str) -> Decided:
    signals = {"rind": "entropy (nats) × attention", "token_probability": "1 − probability"}
    if query:
        why = f"above {dragin.threshold:g}" if dragin.trigger in signals else f"{dragin.trigger} is due"
    elif stretch.at is not None:
        why = "in doubt, but there is nothing to ask"
    elif signals.get(dragin.trigger) and max(stretch.values, default=0.0) > dragin.threshold:
        why = "in doubt where the last search was made, which made another of no use"
    else:
        why = f"nothing is above {dragin.threshold:g}" if dragin.trigger in signals else "the answer is over"
    return run.trace.decide(
        "retrieve",
        "search" if query else "keep",
        why,
        signal=signals.get(dragin.trigger, ""),
        threshold=dragin.threshold if dragin.trigger in signals else None,
        words=stretch.word_signals(),
        query=query,
    )


def _finished(text: str, question: Question, shown: Sequence[tuple[int, Sequence[Hit]]]) -> Answer:
    left, stripped = len(text) - len(text.lstrip()), text.strip()
    citations = cite(stripped, [(max(0, at - left), hits) for at, hits in shown])
    return Answer(stripped, short_answer(stripped, question), citations)
