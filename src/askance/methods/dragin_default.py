"""DRAGIN in our reading: search once for a doubtful sentence, and go on from the doubt."""

from typing import TYPE_CHECKING

from askance.core.ports import Run
from askance.core.trace import Decided
from askance.core.types import Answer, Generation, Question, Want
from askance.methods.eliciting import finished
from askance.methods.looking import Look, own_look, proxy_look, weightiest
from askance.methods.progress import Progress
from askance.methods.queries import formulate_in_words
from askance.methods.rind_sentence import Judged, judge

if TYPE_CHECKING:
    from askance.methods.dragin import Dragin


async def answer(dragin: "Dragin", question: Question, run: Run) -> Answer:
    """Write sentence by sentence; a doubtful one is cut before the doubt and goes on with other passages."""
    so_far = Progress(question, run)
    reason = f"there were {dragin.max_rounds} rounds"
    sentences, begun = set[str](), ""
    if dragin.search_first:
        why = "the first search is made with the question itself"
        decision = run.trace.decide("retrieve", "search", why, query=question.text)
        so_far.show(await so_far.search(decision, dragin.passages))
    may_search = so_far.num_searches < dragin.max_searches
    for step in range(dragin.max_rounds):
        room = dragin.max_tokens - so_far.num_tokens
        written = await so_far.write(dragin, _want(dragin, run), room, step)
        ended = so_far.end_reason(written, room)
        look = await _look(dragin, so_far, written)
        judged = judge(dragin, so_far.judgeable(written), look, is_over=bool(ended))
        query = await _query(dragin, so_far, judged, look) if may_search else ""
        decision = _decide(dragin, so_far, judged, query, may_search=may_search)
        old = so_far.hits[: min(dragin.kept_passages, dragin.passages - 1)]
        num_new = dragin.passages - len(old)
        found = await so_far.search(decision, num_new, so_far.seen) if decision.query else ()
        if found:
            so_far.keep(judged.kept, sum(token.end <= len(judged.kept) for token in written.tokens))
            so_far.show((*found, *old))
            begun = "" if judged.is_whole else begun + judged.kept
            may_search = judged.is_whole and so_far.num_searches < dragin.max_searches
            continue
        sentence = begun + written.text
        is_repeated = sentence in sentences and written.finish != "length"
        if begun or not is_repeated:  # what has been begun is written to its end
            so_far.keep(written.text, len(written.tokens))
        if is_repeated or ended:
            reason = "the sentence was written before, word for word" if is_repeated else ended
            break
        sentences.add(sentence)
        begun, may_search = "", so_far.num_searches < dragin.max_searches
    run.trace.decide("end", "stop", reason)
    return await finished(dragin, question, run, so_far.text, so_far.shown)


def _want(dragin: "Dragin", run: Run) -> Want:
    return Want(
        logprob=dragin.trigger in ("rind", "token_probability"),
        entropy="entropy" in run.model.signals and dragin.trigger == "rind",
        attention=None if "attend" in run.models else dragin.attention,
    )


async def _look(dragin: "Dragin", so_far: Progress, written: Generation) -> Look | None:
    if not dragin.attends or not written.tokens:
        return None
    asked, proxy = so_far.question.text, so_far.run.models.get("attend")
    if proxy is None:
        look = own_look(written, asked, so_far.text, so_far.run.model)
    else:
        look = await proxy_look(written, asked, so_far.text, proxy)
    return so_far.readable(look, written)


async def _query(dragin: "Dragin", so_far: Progress, judged: Judged, look: Look | None) -> str:
    if judged.at is None:
        return ""
    if dragin.query == "real_words":
        return attended_query(dragin, judged, look) if look else ""
    asking = so_far.asking(judged.doubt(), dragin.linguistics, dragin.query_top)
    return await formulate_in_words(dragin.query, asking, so_far.run.model)


def attended_query(dragin: "Dragin", judged: Judged, look: Look) -> str:
    """QFS: the words with content that the prediction of what stands at `judged.at` attended to most."""
    words = look.words_before(judged.at or 0, dragin.linguistics, dragin.heads_of_query)
    return weightiest(words, dragin.query_top)


def _decide(dragin: "Dragin", so_far: Progress, judged: Judged, query: str, *, may_search: bool) -> Decided:
    signal = SIGNALS.get(dragin.trigger, "")
    if query:
        why = f"a word is above {dragin.theta:g}" if signal else f"a search is due ({dragin.trigger})"
    elif judged.at is None:
        why = f"no word is above {dragin.theta:g}" if signal else "the answer is over"
    elif may_search:
        why = "in doubt, but there is nothing to ask"
    elif so_far.num_searches >= dragin.max_searches:
        why = f"in doubt, but {dragin.max_searches} searches are the most"
    else:
        why = "in doubt, but this sentence has been searched for"
    return so_far.run.trace.decide(
        "retrieve",
        "search" if query else "keep",
        why,
        signal=signal,
        threshold=dragin.theta if signal else None,
        words=judged.word_signals(),
        query=query,
    )


SIGNALS = {"rind": "doubt (nats) × attention", "token_probability": "1 − probability"}
