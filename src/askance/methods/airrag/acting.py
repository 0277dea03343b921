"""The actions of AirRAG: what each asks of the model, and the states that its replies lead to."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from askance.core.types import Hit, Prompt, Sampling, Watch
from askance.methods.airrag import prompts
from askance.methods.airrag.ahead import Ahead, Next, watching
from askance.methods.airrag.choosing import jcd_scores
from askance.methods.airrag.prompts import parse_queries
from askance.methods.airrag.room import Room
from askance.methods.airrag.state import DA, QT, RA, SA, SAY, State
from askance.methods.airrag.wording import REFUSAL
from askance.methods.budget import NoRoom
from askance.methods.plain_trace import quotable
from askance.methods.searching import search_as_fits, search_for
from askance.text.answers import normalise_answer
from askance.text.fusion import fuse_hits
from askance.text.markers import plain
from askance.tree.nodes import Outcome

Said = tuple[str, ...]
Reply = tuple[tuple[Hit, ...], tuple[tuple[Said, int], ...]]
"""Passages, and the different answers that were given from them, each with how many samples gave it."""
Memory = dict[tuple[str, ...], tuple[tuple[Said, int], ...]]
"""What calls without chance have given, by what they were about."""


@dataclass(slots=True)
class Acting(Room):
    """One rollout's calls.

    Attributes:
        memory: of rollouts that were over before this one began, and of its own.
        ahead: answers that were begun before the plan that asks for them was over.
        following: where the state that is drawn stands; None where nothing may be begun ahead.
    """

    memory: Memory = field(default_factory=dict)
    ahead: Ahead[Reply] = field(default_factory=Ahead)
    following: Next | None = None

    async def draw(self, state: State, node: str, action: str) -> list[Outcome[State]] | None:
        """The different states that an action leads to; none where it gives nothing, None without room."""
        try:
            outcomes = _merged(await self._drawn(state, node, action))
        except NoRoom:
            return None
        if self.judge is not None:
            ends = [each.state for each in outcomes if each.state.answer is not None]
            await self.judge.judge(ends, self.judging or self.allowance)
        return outcomes

    async def _drawn(self, state: State, node: str, action: str) -> list[Outcome[State]]:
        own = {
            SAY: self._analyse,
            DA: self._answer_directly,
            RA: self._answer_next,
            QT: self._transform,
            SA: self._sum_up,
        }
        if action in own:
            return await own[action](state, node)
        return await self._further(state, action)

    async def _analyse(self, state: State, node: str) -> list[Outcome[State]]:
        prompt = prompts.analysis_prompt(
            self.run.model, self.question, self.airrag.demos("say"), words=self.words
        )

        def planned(queries: Said) -> State:
            return state.planned(queries, self.question.text)

        watch = self._watch(planned)
        said = await self._said(SAY, (), prompt, node, parse_queries, self.closing(state), watch)
        return [Outcome(planned(queries), votes) for queries, votes in said]

    async def _answer_directly(self, state: State, node: str) -> list[Outcome[State]]:
        prompt = prompts.direct_prompt(self.run.model, self.question, words=self.words)
        said = await self._said(DA, (), prompt, node, _final, self.for_judging(state))
        return [Outcome(state.concluded(DA, answer), votes) for (answer,), votes in said]

    async def _transform(self, state: State, node: str) -> list[Outcome[State]]:
        current = state.pending[0] if state.pending else ""
        about = (current, *(f"{pair.question}\n{pair.answer}" for pair in state.history))
        prompt = prompts.transformation_prompt(
            self.run.model,
            self.question,
            state.history,
            current,
            self.airrag.demos("qt"),
            words=self.words,
        )
        watch = self._watch(state.transformed)
        said = await self._said(QT, about, prompt, node, parse_queries, self.closing(state), watch)
        return [Outcome(state.transformed(queries), votes) for queries, votes in said]

    async def _answer_next(self, state: State, node: str) -> list[Outcome[State]]:
        """The head of the queue, answered from passages; without any, nothing is asked of the model.

        What was found and has no room here stays on the path: the summary may have room for it.
        """
        query = state.pending[0] if state.pending else self.question.text
        begun = self.ahead.take(node, query)
        found, said = await (begun or self._reply(query, state, node))
        if not found:
            return [Outcome(state.answered(query, REFUSAL, (), refused=True))]
        return [
            Outcome(state.answered(query, answer, found, refused=prompts.is_refusal(answer)), votes)
            for (answer,), votes in said
        ]

    def _watch(self, state_of: Callable[[Said], State]) -> Watch | None:
        """Begins the answer to the first query of a plan as soon as it is known, where it comes next."""
        following = self.following
        if following is None:
            return None
        node, without_markers = following.node, self._unmarking()

        def begin(state: State) -> None:
            query = state.pending[0]
            self.ahead.begin(node, query, lambda: self._reply(query, state, node))

        return watching(following, lambda text: state_of(parse_queries(without_markers(text))), begin)

    async def _reply(self, query: str, state: State, node: str) -> Reply:
        """The passages for a query, and what is said to it; nothing where none are found."""
        found = await self._search(query, state)
        if not found:
            return (), ()
        closing = self.closing(state)
        hits, prompt = self.fitting(
            found if self.airrag.passages else found[: self.num_passages(state, found)],
            lambda shown: prompts.retrieval_answer_prompt(self.run.model, shown, query, words=self.words),
            closing,
        )
        about = (normalise_answer(query), *(hit.passage.id for hit in hits))
        return found, await self._said(RA, about, prompt, node, _final, closing)

    async def _sum_up(self, state: State, node: str) -> list[Outcome[State]]:
        """The final answer; where its call has no room, the last sub-query's answer stands for it."""
        try:
            prompt = self.summary(state)
            said = await self._said(SA, (), prompt, node, _final, self.for_judging(state))
        except NoRoom:
            if not state.history:
                raise
            return [Outcome(state.concluded(SA, state.history[-1].answer, is_cut=True))]
        is_cut = self.allowance.was_short
        return [Outcome(state.concluded(SA, answer, is_cut=is_cut), votes) for (answer,), votes in said]

    async def _further(self, state: State, action: str) -> list[Outcome[State]]:
        """Another method's answer. One that fails leaves the tree as it was, and the trace says so."""
        answer = await self.airrag.actions.answer(action, self.question, self.run, self.allowance)
        short = (answer.short or answer.text) if answer else ""
        return [Outcome(state.concluded(action, short))] if short.strip() else []

    async def _search(self, query: str, state: State) -> tuple[Hit, ...]:
        """What `query` finds, or all queries of the QT before it, fused by their ranks."""
        airrag, last = self.airrag, state.steps[-1] if state.steps else None
        queries = last.said if airrag.multi_query and last and last.action == QT else ()

        async def search(k: int) -> tuple[Hit, ...]:
            found = [
                await search_for(each, self.run, k, "a sub-query is answered") for each in queries or (query,)
            ]
            return found[0] if len(found) == 1 else fuse_hits(found)[:k]

        if airrag.passages:
            return await search(airrag.passages)
        return await search_as_fits(
            search, lambda hits: self.num_passages(state, hits, 1), airrag.most_passages
        )

    async def _said(
        self,
        action: str,
        about: Said,
        prompt: Prompt,
        node: str,
        read: Callable[[str], Said],
        keep: int = 0,
        watch: Watch | None = None,
    ) -> tuple[tuple[Said, int], ...]:
        """The different replies, and how many samples gave each. Empty ones are asked for once more.

        The one that has most in common with all samples (equation 2) stands first: a rollout enters it.
        """
        is_chat = "chat" in self.run.model.capabilities
        sampling = self.airrag.sampling(action, is_chat=is_chat)
        num_samples = self.airrag.samples_of(action)
        remembered = (action, *about)
        may_remember = sampling.temperature == 0 and action in (RA, QT)
        if may_remember and remembered in self.memory:
            return self.memory[remembered]
        written = await self._written(prompt, sampling, num_samples, (node, action), keep, watch)
        num_missing = num_samples - len(written)
        if num_missing:
            again = (node, action, "again")
            with suppress(NoRoom):  # what was written before stands
                written += await self._written(prompt, sampling, num_missing, again, keep)
        votes: dict[Said, tuple[Said, int]] = {}
        for said in map(read, written):
            if action in (RA, SA, DA) and not said[0]:
                continue
            first, count = votes.get(_compared(said), (said, 0))
            votes[_compared(said)] = (first, count + 1)
        found = _by_agreement(list(votes.values()))
        if may_remember:
            self.memory[remembered] = found
        return found

    async def _written(
        self,
        prompt: Prompt,
        sampling: Sampling,
        n: int,
        key: tuple[str, ...],
        keep: int,
        watch: Watch | None = None,
    ) -> list[str]:
        without_markers = self._unmarking()
        generations = await self.allowance.generate(
            self.run.model, prompt, sampling, n=n, key=key, keep=keep, watch=watch
        )
        told = [without_markers(each.text) for each in generations]
        return [text for text in told if any(map(str.isalnum, text))]

    def _unmarking(self) -> Callable[[str], str]:
        """Takes citation markers out of a reply that is asked for now.

        What was found up to now may be quoted, not what others find meanwhile.
        """
        events, question = self.run.trace.events, self.question
        before = len(events)
        return lambda text: plain(text, lambda: quotable(question, events[:before])).text


def _merged(outcomes: Sequence[Outcome[State]]) -> list[Outcome[State]]:
    """Outcomes that are the same state as one, such as two replies with nothing but queries asked before."""
    found: dict[object, Outcome[State]] = {}
    for each in outcomes:
        same = found.get(each.state.key)
        found[each.state.key] = each if same is None else replace(same, votes=same.votes + each.votes)
    return list(found.values())


def _by_agreement(found: Sequence[tuple[Said, int]]) -> tuple[tuple[Said, int], ...]:
    """Replies, the one with the most in common with all samples first; equal ones stay in their order."""
    scores = jcd_scores([" ".join(said) for said, _ in found], [votes for _, votes in found])
    order = sorted(range(len(found)), key=lambda at: -round(scores[at], 9))
    return tuple(found[at] for at in order)


def _final(text: str) -> Said:
    return (prompts.parse_final(text),)


def _compared(said: Said) -> Said:
    return tuple(map(normalise_answer, said))
