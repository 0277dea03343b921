"""The actions of AirRAG: what each asks of the model, and the states that its replies lead to."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from askance.core.ports import Run
from askance.core.types import Hit, Prompt, Question, Sampling, Watch
from askance.methods import airrag_prompts as prompts
from askance.methods.airrag_ahead import Ahead, Next, watching
from askance.methods.airrag_queries import parse_queries
from askance.methods.airrag_reward import Judge
from askance.methods.airrag_state import DA, QT, RA, SA, SAY, State
from askance.methods.airrag_voting import jcd_scores
from askance.methods.airrag_wording import REFUSAL, AirragWording
from askance.methods.budget import Allowance, NoRoom, most_that_fit
from askance.methods.plain_trace import without_markers
from askance.methods.searching import num_in_room, search_as_fits, search_for
from askance.text.answers import normalise_answer
from askance.text.fusion import fuse_hits
from askance.tree.nodes import Outcome

if TYPE_CHECKING:
    from askance.methods.airrag import Airrag

Said = tuple[str, ...]
Reply = tuple[tuple[Hit, ...], tuple[tuple[Said, int], ...]]
"""Passages, and the different answers that were given from them, each with how many samples gave it."""
Memory = dict[tuple[str, ...], tuple[tuple[Said, int], ...]]
"""What calls without chance have given, by what they were about."""

RA_TOKENS = 256
"""Set aside for what an answer adds to the last call: the most that it may be long."""


@dataclass(slots=True)
class Acting:
    """One rollout's calls.

    Attributes:
        memory: of rollouts that were over before this one began, and of its own.
        judge: who rewards paths; its calls are paid by `judging`, or by `allowance` where that is None.
        ahead: answers that were begun before the plan that asks for them was over.
        following: where the state that is drawn stands; None where nothing may be begun ahead.
    """

    airrag: "Airrag"
    question: Question
    run: Run
    allowance: Allowance
    memory: Memory = field(default_factory=dict)
    judge: Judge | None = None
    judging: Allowance | None = None
    ahead: Ahead[Reply] = field(default_factory=Ahead)
    following: Next | None = None

    @property
    def words(self) -> AirragWording:
        """Of the prompts."""
        return self.airrag.prompts

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
            self.run.model, self.question, self.airrag.analysis_demos, words=self.words
        )

        def planned(queries: Said) -> State:
            return state.planned(queries, self.question.text)

        watch = self._watch(planned)
        said = await self._said(SAY, (), prompt, node, parse_queries, self._closing(state), watch)
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
            self.airrag.transformation_demos,
            words=self.words,
        )
        watch = self._watch(state.transformed)
        said = await self._said(QT, about, prompt, node, parse_queries, self._closing(state), watch)
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
        node = following.node

        def begin(state: State) -> None:
            query = state.pending[0]
            self.ahead.begin(node, query, lambda: self._reply(query, state, node))

        return watching(following, state_of, begin)

    async def _reply(self, query: str, state: State, node: str) -> Reply:
        """The passages for a query, and what is said to it; nothing where none are found."""
        found = await self._search(query, state)
        if not found:
            return (), ()
        closing = self._closing(state)
        hits, prompt = self._fitting(
            found if self.airrag.passages else found[: self._num_passages(state, found)],
            lambda shown: prompts.retrieval_answer_prompt(self.run.model, shown, query, words=self.words),
            closing,
        )
        about = (normalise_answer(query), *(hit.passage.id for hit in hits))
        return found, await self._said(RA, about, prompt, node, _final, closing)

    async def _sum_up(self, state: State, node: str) -> list[Outcome[State]]:
        """The final answer; what has no room goes, worst passages first, then the oldest of the history.

        Where not even that leaves room, the last sub-query's answer stands for it.
        """
        try:
            prompt = self._summary(state)
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
            search, lambda hits: self._num_passages(state, hits, 1), airrag.most_passages
        )

    def _num_passages(self, state: State, found: Sequence[Hit], planned: int | None = None) -> int:
        """How many the window has room for, and the allowance, if those still to be asked for get as many.

        Those are the queue; in Lite, where nothing is planned, as many as there may be. A quarter of the
        allowance is the summary's, but of what is left after the plan only half.

        Args:
            planned: retrievals, this one included; None for those still to be asked for.
        """
        model, left = self.run.model, self.allowance.left

        def count(hits: Sequence[Hit]) -> int:
            return model.count(prompts.retrieval_answer_prompt(model, hits, "", words=self.words))

        room: float = model.context_tokens - self.airrag.answer_tokens - count(())
        if left is not None:
            is_lite, most = self.airrag.actions.is_lite, self.airrag.most_iterations
            planned = planned or max(1, most - state.times(RA) if is_lite else len(state.pending))
            passages = min(0.25 * (self.allowance.most or 0), 0.5 * left)
            for_summary = self._closing(state) + RA_TOKENS * planned + passages
            transforming = prompts.transformation_prompt(
                model, self.question, state.history, "", words=self.words
            )
            templates = planned * (model.count(transforming) + count(()))
            room = min(room, (left - for_summary - templates) / planned)
        return num_in_room(found, room, count)

    def _closing(self, state: State) -> int:
        """Input tokens that the final call takes without passages, as things stand."""
        if self.allowance.left is None:
            return 0
        prompt = prompts.summary_prompt(self.run.model, self.question, state.history, words=self.words)
        return self.run.model.count(prompt) + self.for_judging(state)

    def for_judging(self, state: State) -> int:
        """Input tokens for the reward model, once the path has ended."""
        if self.judge is None or self.judging is not None or self.allowance.left is None:
            return 0
        each = self.judge.count(state, self.airrag.summary_tokens)
        return each * self.airrag.answer_samples

    def _summary(self, state: State) -> Prompt:
        model, question, demos = self.run.model, self.question, self.airrag.summary_demos
        tops = {hits[0].passage.id for hits in state.found if hits}
        # Those dropped first stand last: all but the best of each retrieval, the worst of them at the end.
        ordered = sorted(state.hits, key=lambda hit: hit.passage.id not in tops)
        keep = self.for_judging(state)

        def has_room(prompt: Prompt) -> bool:
            return self._has_room(prompt, self.airrag.summary_tokens, keep)

        def with_hits(num_hits: int) -> Prompt:
            return prompts.summary_prompt(
                model, question, state.history, ordered[:num_hits], demos, words=self.words
            )

        num_hits = most_that_fit(len(ordered), lambda number: has_room(with_hits(number)))
        # Of as many as fit, some have no room as a rule.
        least = len(ordered) if self.airrag.passages else min(1, len(ordered))
        self.allowance.was_short |= num_hits is None or num_hits < least
        if num_hits is not None:
            return with_hits(num_hits)
        for oldest in range(len(state.history)):
            prompt = prompts.summary_prompt(model, question, state.history[oldest:], words=self.words)
            if has_room(prompt):
                return prompt
        raise NoRoom

    def _fitting(
        self, hits: tuple[Hit, ...], prompt_of: Callable[[Sequence[Hit]], Prompt], keep: int
    ) -> tuple[tuple[Hit, ...], Prompt]:
        """As many of the best passages as there is room for; at least one."""
        num_hits = most_that_fit(
            len(hits),
            lambda number: self._has_room(prompt_of(hits[:number]), self.airrag.answer_tokens, keep),
        )
        self.allowance.was_short |= num_hits != len(hits)
        if not num_hits:
            raise NoRoom
        return hits[:num_hits], prompt_of(hits[:num_hits])

    def _has_room(self, prompt: Prompt, max_tokens: int, keep: int = 0) -> bool:
        num_tokens = self.run.model.count(prompt)
        in_window = num_tokens + max_tokens <= self.run.model.context_tokens
        return in_window and self.allowance.fits(num_tokens, keep)

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
        generations = await self.allowance.generate(
            self.run.model, prompt, sampling, n=n, key=key, keep=keep, watch=watch
        )
        told = [without_markers(each.text, self.question, self.run.trace) for each in generations]
        return [text for text in told if any(map(str.isalnum, text))]


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
