"""The tree search of AirRAG for one question: token budgets, the rollout policy, and rewards."""

import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

from askance.core.ports import FeatureScorer, Model, PairScorer, Run, language_model
from askance.core.token_ledger import BudgetedModel, TokenLedger
from askance.core.trace import WordSignal
from askance.core.types import Question
from askance.methods.airrag import verifiers
from askance.methods.airrag.action_runner import ActionRunner, ReplyCache
from askance.methods.airrag.mcts import ActionOutcome, MctsTree, Node
from askance.methods.airrag.parameters import AirragParameters
from askance.methods.airrag.path_features import supports_of
from askance.methods.airrag.prompts import PromptBuilder
from askance.methods.airrag.reward import PathRewardModel
from askance.methods.airrag.state import DA, QT, RA, SA, SAY, PathState
from askance.methods.airrag.verifiers import ChosenAnswer, FinishedPath

_SHORT_PATH = 6
"""The input tokens of a short path, divided by those of an SA prompt without passages.

A short path is SAY, RA with a passage or two, and SA.
"""


@dataclass(slots=True)
class TreeSearch:
    """The tree search for one question, which implements `SearchProblem`."""

    parameters: AirragParameters
    question: Question
    run: Run
    total_budget: TokenLedger = field(init=False)
    reward_model: PathRewardModel | None = None
    num_verifier_tokens: int = 0
    _side_runner: ActionRunner | None = None
    _runners: dict[int, ActionRunner] = field(default_factory=dict)
    _reply_cache: ReplyCache = field(default_factory=dict)

    def __post_init__(self) -> None:
        params, models = self.parameters, self.run.models
        self.total_budget = TokenLedger(params.l_max)
        if params.is_judged:
            is_free = params.reward == "consistency" and not params.count_verifier
            named, ledger = models.get("reward", self.run.model), TokenLedger() if is_free else None
            judge = named if isinstance(named, PairScorer | FeatureScorer) else self._prompts(named)
            judges_steps = params.reward_of == "steps"
            self.reward_model = PathRewardModel(judge, self.question, ledger, judges_steps)

    async def search(self) -> list[MctsTree[PathState]]:
        """Run the search, and return its tree, or the tree of each path if the paths are independent.

        If the parameters ask for a direct answer, the first tree also holds that answer, beside the paths.
        """
        params, kept = self.parameters, await self._tokens_for_verifier()
        self.total_budget.set_aside += kept
        if params.has_direct_candidate:
            runner = self._action_runner(TokenLedger(0))
            num_tokens = await self.run.model.count(runner.prompts.da())
            num_tokens += await runner.tokens_for_reward_model(PathState())
            self._side_runner = self._action_runner(self.total_budget.part(num_tokens))
        side_actions = (DA,) if params.has_direct_candidate else ()
        if params.search == "paths":
            trees = await self._search_paths(side_actions)
        else:
            trees = [await self._search_tree(side_actions)]
        self.total_budget.set_aside -= kept
        return trees

    async def _search_tree(self, side_actions: Sequence[str] = (), number: int = 1) -> MctsTree[PathState]:
        is_lite = self.parameters.actions.is_lite
        start = PathState(pending=(self.question.text,)) if is_lite else PathState()
        seed = f"{self.run.seed} {self.question.id}"
        tree = MctsTree(start, self, self.parameters, seed, side_actions, number)
        await tree.search()
        for runner in self._runners.values():  # return the unspent tokens
            runner.budget.close()
        return tree

    async def _search_paths(self, side_actions: Sequence[str]) -> list[MctsTree[PathState]]:
        """Search one path after another, up to `wave` at a time, each with calls of its own."""
        params, trees = self.parameters, list[MctsTree[PathState]]()
        while len(trees) < params.rollouts and not (trees and self._is_enough(trees)):
            first, last = len(trees), min(len(trees) + params.wave, params.rollouts)
            budgets = [budget async for budget in self._budgets_of_paths(first, last)]
            searches = [self._path_search(budget) for budget in budgets]
            trees += await params.together(
                search._search_tree(() if number else side_actions, number + 1)
                for number, search in enumerate(searches, start=first)
            )
            for budget in budgets:
                budget.close()
            if len(budgets) < last - first:
                break
        return trees

    async def _budgets_of_paths(self, first: int, last: int) -> AsyncIterator[TokenLedger]:
        """Yield the budgets of the paths of one wave, as many as have room for an answer."""
        for number in range(first, last):
            budget = await self._budget_of_rollout(number)
            if budget is None:
                return
            yield budget

    def _path_search(self, budget: TokenLedger) -> "TreeSearch":
        """Return the search of one path within a budget; all paths share a direct answer and the rewards."""
        search = replace(self, parameters=replace(self.parameters, rollouts=1, search="tree"))
        search.total_budget, search.reward_model = budget, self.reward_model
        search._side_runner, search._runners, search._reply_cache = self._side_runner, {}, {}
        return search

    def is_terminal(self, state: PathState) -> bool:
        return state.answer is not None

    def legal_actions(self, state: PathState, dead: frozenset[str]) -> tuple[str, ...]:
        return self.parameters.actions_after(state, dead)

    def finished_paths(self, trees: Sequence[MctsTree[PathState]]) -> list[FinishedPath]:
        """Return the distinct finished paths in tree order, including those that no rollout entered.

        Equal paths of several trees are independent of each other, so each of them counts.
        """
        paths = [path for tree in trees for path in self._paths_of_tree(tree)]
        if self.reward_model is None:
            return paths
        valid = verifiers.valid_paths(paths)
        scores = self._judged_rewards([(path.state, path.copies, path.share) for path in valid])
        by_path = {id(path): score for path, score in zip(valid, scores, strict=True)}
        return [replace(path, score=by_path.get(id(path), 0.0)) for path in paths]

    def _paths_of_tree(self, tree: MctsTree[PathState]) -> list[FinishedPath]:
        paths: dict[object, FinishedPath] = {}
        for node in tree.root.subtree():
            state = node.state
            if state.answer is not None:
                path = FinishedPath(
                    state,
                    node.votes,
                    node.visits,
                    node.reward,
                    is_grounded=any(state.found),
                    share=node.path_share,
                )
                paths.setdefault(state.key, path)
        return list(paths.values())

    async def last_resort(self, trees: Sequence[MctsTree[PathState]]) -> list[FinishedPath]:
        """Return direct answers for a search without finished paths.

        Their call may spend the whole remaining budget. Its key is not that of a direct answer in the search,
        so the samples are new ones. If the budget has no limit and a direct answer has already failed, no
        further one is tried.
        """
        root = trees[0].root
        if self.total_budget.most is None and DA in root.dead_actions:
            return []
        runner = self._action_runner(self.total_budget.share(1), is_judged=False)
        outcomes = await runner.expand(PathState(), "last", DA)
        runner.budget.close()
        return [FinishedPath(each.state, each.votes) for each in outcomes or ()]

    async def verify(self, paths: Sequence[FinishedPath]) -> ChosenAnswer:
        """Return the answer that the verifier chooses.

        The verifier's call may also spend the tokens that the search reserved for this call.
        """
        params = self.parameters
        budget = self.total_budget.share(1) if params.count_verifier else TokenLedger()
        prompts = self._prompts(BudgetedModel(self.run.model, budget))
        max_tokens = params.summary_tokens
        chosen = await verifiers.choose_answer(params.verifier, paths, prompts, max_tokens, self.run)
        self.num_verifier_tokens = budget.num_spent
        return chosen

    def record_cost(self, trees: Sequence[MctsTree[PathState]]) -> None:
        """Record the cost of the search in the trace."""
        rollouts = float(sum(tree.num_rollouts for tree in trees))
        failed = float(sum(tree.num_failed for tree in trees))
        numbers = {**self.total_budget.numbers, "rollouts": rollouts, "failed rollouts": failed}
        if self.num_verifier_tokens:
            numbers["input tokens of the verifier"] = float(self.num_verifier_tokens)
        if self.reward_model is not None:
            numbers["input tokens of rewards"] = float(self.reward_model.num_input)
        self.run.trace.decide("budget", "spent", str(self.total_budget), numbers=numbers)

    def _prompts(self, model: Model) -> PromptBuilder:
        return PromptBuilder(model, self.question, self.parameters.prompts, self.parameters.num_examples)

    def _action_runner(self, budget: TokenLedger, *, is_judged: bool = True) -> ActionRunner:
        answering = self._prompts(BudgetedModel(self.run.model, budget))
        planner = language_model(self.run.models.get("plan", self.run.model), "plan")
        planning = self._prompts(BudgetedModel(planner, budget))
        reward_model, cache = self.reward_model if is_judged else None, dict(self._reply_cache)
        return ActionRunner(self.parameters, answering, planning, self.run, budget, reward_model, cache)

    async def expand(
        self, node: Node[PathState], action: str, rollout: int
    ) -> list[ActionOutcome[PathState]] | None:
        if self._side_runner is None or action != DA or node.parent is not None:
            return await self._runners[rollout].expand(node.state, node.name, action)
        outcomes = await self._side_runner.expand(node.state, node.name, action)
        self._side_runner.budget.close()
        return outcomes

    def choose_action(self, node: Node[PathState], untried: Sequence[str], rollout: int) -> str:
        """Return the action to take: in the paper's order in the first rollout, at random in all others."""
        if rollout:
            seed = f"{self.run.seed} {self.question.id} {rollout} {node.name}"
            return random.Random(seed).choice(untried)
        wanted = self._planned_action(node.state)
        return wanted if wanted in untried else untried[0]

    def _planned_action(self, state: PathState) -> str:
        is_lite = self.parameters.actions.is_lite
        if not state.last_action:
            return RA if is_lite else SAY
        if state.last_action == SAY:
            return RA
        if state.last_action == QT:
            return RA if state.pending else SA
        if state.pending:
            return QT
        has_no_plan = is_lite or len(state.plan) < 2 or state.is_refused
        follows = {"always": True, "never": False, "if_no_plan": has_no_plan}
        return QT if follows[self.parameters.followup_qt] else SA

    async def can_start(self, rollout: int) -> bool:
        if rollout in self._runners:  # the rollout found nothing to expand in the previous wave
            self._runners[rollout].budget.close()
        budget = await self._budget_of_rollout(rollout)
        if budget is None:
            return False
        self._runners[rollout] = self._action_runner(budget)
        return True

    async def _budget_of_rollout(self, rollout: int) -> TokenLedger | None:
        """Return the budget of a rollout, or None if it has no room for an answer and is not the first."""
        # The remaining budget is shared by no more rollouts than can reach an answer by a short path.
        num_sharing, left = self.parameters.rollouts - rollout, self.total_budget.left
        # The fewest input tokens with which a rollout can reach an answer.
        least = 0 if left is None else await self.run.model.count(self._prompts(self.run.model).sa(()))
        if left is not None:
            num_sharing = max(1, min(num_sharing, left // (_SHORT_PATH * least)))
        budget = self.total_budget.share(num_sharing)
        if rollout and not budget.fits(least):
            budget.close()
            return None
        return budget

    def should_stop(self, tree: MctsTree[PathState]) -> bool:
        return self._is_enough([tree])

    def _is_enough(self, trees: Sequence[MctsTree[PathState]]) -> bool:
        """Return whether the remaining rollouts are unnecessary."""
        params, paths = self.parameters, verifiers.valid_paths(self.finished_paths(trees))
        num_rollouts = sum(tree.num_rollouts for tree in trees)
        num_more = (params.rollouts - num_rollouts) * params.answer_samples
        # An eager expansion may sample more terminals than the rollout reaches, and a reward from features
        # changes with each further answer.
        counts = params.stop_decided and params.expansion == "lazy" and not self._votes_may_change
        numbers = {"rollouts": float(num_rollouts)}
        if counts and verifiers.is_decided(params.verifier, paths, num_more):
            why = "no further vote can change the words of the answer"
            self.run.trace.decide("rollouts", "stop", why, numbers=numbers)
            return True
        if not params.stop_lead:
            return False
        answer, lead = verifiers.leading_answer(paths)
        is_enough = lead >= params.stop_lead - verifiers.ROUNDING
        self.run.trace.decide(
            "rollouts",
            "stop" if is_enough else "continue",
            f"the leading answer is {lead:.3g} votes ahead after {num_rollouts} rollouts",
            signal="votes ahead",
            threshold=params.stop_lead,
            words=(WordSignal(answer, lead, is_hit=not is_enough),),
            numbers=numbers,
        )
        return is_enough

    @property
    def _votes_may_change(self) -> bool:
        """Return whether further answers change how much the votes for earlier answers count."""
        judge = self.reward_model and self.reward_model.judge
        return self.parameters.verifier == "rm_vote" and isinstance(judge, FeatureScorer)

    def on_rollout_end(self, rollout: int) -> None:
        self._runners[rollout].budget.close()
        self._reply_cache.update(self._runners[rollout].reply_cache)

    async def _tokens_for_verifier(self) -> int:
        """Return the number of tokens reserved for the verifier's call, with one answer per rollout."""
        params = self.parameters
        num_candidates = params.rollouts + params.has_direct_candidate
        may_call = num_candidates > 1 or params.samples > 1 or params.answer_samples > 1
        if params.l_max is None or params.verifier != "sa" or not params.count_verifier or not may_call:
            return 0
        return await verifiers.verifier_tokens(self._prompts(self.run.model), num_candidates, params.l_max)

    def _judged_rewards(self, answers: Sequence[tuple[PathState, int, float]]) -> list[float]:
        """Return the reward model's rewards of valid answers, or zeros if there is no reward model.

        Args:
            answers: The state of each answer, its copies, and the share of the samples on its path.
        """
        if self.reward_model is None:
            return [0.0] * len(answers)
        states, copies, shares = zip(*answers, strict=True) if answers else ((), (), ())
        supports = supports_of([state.answer or "" for state in states], copies, shares)
        return list(map(self.reward_model.reward, states, supports))

    def rewards(self, terminals: Sequence[Node[PathState]]) -> list[float]:
        """Return the reward of each terminal, or 0 for a terminal without a valid answer.

        The consistency of an answer depends on all valid answers. N in equation 2 counts only valid answers,
        so a refusal does not lower the consistency of other answers.
        """
        valid = [node for node in terminals if FinishedPath(node.state).is_valid]
        scores = verifiers.jcd_scores([node.state.answer or "" for node in valid])
        judged = self._judged_rewards([(node.state, node.votes, node.path_share) for node in valid])
        rewards = {
            id(node): self._reward(node, score, judgement)
            for node, score, judgement in zip(valid, scores, judged, strict=True)
        }
        return [rewards.get(id(node), 0.0) for node in terminals]

    def _reward(self, node: Node[PathState], score: float, judged: float) -> float:
        consistency: float = score * node.share**self.parameters.vote_power
        mixed = (judged + consistency) / 2
        return {"consistency": consistency, "rm": judged, "mixed": mixed}[self.parameters.reward]
