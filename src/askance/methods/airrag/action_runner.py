"""Run the actions of AirRAG: prompt the model for each, and turn its replies into new states."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from askance.core.errors import BudgetTooSmall
from askance.core.ports import Run
from askance.core.token_ledger import NoRoom, TokenLedger, has_room, most_that_fit
from askance.core.types import GenerateRequest, Hit, Prompt, Sampling
from askance.methods.airrag.parameters import AirragParameters
from askance.methods.airrag.prompts import REFUSAL, PromptBuilder, parse_final, parse_queries
from askance.methods.airrag.reward import PathRewardModel
from askance.methods.airrag.state import DA, QT, RA, SA, SAY, PathState
from askance.methods.airrag.verifiers import jcd_scores
from askance.methods.common.answer_text import parse_markers
from askance.methods.common.named_methods import member_answer
from askance.methods.common.search import estimate_fitting, search_for, search_to_fit

RA_TOKENS = 256
"""The number of input tokens reserved in the summary call for the answer of each RA."""

Reply = tuple[str, ...]
"""A parsed reply: either queries or one answer."""


@dataclass(slots=True)
class ActionRunner:
    """A runner of one rollout's actions.

    Attributes:
        prompts: The prompt builder of RA, SA and DA. The calls of its model spend `budget`.
        planning: The same of SAY and QT, whose model may be another (the role "plan").
    """

    parameters: AirragParameters
    prompts: PromptBuilder
    planning: PromptBuilder
    run: Run
    budget: TokenLedger
    reward_model: PathRewardModel | None = None

    async def expand(self, state: PathState, node: str, action: str) -> list[PathState] | None:
        """Return the distinct states that an action leads to, or None if no budget is left.

        An empty list means that the action has no outcome.
        """
        try:
            outcomes = await self._outcomes(state, node, action)
        except NoRoom:
            return None
        votes = Counter(each.key for each in outcomes)
        distinct = {each.key: each for each in reversed(outcomes)}  # the first outcome with each key
        states = [
            replace(distinct[key], votes=number, share=state.share * (number / len(outcomes)))
            for key, number in votes.items()
        ]
        if self.reward_model is not None:
            for each in states:
                await self.reward_model.judge_path(each, self.budget, await self.tokens_to_finish(each, RA))
        return states

    async def _outcomes(self, state: PathState, node: str, action: str) -> list[PathState]:
        if action == SAY:
            plans = await self._sample(SAY, state, node, self.planning.say())
            return [state.with_plan(queries, self.prompts.question.text) for queries in plans]
        if action == RA:
            return await self._answer_next(state, node)
        if action == QT:
            prompt = self.planning.qt(state.history, state.pending[0] if state.pending else "")
            return list(map(state.with_queries, await self._sample(QT, state, node, prompt)))
        if action == SA:
            return await self._summarise(state, node)
        if action == DA:
            replies = await self._sample(DA, state, node, self.prompts.da())
            return [state.with_final_answer(DA, answer) for (answer,) in replies]
        return await self._run_method(state, action)

    async def _answer_next(self, state: PathState, node: str) -> list[PathState]:
        """Answer the first sub-query in the queue from passages.

        If no passages are found, the outcome is a refusal, and the model is not called. Passages that don't
        fit this prompt stay on the path, because the summary may have room for them.
        """
        query = state.pending[0] if state.pending else self.prompts.question.text
        passages = self.parameters.passages
        hits = await search_to_fit(
            lambda k: search_for(query, self.run, k, "a sub-query is answered"),
            lambda hits: self._num_passages(state, hits, 1),
            passages,
        )
        if not hits:
            return [state.with_answer(query, REFUSAL, ())]
        shown = hits if passages else hits[: await self._num_passages(state, hits)]
        num_hits = await most_that_fit(
            len(shown), lambda number: self._has_room(RA, state, self.prompts.ra(shown[:number], query))
        )
        self.budget.was_short |= num_hits != len(shown)
        if not num_hits:
            raise NoRoom
        replies = await self._sample(RA, state, node, self.prompts.ra(shown[:num_hits], query))
        return [state.with_answer(query, answer, hits) for (answer,) in replies]

    async def _summarise(self, state: PathState, node: str) -> list[PathState]:
        """Return the outcomes of the summary call, each with a final answer.

        If the call does not fit, the answer to the last sub-query becomes the final answer.
        """
        try:
            replies = await self._sample(SA, state, node, await self._summary_prompt(state))
        except NoRoom:
            if not state.history:
                raise
            return [state.with_final_answer(SA, state.history[-1].answer, is_cut=True)]
        is_cut = self.budget.was_short
        return [state.with_final_answer(SA, answer, is_cut=is_cut) for (answer,) in replies]

    async def _run_method(self, state: PathState, name: str) -> list[PathState]:
        """Return the answer of another method as an outcome.

        If the method fails, the trace records the failure, and there is no outcome.
        """
        run, method = self.run, dict(self.parameters.actions.named)[name]
        aside = replace(run, trace=run.trace.aside())
        answer, error = await member_answer(name, method, self.prompts.question, aside, self.budget)
        if error is not None:
            has_no_room = isinstance(error, NoRoom | BudgetTooSmall)
            run.trace.decide("action", "no room" if has_no_room else "failed", f"{name}: {error}")
        short = answer.short or answer.text
        return [state.with_final_answer(name, short)] if short.strip() else []

    async def _sample(self, action: str, state: PathState, node: str, prompt: Prompt) -> list[Reply]:
        """Return the replies of all samples that hold a query or an answer.

        Empty replies are sampled again once. The reply most similar to all samples (equation 2) comes first,
        because the rollout continues with the first reply.
        """
        lists_queries, parameters = action in (SAY, QT), self.parameters
        num_samples = parameters.samples if lists_queries else parameters.answer_samples
        request = GenerateRequest(prompt, self._sampling(action), n=num_samples, key=(node, action))
        texts = await self._generate(action, state, request)
        if len(texts) < num_samples:
            again = replace(request, n=num_samples - len(texts), key=(*request.key, "again"))
            with suppress(NoRoom):  # the first samples still count
                texts += await self._generate(action, state, again)
        replies = [parse_queries(text) if lists_queries else (parse_final(text),) for text in texts]
        replies = [reply for reply in replies if lists_queries or reply[0]]
        scores = dict(zip(replies, jcd_scores(list(map(" ".join, replies))), strict=True))
        return sorted(replies, key=lambda reply: -round(scores[reply], 9))

    async def _generate(self, action: str, state: PathState, request: GenerateRequest) -> list[str]:
        """Return the samples that have a letter or digit, without citation markers.

        Markers that the model quotes from the question or from passages stay.
        """
        if not await self._has_room(action, state, request.prompt):
            self.budget.was_short = True
            raise NoRoom
        samples = await self._prompts_of(action).model.generate(request)
        texts = [parse_markers(each.text, self.prompts.question, self.run.trace).text for each in samples]
        return [text for text in texts if any(map(str.isalnum, text))]

    def _sampling(self, action: str) -> Sampling:
        capabilities = self._prompts_of(action).model.capabilities
        return self.parameters.sampling(action, is_chat="chat" in capabilities)

    def _prompts_of(self, action: str) -> PromptBuilder:
        return self.planning if action in (SAY, QT) else self.prompts

    async def _num_passages(self, state: PathState, hits: Sequence[Hit], planned: int | None = None) -> int:
        """Return how many passages fit the context window and the token budget.

        The budget is divided equally among the planned retrievals. One retrieval is planned for each
        sub-query in the queue. In AirRAG-Lite, which has no plan, one is planned for each RA step that is
        still allowed. A quarter of the whole budget, but at most half of what is left, is reserved for the
        passages in the summary prompt.

        Args:
            planned: The number of planned retrievals, including this one. If None, they are counted from
                `state`.
        """
        params, model, left = self.parameters, self.prompts.model, self.budget.left

        async def count(hits: Sequence[Hit]) -> int:
            return await model.count(self.prompts.ra(hits, ""))

        room: float = model.context_tokens - params.max_tokens - await count(())
        if left is not None:
            rest = params.most_iterations - state.count(RA) if params.actions.is_lite else len(state.pending)
            planned = planned or max(1, rest)
            passages = min(0.25 * (self.budget.most or 0), 0.5 * left)
            for_summary = await self.tokens_to_finish(state, RA) + RA_TOKENS * planned + passages
            transformed = await self.planning.model.count(self.planning.qt(state.history, ""))
            templates = planned * (transformed + await count(()))
            room = min(room, (left - for_summary - templates) / planned)
        return await estimate_fitting(hits, room, count)

    async def tokens_to_finish(self, state: PathState, action: str) -> int:
        """Return the number of input tokens that a path needs after its next action, without passages.

        These are the tokens of the summary call, if `action` does not end the path, and of the reward model.
        The result is 0 if the budget has no limit.
        """
        if self.budget.left is None:
            return 0
        num_tokens = 0
        if action not in (DA, SA):
            num_tokens = await self.prompts.model.count(self.prompts.sa(state.history))
        if self.reward_model is not None:
            num_judged = await self.reward_model.count(state, self._sampling(SA).max_tokens)
            num_tokens += num_judged * self.parameters.answer_samples
        return num_tokens

    async def _summary_prompt(self, state: PathState) -> Prompt:
        """Return the summary prompt.

        If the prompt is too long, the worst passages are dropped first, and then the oldest answers.

        Raises:
            NoRoom: Not even the last sub-query with its answer fits.
        """
        tops = {hits[0].passage.id for hits in state.found if hits}
        # Passages are dropped from the end, so the best passage of each retrieval comes first.
        ordered = sorted(state.hits, key=lambda hit: hit.passage.id not in tops)
        num_hits = await most_that_fit(
            len(ordered),
            lambda number: self._has_room(SA, state, self.prompts.sa(state.history, ordered[:number])),
        )
        # If `passages` is 0, the search fetched as many as might fit, so dropping some is normal.
        least = len(ordered) if self.parameters.passages else min(1, len(ordered))
        self.budget.was_short |= num_hits is None or num_hits < least
        if num_hits is not None:
            return self.prompts.sa(state.history, ordered[:num_hits])
        for oldest in range(1, len(state.history)):
            prompt = self.prompts.sa(state.history[oldest:])
            if await self._has_room(SA, state, prompt):
                return prompt
        raise NoRoom

    async def _has_room(self, action: str, state: PathState, prompt: Prompt) -> bool:
        """Return whether a call fits and leaves room for the calls that are needed to finish the path."""
        model, keep = self._prompts_of(action).model, await self.tokens_to_finish(state, action)
        return await has_room(model, prompt, self._sampling(action).max_tokens, keep=keep)
