"""Run the actions of AirRAG: prompt the model for each, and turn its replies into new states."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from askance.core.errors import AskanceError, BudgetTooSmall, LimitReached, ModelSpecError
from askance.core.ports import Run
from askance.core.token_ledger import NoRoom, TokenLedger, has_room, most_that_fit
from askance.core.types import GenerateRequest, Hit, Prompt, Sampling
from askance.methods.airrag.mcts import ActionOutcome
from askance.methods.airrag.parameters import AirragParameters
from askance.methods.airrag.prompt_template import REFUSAL
from askance.methods.airrag.prompts import PromptBuilder, is_refusal, parse_final, parse_queries
from askance.methods.airrag.reward import PathRewardModel
from askance.methods.airrag.state import DA, QT, RA, SA, SAY, PathState
from askance.methods.airrag.verifiers import jcd_scores
from askance.methods.common.answer_text import quotable_texts
from askance.methods.common.named_methods import member_answer
from askance.methods.common.search import estimate_fitting, search_for, search_to_fit
from askance.text.answers import normalise_answer
from askance.text.fusion import fuse_hits
from askance.text.markers import without_markers

RA_TOKENS = 256
"""The number of input tokens reserved in the summary call for the answer of each RA."""

Reply = tuple[str, ...]
"""A parsed reply: either queries or one answer."""
Replies = tuple[tuple[Reply, int], ...]
"""Distinct replies, each with the number of samples that gave this reply."""
ReplyCache = dict[tuple[str, ...], Replies]
"""The replies of deterministic calls, keyed by their inputs."""


@dataclass(slots=True)
class ActionRunner:
    """A runner of one rollout's actions.

    Attributes:
        prompts: The prompt builder of RA, SA and DA. The calls of its model spend `budget`.
        planning: The same of SAY and QT, whose model may be another (the role "plan").
        reply_cache: The replies of this rollout and of all rollouts that ended before this one started.
    """

    parameters: AirragParameters
    prompts: PromptBuilder
    planning: PromptBuilder
    run: Run
    budget: TokenLedger
    reward_model: PathRewardModel | None = None
    reply_cache: ReplyCache = field(default_factory=dict)

    async def expand(self, state: PathState, node: str, action: str) -> list[ActionOutcome[PathState]] | None:
        """Return the distinct outcomes of an action, or None if no budget is left.

        An empty list means that the action has no outcome.
        """
        handlers = {
            SAY: self._plan,
            DA: self._answer_directly,
            RA: self._answer_next,
            QT: self._transform_query,
            SA: self._summarise,
        }
        try:
            handler = handlers.get(action)
            outcomes = await (handler(state, node) if handler else self._run_method(state, action))
        except NoRoom:
            return None
        distinct: dict[object, ActionOutcome[PathState]] = {}
        for each in outcomes:  # replies may lead to the same state, for example if all queries are repeats
            same = distinct.get(each.state.key)
            distinct[each.state.key] = each if same is None else replace(same, votes=same.votes + each.votes)
        total = sum(each.votes for each in distinct.values())
        found = [
            replace(each, state=replace(each.state, share=state.share * each.votes / total))
            for each in distinct.values()
        ]
        if self.reward_model is not None:
            states = [each.state for each in found]
            await self.reward_model.judge_paths(states, self.budget, self.tokens_to_finish)
        return found

    async def _plan(self, state: PathState, node: str) -> list[ActionOutcome[PathState]]:
        replies = await self._sample_replies(SAY, state, self.planning.say(), node)
        question = self.prompts.question.text
        return [ActionOutcome(state.with_plan(queries, question), votes) for queries, votes in replies]

    async def _answer_directly(self, state: PathState, node: str) -> list[ActionOutcome[PathState]]:
        replies = await self._sample_replies(DA, state, self.prompts.da(), node)
        return [ActionOutcome(state.with_final_answer(DA, answer), votes) for (answer,), votes in replies]

    async def _transform_query(self, state: PathState, node: str) -> list[ActionOutcome[PathState]]:
        current = state.pending[0] if state.pending else ""
        about = (current, *(f"{pair.question}\n{pair.answer}" for pair in state.history))
        prompt = self.planning.qt(state.history, current)
        replies = await self._sample_replies(QT, state, prompt, node, about)
        return [ActionOutcome(state.with_queries(queries), votes) for queries, votes in replies]

    async def _answer_next(self, state: PathState, node: str) -> list[ActionOutcome[PathState]]:
        """Answer the first sub-query in the queue from passages.

        If no passages are found, the outcome is a refusal, and the model is not called. Passages that don't
        fit this prompt stay on the path, because the summary may have room for them.
        """
        query = state.pending[0] if state.pending else self.prompts.question.text
        found = await self._search(query, state)
        if not found:
            return [ActionOutcome(state.with_answer(query, REFUSAL, (), is_refused=True))]
        shown = found if self.parameters.passages else found[: await self._num_passages(state, found)]

        async def fits(number: int) -> bool:
            return await self._has_room(RA, state, self.prompts.ra(shown[:number], query))

        num_hits = await most_that_fit(len(shown), fits)
        self.budget.was_short |= num_hits != len(shown)
        if not num_hits:
            raise NoRoom
        shown = shown[:num_hits]
        about = (normalise_answer(query), *(hit.passage.id for hit in shown))
        replies = await self._sample_replies(RA, state, self.prompts.ra(shown, query), node, about)
        return [
            ActionOutcome(state.with_answer(query, answer, found, is_refused=is_refusal(answer)), votes)
            for (answer,), votes in replies
        ]

    async def _summarise(self, state: PathState, node: str) -> list[ActionOutcome[PathState]]:
        """Return the outcomes of the summary call, each with a final answer.

        If the call does not fit, the answer to the last sub-query becomes the final answer.
        """
        try:
            replies = await self._sample_replies(SA, state, await self._summary_prompt(state), node)
        except NoRoom:
            if not state.history:
                raise
            return [ActionOutcome(state.with_final_answer(SA, state.history[-1].answer, is_cut=True))]
        is_cut = self.budget.was_short
        return [
            ActionOutcome(state.with_final_answer(SA, answer, is_cut=is_cut), votes)
            for (answer,), votes in replies
        ]

    async def _run_method(self, state: PathState, name: str) -> list[ActionOutcome[PathState]]:
        """Return the answer of another method as an outcome.

        If the method fails, the trace records the failure, and there is no outcome.
        """
        run, method = self.run, dict(self.parameters.actions.named)[name]
        aside = replace(run, trace=run.trace.aside())
        try:
            answer = await member_answer(name, method, self.prompts.question, aside, self.budget)
        except (NoRoom, BudgetTooSmall):
            run.trace.decide("action", "no room", f"{name} does not fit the budget")
            return []
        except (LimitReached, ModelSpecError):
            raise
        except AskanceError as error:
            run.trace.decide("action", "failed", f"{name}: {error}")
            return []
        short = answer.short or answer.text
        return [ActionOutcome(state.with_final_answer(name, short))] if short.strip() else []

    async def _search(self, query: str, state: PathState) -> tuple[Hit, ...]:
        """Return the passages for `query`.

        With `multi_query`, the queries of the last QT are searched instead, if QT was the last action and
        gave any queries. The rankings of these queries are fused.
        """
        params, last = self.parameters, state.steps[-1] if state.steps else None
        queries = last.output if params.multi_query and last and last.action == QT else ()

        async def search(k: int) -> tuple[Hit, ...]:
            rankings = [
                await search_for(each, self.run, k, "a sub-query is answered") for each in queries or (query,)
            ]
            return rankings[0] if len(rankings) == 1 else fuse_hits(rankings)[:k]

        return await search_to_fit(
            search, lambda hits: self._num_passages(state, hits, 1), params.passages, params.most_passages
        )

    async def _sample_replies(
        self, action: str, state: PathState, prompt: Prompt, node: str, about: Reply = ()
    ) -> Replies:
        """Return the distinct replies, each with the number of samples that gave this reply.

        Empty replies are sampled again once. The reply most similar to all samples (equation 2) comes first,
        because the rollout continues with the first reply.
        """
        sampling = self._sampling(action)
        num_samples, key = self.parameters.samples_of(action), (node, action)
        cache_key = (action, *about)
        is_cacheable = sampling.temperature == 0 and action in (RA, QT)
        if is_cacheable and cache_key in self.reply_cache:
            return self.reply_cache[cache_key]
        request = GenerateRequest(prompt, sampling, n=num_samples, key=key)
        written = await self._generate(action, state, request)
        if len(written) < num_samples:
            again = replace(request, n=num_samples - len(written), key=(*key, "again"))
            with suppress(NoRoom):  # the first samples still count
                written += await self._generate(action, state, again)
        votes: dict[Reply, tuple[Reply, int]] = {}
        for text in written:
            reply = parse_queries(text) if action in (SAY, QT) else (parse_final(text),)
            if action in (SAY, QT) or reply[0]:
                compared = tuple(map(normalise_answer, reply))
                first, count = votes.get(compared, (reply, 0))
                votes[compared] = (first, count + 1)
        replies = _by_agreement(list(votes.values()))
        if is_cacheable:
            self.reply_cache[cache_key] = replies
        return replies

    async def _generate(self, action: str, state: PathState, request: GenerateRequest) -> list[str]:
        """Return the samples that have a letter or digit, without citation markers.

        Markers that the model quotes from the question or from passages stay.
        """
        question, events = self.prompts.question, self.run.trace.events
        before = len(events)
        if not await self._has_room(action, state, request.prompt):
            self.budget.was_short = True
            raise NoRoom
        samples = await self._prompts_of(action).model.generate(request)
        texts = [
            without_markers(each.text, lambda: quotable_texts(question, events[:before])).text
            for each in samples
        ]
        return [text for text in texts if any(map(str.isalnum, text))]

    def _sampling(self, action: str) -> Sampling:
        capabilities = self._prompts_of(action).model.capabilities
        return self.parameters.sampling(action, is_chat="chat" in capabilities)

    def _prompts_of(self, action: str) -> PromptBuilder:
        return self.planning if action in (SAY, QT) else self.prompts

    async def _num_passages(self, state: PathState, found: Sequence[Hit], planned: int | None = None) -> int:
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

        room: float = model.context_tokens - params.answer_tokens - await count(())
        if left is not None:
            rest = params.most_iterations - state.count(RA) if params.actions.is_lite else len(state.pending)
            planned = planned or max(1, rest)
            passages = min(0.25 * (self.budget.most or 0), 0.5 * left)
            for_summary = await self.tokens_to_finish(state) + RA_TOKENS * planned + passages
            transformed = await self.planning.model.count(self.planning.qt(state.history, ""))
            templates = planned * (transformed + await count(()))
            room = min(room, (left - for_summary - templates) / planned)
        return await estimate_fitting(found, room, count)

    async def tokens_to_finish(self, state: PathState) -> int:
        """Return the number of input tokens needed to finish the path without passages.

        The result is 0 if the budget has no limit.
        """
        if self.budget.left is None:
            return 0
        num_summary = await self.prompts.model.count(self.prompts.sa(state.history))
        return num_summary + await self.tokens_for_reward_model(state)

    async def tokens_for_reward_model(self, state: PathState) -> int:
        """Return the number of input tokens that the reward model will need when the path ends.

        The result is 0 if the rewards do not spend this budget, or if the budget has no limit.
        """
        if self.reward_model is None or self.reward_model.ledger is not None or self.budget.left is None:
            return 0
        num_tokens = await self.reward_model.count(state, self.parameters.summary_tokens)
        return num_tokens * self.parameters.answer_samples

    async def _summary_prompt(self, state: PathState) -> Prompt:
        """Return the summary prompt.

        If the prompt is too long, the worst passages are dropped first, then the worked examples, and then
        the oldest answers.

        Raises:
            NoRoom: Not even the last sub-query with its answer fits.
        """
        tops = {hits[0].passage.id for hits in state.found if hits}
        # Passages are dropped from the end, so the best passage of each retrieval comes first.
        ordered = sorted(state.hits, key=lambda hit: hit.passage.id not in tops)

        def with_hits(number: int) -> Prompt:
            return self.prompts.sa(state.history, ordered[:number], shows_examples=True)

        num_hits = await most_that_fit(
            len(ordered), lambda number: self._has_room(SA, state, with_hits(number))
        )
        # If `passages` is 0, the search fetched as many as might fit, so dropping some is normal.
        least = len(ordered) if self.parameters.passages else min(1, len(ordered))
        self.budget.was_short |= num_hits is None or num_hits < least
        if num_hits is not None:
            return with_hits(num_hits)
        for oldest in range(len(state.history)):
            prompt = self.prompts.sa(state.history[oldest:])
            if await self._has_room(SA, state, prompt):
                return prompt
        raise NoRoom

    async def _has_room(self, action: str, state: PathState, prompt: Prompt) -> bool:
        """Return whether a call fits and leaves room for the calls that are needed to finish the path."""
        further = self.tokens_for_reward_model if action in (DA, SA) else self.tokens_to_finish
        model = self._prompts_of(action).model
        return await has_room(model, prompt, self._sampling(action).max_tokens, keep=await further(state))


def _by_agreement(replies: Sequence[tuple[Reply, int]]) -> Replies:
    """Return the replies sorted by similarity to all samples, greatest first. Ties keep their order."""
    scores = jcd_scores([" ".join(reply) for reply, _ in replies], [votes for _, votes in replies])
    order = sorted(range(len(replies)), key=lambda index: -round(scores[index], 9))
    return tuple(replies[index] for index in order)
