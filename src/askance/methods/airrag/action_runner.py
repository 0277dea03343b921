"""The actions of AirRAG: what each asks of the model, and the states that its replies lead to."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from askance.core.errors import AskanceError, BudgetTooSmall, LimitReached, ModelSpecError
from askance.core.ports import Run
from askance.core.token_ledger import NoRoom, TokenLedger, has_room, most_that_fit
from askance.core.types import GenerateRequest, Hit, Prompt, Sampling
from askance.methods.airrag.choosing import jcd_scores
from askance.methods.airrag.mcts import RolloutOutcome
from askance.methods.airrag.parameters import AirragParameters
from askance.methods.airrag.prompt_template import REFUSAL
from askance.methods.airrag.prompts import Prompts, is_refusal, parse_final, parse_queries
from askance.methods.airrag.reward import PathJudge
from askance.methods.airrag.state import DA, QT, RA, SA, SAY, PathState
from askance.methods.common.answer_text import quotable_texts
from askance.methods.common.named_methods import member_answer
from askance.methods.common.search import estimate_fitting, search_for, search_to_fit
from askance.text.answers import normalise_answer
from askance.text.fusion import fuse_hits
from askance.text.markers import without_markers

RA_TOKENS = 256
"""Set aside for what an answer adds to the last call: the most that it may be long."""

Said = tuple[str, ...]
"""A reply: queries, or one answer."""
Replies = tuple[tuple[Said, int], ...]
"""Different replies, each with how many samples gave it."""
Memory = dict[tuple[str, ...], Replies]
"""What calls without chance have given, by what they were about."""


@dataclass(slots=True)
class Acting:
    """One rollout's calls.

    Attributes:
        prompts: for the model of the run; what it reads counts against `allowance`.
        judge: who rewards paths.
        memory: of rollouts that were over before this one began, and of its own.
    """

    airrag: AirragParameters
    prompts: Prompts
    run: Run
    allowance: TokenLedger
    judge: PathJudge | None = None
    memory: Memory = field(default_factory=dict)

    async def draw(self, state: PathState, node: str, action: str) -> list[RolloutOutcome[PathState]] | None:
        """The different states that an action leads to; none where it gives nothing, None without room."""
        own = {
            SAY: self._plan,
            DA: self._answer_directly,
            RA: self._answer_next,
            QT: self._transform,
            SA: self._sum_up,
        }
        try:
            outcomes = await (own[action](state, node) if action in own else self._further(state, action))
        except NoRoom:
            return None
        found: dict[object, RolloutOutcome[PathState]] = {}
        for each in outcomes:  # such as two replies with nothing but queries asked before
            same = found.get(each.state.key)
            found[each.state.key] = each if same is None else replace(same, votes=same.votes + each.votes)
        if self.judge is not None:
            ends = [each.state for each in found.values() if each.state.answer is not None]
            await self.judge.judge(ends, self.allowance)
        return list(found.values())

    async def _plan(self, state: PathState, node: str) -> list[RolloutOutcome[PathState]]:
        said = await self._said(SAY, state, self.prompts.say(), node)
        question = self.prompts.question.text
        return [RolloutOutcome(state.planned(queries, question), votes) for queries, votes in said]

    async def _answer_directly(self, state: PathState, node: str) -> list[RolloutOutcome[PathState]]:
        said = await self._said(DA, state, self.prompts.da(), node)
        return [RolloutOutcome(state.concluded(DA, answer), votes) for (answer,), votes in said]

    async def _transform(self, state: PathState, node: str) -> list[RolloutOutcome[PathState]]:
        current = state.pending[0] if state.pending else ""
        about = (current, *(f"{pair.question}\n{pair.answer}" for pair in state.history))
        said = await self._said(QT, state, self.prompts.qt(state.history, current), node, about)
        return [RolloutOutcome(state.transformed(queries), votes) for queries, votes in said]

    async def _answer_next(self, state: PathState, node: str) -> list[RolloutOutcome[PathState]]:
        """The head of the queue, answered from passages; without any, nothing is asked of the model.

        What was found and has no room here stays on the path: the summary may have room for it.
        """
        query = state.pending[0] if state.pending else self.prompts.question.text
        found = await self._search(query, state)
        if not found:
            return [RolloutOutcome(state.answered(query, REFUSAL, (), refused=True))]
        shown = found if self.airrag.passages else found[: self._num_passages(state, found)]

        def fits(number: int) -> bool:
            return self._has_room(RA, state, self.prompts.ra(shown[:number], query))

        num_hits = most_that_fit(len(shown), fits)
        self.allowance.was_short |= num_hits != len(shown)
        if not num_hits:
            raise NoRoom
        shown = shown[:num_hits]
        about = (normalise_answer(query), *(hit.passage.id for hit in shown))
        said = await self._said(RA, state, self.prompts.ra(shown, query), node, about)
        return [
            RolloutOutcome(state.answered(query, answer, found, refused=is_refusal(answer)), votes)
            for (answer,), votes in said
        ]

    async def _sum_up(self, state: PathState, node: str) -> list[RolloutOutcome[PathState]]:
        """The final answer; where its call has no room, the last sub-query's answer stands for it."""
        try:
            said = await self._said(SA, state, self._summary(state), node)
        except NoRoom:
            if not state.history:
                raise
            return [RolloutOutcome(state.concluded(SA, state.history[-1].answer, is_cut=True))]
        is_cut = self.allowance.was_short
        return [
            RolloutOutcome(state.concluded(SA, answer, is_cut=is_cut), votes) for (answer,), votes in said
        ]

    async def _further(self, state: PathState, name: str) -> list[RolloutOutcome[PathState]]:
        """Another method's answer. One that fails leaves the tree as it was, and the trace says so."""
        run, method = self.run, dict(self.airrag.actions.named)[name]
        aside = replace(run, trace=run.trace.aside())
        try:
            answer = await member_answer(name, method, self.prompts.question, aside, self.allowance)
        except (NoRoom, BudgetTooSmall):
            run.trace.decide("action", "no room", f"{name} does not fit into the budget")
            return []
        except (LimitReached, ModelSpecError):
            raise
        except AskanceError as error:
            run.trace.decide("action", "failed", f"{name}: {error}")
            return []
        short = answer.short or answer.text
        return [RolloutOutcome(state.concluded(name, short))] if short.strip() else []

    async def _search(self, query: str, state: PathState) -> tuple[Hit, ...]:
        """What `query` finds, or all queries of the QT before it, fused by their ranks."""
        airrag, last = self.airrag, state.steps[-1] if state.steps else None
        queries = last.said if airrag.multi_query and last and last.action == QT else ()

        async def search(k: int) -> tuple[Hit, ...]:
            found = [
                await search_for(each, self.run, k, "a sub-query is answered") for each in queries or (query,)
            ]
            return found[0] if len(found) == 1 else fuse_hits(found)[:k]

        return await search_to_fit(
            search, lambda hits: self._num_passages(state, hits, 1), airrag.passages, airrag.most_passages
        )

    async def _said(
        self, action: str, state: PathState, prompt: Prompt, node: str, about: Said = ()
    ) -> Replies:
        """The different replies, and how many samples gave each. Empty ones are asked for once more.

        The one that has most in common with all samples (equation 2) stands first: a rollout enters it.
        """
        sampling = self._sampling(action)
        num_samples, key = self.airrag.samples_of(action), (node, action)
        remembered = (action, *about)
        may_remember = sampling.temperature == 0 and action in (RA, QT)
        if may_remember and remembered in self.memory:
            return self.memory[remembered]
        asked = GenerateRequest(prompt, sampling, n=num_samples, key=key)
        written = await self._written(action, state, asked)
        if len(written) < num_samples:
            again = replace(asked, n=num_samples - len(written), key=(*key, "again"))
            with suppress(NoRoom):  # what was written before stands
                written += await self._written(action, state, again)
        votes: dict[Said, tuple[Said, int]] = {}
        for text in written:
            said = parse_queries(text) if action in (SAY, QT) else (parse_final(text),)
            if action in (SAY, QT) or said[0]:
                compared = tuple(map(normalise_answer, said))
                first, count = votes.get(compared, (said, 0))
                votes[compared] = (first, count + 1)
        found = _by_agreement(list(votes.values()))
        if may_remember:
            self.memory[remembered] = found
        return found

    async def _written(self, action: str, state: PathState, asked: GenerateRequest) -> list[str]:
        """What the samples say, without citation markers: what was found up to now may be quoted."""
        question, events = self.prompts.question, self.run.trace.events
        before = len(events)
        if not self._has_room(action, state, asked.prompt):
            self.allowance.was_short = True
            raise NoRoom
        found = await self.prompts.model.generate(asked)
        told = [
            without_markers(each.text, lambda: quotable_texts(question, events[:before])).text
            for each in found
        ]
        return [text for text in told if any(map(str.isalnum, text))]

    def _sampling(self, action: str) -> Sampling:
        return self.airrag.sampling(action, is_chat="chat" in self.prompts.model.capabilities)

    def _num_passages(self, state: PathState, found: Sequence[Hit], planned: int | None = None) -> int:
        """How many the window has room for, and the allowance, if those still to be asked for get as many.

        Those are the queue; in Lite, where nothing is planned, as many as there may be. A quarter of the
        allowance is the summary's, but of what is left after the plan only half.

        Args:
            planned: retrievals, this one included; None for those still to be asked for.
        """
        airrag, model, left = self.airrag, self.prompts.model, self.allowance.left

        def count(hits: Sequence[Hit]) -> int:
            return model.count(self.prompts.ra(hits, ""))

        room: float = model.context_tokens - airrag.answer_tokens - count(())
        if left is not None:
            rest = airrag.most_iterations - state.times(RA) if airrag.actions.is_lite else len(state.pending)
            planned = planned or max(1, rest)
            passages = min(0.25 * (self.allowance.most or 0), 0.5 * left)
            for_summary = self.closing(state) + RA_TOKENS * planned + passages
            templates = planned * (model.count(self.prompts.qt(state.history, "")) + count(()))
            room = min(room, (left - for_summary - templates) / planned)
        return estimate_fitting(found, room, count)

    def closing(self, state: PathState) -> int:
        """Input tokens that the final call takes without passages, as things stand."""
        if self.allowance.left is None:
            return 0
        return self.prompts.model.count(self.prompts.sa(state.history)) + self.for_judging(state)

    def for_judging(self, state: PathState) -> int:
        """Input tokens for the reward model, once the path has ended."""
        if self.judge is None or self.judge.ledger is not None or self.allowance.left is None:
            return 0
        return self.judge.count(state, self.airrag.summary_tokens) * self.airrag.answer_samples

    def _summary(self, state: PathState) -> Prompt:
        """The final call's prompt; what has no room goes, worst passages first, then the oldest answers.

        Raises:
            NoRoom: not even the last sub-query with its answer has room.
        """
        tops = {hits[0].passage.id for hits in state.found if hits}
        # Those dropped first stand last: all but the best of each retrieval, the worst of them at the end.
        ordered = sorted(state.hits, key=lambda hit: hit.passage.id not in tops)

        def fits(prompt: Prompt) -> bool:
            return self._has_room(SA, state, prompt)

        def with_hits(number: int) -> Prompt:
            return self.prompts.sa(state.history, ordered[:number], shows_examples=True)

        num_hits = most_that_fit(len(ordered), lambda number: fits(with_hits(number)))
        # Of as many as fit, some have no room as a rule.
        least = len(ordered) if self.airrag.passages else min(1, len(ordered))
        self.allowance.was_short |= num_hits is None or num_hits < least
        if num_hits is not None:
            return with_hits(num_hits)
        shorter = (self.prompts.sa(state.history[oldest:]) for oldest in range(len(state.history)))
        prompt = next(filter(fits, shorter), None)
        if prompt is None:
            raise NoRoom
        return prompt

    def _has_room(self, action: str, state: PathState, prompt: Prompt) -> bool:
        """Whether a call has room, and behind it what ends the path."""
        keep = self.for_judging(state) if action in (DA, SA) else self.closing(state)
        return has_room(self.prompts.model, prompt, self._sampling(action).max_tokens, keep=keep)


def _by_agreement(found: Sequence[tuple[Said, int]]) -> Replies:
    """Replies, the one with the most in common with all samples first; equal ones stay in their order."""
    scores = jcd_scores([" ".join(said) for said, _ in found], [votes for _, votes in found])
    order = sorted(range(len(found)), key=lambda at: -round(scores[at], 9))
    return tuple(found[at] for at in order)
