"""DRAGIN in our reading: search once for a doubtful sentence, and go on from the doubt."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from askance.core.ports import Run
from askance.core.trace import Decided
from askance.core.types import Answer, Generation, Hit, Question, Sampling, Until, Want
from askance.methods.looking import Look, own_look, proxy_look, weightiest
from askance.methods.prompts import STOPS, answer_prompt
from askance.methods.queries import Asking, formulate
from askance.methods.rind_paper import SentenceFollowed
from askance.methods.rind_sentence import Judged, has_meaning, judge
from askance.text.answers import has_answer, short_answer
from askance.text.sentences import SentenceEnd
from askance.text.support import cite

if TYPE_CHECKING:
    from askance.methods.dragin import Dragin


@dataclass(slots=True)
class Progress:
    """One question on its way.

    Attributes:
        num_tokens: of the answer so far.
        hits: the passages in the prompt.
        shown: since which character of the answer which passages are.
    """

    question: Question
    run: Run
    passages: int
    text: str = ""
    num_tokens: int = 0
    num_searches: int = 0
    hits: tuple[Hit, ...] = ()
    shown: list[tuple[int, tuple[Hit, ...]]] = field(default_factory=list)
    sentences: set[str] = field(default_factory=set)

    async def search(self, decision: Decided) -> bool:
        """Replace the passages by others that were not shown yet. Whether there were any."""
        seen = frozenset(hit.passage.id for _, hits in self.shown for hit in hits)
        with self.run.trace.because(decision):
            found = await self.run.retriever.search(decision.query, self.passages, exclude=seen)
        self.num_searches += 1
        if found:
            self.hits = found
            self.shown.append((len(self.text), found))
        return bool(found)

    def keep(self, text: str, num_tokens: int) -> None:
        self.run.trace.commit(text)
        self.text += text
        self.num_tokens += num_tokens

    def end_reason(self, written: Generation, room: int) -> str:
        """Why the answer ends with what was just written, or nothing."""
        if written.finish in ("end", "stop") or not written.text.strip():
            return "the model ended its answer"
        if has_answer(self.text + written.text) and written.finish != "length":
            return "the answer is stated"
        return "the answer has all the tokens it may have" if len(written.tokens) >= room else ""

    def answer(self) -> Answer:
        """The answer as it stands, with citations of the passages that were shown."""
        left, stripped = len(self.text) - len(self.text.lstrip()), self.text.strip()
        shown = [(max(0, at - left), hits) for at, hits in self.shown]
        return Answer(stripped, short_answer(stripped, self.question), cite(stripped, shown))


async def answer(dragin: "Dragin", question: Question, run: Run) -> Answer:
    """Write sentence by sentence; a doubtful one is cut before the doubt and goes on with other passages."""
    so_far = Progress(question, run, dragin.passages)
    reason, may_search = f"there were {dragin.max_rounds} rounds", True
    if dragin.search_first:
        why = "the first search is made with the question itself"
        await so_far.search(run.trace.decide("retrieve", "search", why, query=question.text))
    for step in range(dragin.max_rounds):
        room = dragin.max_tokens - so_far.num_tokens
        written = await _write(dragin, so_far, room, step)
        ended = so_far.end_reason(written, room)
        look = await _look(dragin, so_far, written)
        judged = judge(dragin, written, look, is_over=bool(ended))
        query = await _query(dragin, so_far, judged, look) if may_search else ""
        decision = _decide(dragin, so_far, judged, query, may_search=may_search)
        if decision.query and await so_far.search(decision):
            so_far.keep(judged.kept, sum(token.end <= len(judged.kept) for token in written.tokens))
            may_search = judged.is_whole and so_far.num_searches < dragin.max_searches
            continue
        if written.text in so_far.sentences and written.finish != "length":
            reason = "the sentence was written before, word for word"
            break
        so_far.keep(written.text, len(written.tokens))
        so_far.sentences.add(written.text)
        may_search = so_far.num_searches < dragin.max_searches
        if ended:
            reason = ended
            break
    run.trace.decide("end", "stop", reason)
    return so_far.answer()


async def _write(dragin: "Dragin", so_far: Progress, room: int, step: int) -> Generation:
    """The next sentence, and with attention one token more: a token's row exists once it has been fed."""
    run = so_far.run
    prompt = answer_prompt(
        run.model, so_far.question, so_far.hits, so_far.text, dragin.layout, dragin.wording
    )
    want = Want(
        logprob=dragin.trigger in ("rind", "token_probability"),
        entropy="entropy" in run.model.signals and dragin.trigger == "rind",
        attention=dragin.heads if dragin.attends and "attend" not in run.models else None,
    )
    is_counted = dragin.trigger == "every_tokens"
    until: Until | None = SentenceFollowed() if want.attention else SentenceEnd()
    (written,) = await run.model.generate(
        prompt,
        Sampling(min(room, dragin.every_tokens) if is_counted else room, stop=STOPS),
        want,
        None if is_counted else until,
        key=("sentence", step),
        watch=run.trace.draft,
    )
    return written


async def _look(dragin: "Dragin", so_far: Progress, written: Generation) -> Look | None:
    if not dragin.attends or not written.tokens:
        return None
    proxy = so_far.run.models.get("attend")
    if proxy is None:
        return own_look(written, so_far.question.text, so_far.text, so_far.run.model)
    return await proxy_look(written, so_far.question.text, so_far.text, proxy, dragin.heads)


async def _query(dragin: "Dragin", so_far: Progress, judged: Judged, look: Look | None) -> str:
    if judged.at is None:
        return ""
    if dragin.query == "real_words":
        words = look.words_before(judged.at) if look else []
        return weightiest([(word, weight) for word, weight in words if has_meaning(word)], dragin.query_top)
    asked, text, doubt = so_far.question.text, so_far.text.strip(), judged.doubt()
    asking = Asking(asked, text, doubt, dragin.linguistics, "", dragin.query_top)
    if dragin.query == "last_n_tokens":
        model = so_far.run.model
        return model.decode(model.tokenize(asking.so_far)[-dragin.query_top :]).strip()
    return await formulate(dragin.query, asking, so_far.run.model)


def _decide(dragin: "Dragin", so_far: Progress, judged: Judged, query: str, *, may_search: bool) -> Decided:
    signal = SIGNALS.get(dragin.trigger, "")
    if query:
        why = f"a word is above {dragin.threshold:g}" if signal else f"{dragin.trigger} is due"
    elif judged.at is None:
        why = f"no word is above {dragin.threshold:g}" if signal else "the answer is over"
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
        threshold=dragin.threshold if signal else None,
        words=judged.word_signals(),
        query=query,
    )


SIGNALS = {"rind": "doubt (nats) × relative attention", "token_probability": "1 − probability"}
