"""The Monte Carlo tree search (MCTS) of AirRAG for one question: nodes, UCT, rollouts, rewards and budgets.

A rollout selects a path by UCT, continues from its end until a state has an answer, and propagates the reward
back to every node on the path. The rollouts of a wave run concurrently. The path of each rollout is selected
as if the earlier rollouts of the wave had a reward of 0, so the tree never depends on which rollout finishes
first. Independent paths are rollouts that begin at roots of their own.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from askance.core.concurrency import gather_or_cancel
from askance.core.ports import FeatureScorer, Model, PairScorer, Run, language_model
from askance.core.token_ledger import BudgetedModel, TokenLedger
from askance.core.trace import WordSignal
from askance.core.types import Question
from askance.methods.airrag.action_runner import ActionRunner
from askance.methods.airrag.parameters import AirragParameters
from askance.methods.airrag.prompts import PromptBuilder, is_refusal
from askance.methods.airrag.reward import PathRewardModel
from askance.methods.airrag.state import DA, QT, RA, SA, SAY, Node, PathState
from askance.methods.airrag.verifiers import (
    ROUNDING,
    ChosenAnswer,
    choose_answer,
    jcd_scores,
    leading_answer,
    valid_nodes,
    verifier_tokens,
)

_SHORT_PATH = 6
"""The input tokens of a short path, divided by those of an SA prompt without passages.

A short path is SAY, RA with a passage or two, and SA.
"""
_ORDER = (SAY, RA, QT, SA)
"""The order in which untried actions and unvisited nodes are selected; all other actions come last."""


Selection = tuple[list[Node], str]
"""A path from the root, and the action to expand at its end; "" if the rollout policy chooses the action."""


@dataclass(slots=True)
class Rollout:
    """A rollout: its number from 0, the path that it has taken, its next action if any, and its calls."""

    number: int
    path: list[Node]
    action: str
    runner: ActionRunner


@dataclass(slots=True)
class TreeSearch:
    """The tree search for one question.

    Attributes:
        roots: The root of the tree, or of each independent path. The first one also has the direct answers.
        answers: The nodes with answers that rollouts reached, in the order in which they were reached.
        postponed: The actions that the budget did not allow in this wave. The next wave may try them again.
        num_failed: The number of rollouts that reached no answer.
    """

    parameters: AirragParameters
    question: Question
    run: Run
    ledger: TokenLedger = field(init=False)
    reward_model: PathRewardModel | None = None
    roots: list[Node] = field(default_factory=list)
    answers: list[Node] = field(default_factory=list)
    postponed: set[tuple[Node, str]] = field(default_factory=set)
    num_rollouts: int = 0
    num_failed: int = 0
    num_verifier_tokens: int = 0

    def __post_init__(self) -> None:
        self.ledger = TokenLedger(self.parameters.l_max)
        if self.parameters.is_judged:
            model = self.run.models.get("reward", self.run.model)
            judge = model if isinstance(model, PairScorer | FeatureScorer) else self._prompts(model)
            self.reward_model = PathRewardModel(judge, self.question)

    async def search(self) -> None:
        """Run rollouts in waves until all are done, the tree is exhausted, or an answer leads by enough.

        The direct answer, if there is one, runs beside the first wave, and rollouts never take it.
        """
        num_kept = await self._tokens_for_verifier()
        self.ledger.set_aside += num_kept
        direct = [await self._direct_runner()] if self.parameters.has_direct_candidate else []
        while wave := await self._select_wave():
            root, expansions = self.roots[0], [each.expand(PathState(), "0", DA) for each in direct]
            work: list[Any] = [*map(self._simulate, wave), *expansions]
            results = await gather_or_cancel(work)
            for rollout in wave:
                rollout.runner.budget.close()
                self._backpropagate(rollout.path)
            for runner, states in zip(direct, results[len(wave) :], strict=True):
                runner.budget.close()
                for node in self._add_children(root, DA, states):
                    self._backpropagate(_count_visits([root, node]))
            direct = []
            self.postponed.clear()
        self.ledger.set_aside -= num_kept

    async def _select_wave(self) -> list[Rollout]:
        """Return the rollouts of the next wave, each with a selected path and a budget."""
        params, wave = self.parameters, list[Rollout]()
        while len(wave) < params.wave and self.num_rollouts < params.rollouts:
            if self.num_rollouts and not wave and self._is_enough():
                break
            budget = await self._budget_of_rollout(self.num_rollouts)
            if budget is None:
                break
            if not self.roots or params.search == "paths":
                start = PathState(pending=(self.question.text,)) if params.actions.is_lite else PathState()
                self.roots.append(Node(start, number=len(self.roots) + 1))
            selection = self._select(self.roots[-1], {rollout.path[-1] for rollout in wave})
            if selection is None:
                budget.close()
                break
            path, action = selection
            _count_visits(path)
            wave.append(Rollout(self.num_rollouts, path, action, self._action_runner(budget)))
            self.num_rollouts += 1
        return wave

    def _select(self, node: Node, busy: set[Node]) -> Selection | None:
        """Return what UCT selects at or below `node`, or None if all nodes there are exhausted or busy.

        Args:
            busy: The nodes from which other rollouts of the wave continue. A wave allows only one rollout for
                each node, so that the result of a rollout does not depend on other rollouts.
        """
        if node.answer:
            return None if node.visits else ([node], "")
        untried = [] if node in busy else self._untried_actions(node)
        if untried and node.parent and not node.visits:
            return [node], ""
        new: list[tuple[int, int, Selection]] = [(_order(action), 0, ([node], action)) for action in untried]
        for child in sorted(
            node.children, key=lambda each: each.uct(self.parameters.exploration), reverse=True
        ):
            if new and child.visits:
                break
            selection = self._select(child, busy)
            if selection is not None:
                selection = [node, *selection[0]], selection[1]
                if child.visits:
                    return selection
                new.append((_order(child.action), child.number, selection))
        return min(new, key=lambda each: each[:2])[2] if new else None

    def _untried_actions(self, node: Node) -> list[str]:
        """Return the untried legal actions at a node. A dead action may make another action legal."""
        unavailable = node.dead_actions | {action for each, action in self.postponed if each is node}
        tried = unavailable | {child.action for child in node.children}
        if node is self.roots[0] and self.parameters.has_direct_candidate:
            tried.add(DA)
        return [each for each in self.parameters.actions_after(node.state, unavailable) if each not in tried]

    def _add_children(self, node: Node, action: str, states: Sequence[PathState] | None) -> list[Node]:
        """Add what `ActionRunner.expand` returned to the tree, and return the new nodes."""
        if states is None:
            self.postponed.add((node, action))
        elif not states:
            node.dead_actions.add(action)
        first = len(node.children) + 1
        children = [Node(state, action, node, number) for number, state in enumerate(states or (), first)]
        node.children += children
        return children

    async def _simulate(self, rollout: Rollout) -> None:
        """Continue a rollout from the end of its path until it has an answer or nothing to expand."""
        path, action = rollout.path, rollout.action
        while untried := self._untried_actions(path[-1]):
            node, action = path[-1], action or self._choose_action(path[-1], untried, rollout)
            states = await rollout.runner.expand(node.state, node.name, action)
            path += _count_visits(self._add_children(node, action, states)[:1])
            action = ""

    def _choose_action(self, node: Node, untried: Sequence[str], rollout: Rollout) -> str:
        """Return the action to take: in the paper's order in the first rollout, at random in all others.

        The paper's order is that of the legal actions, but after a plan whose last sub-query is answered, the
        path sums up without a follow-up. Independent paths all follow this order.
        """
        if rollout.number and self.parameters.search == "tree":
            seed = f"{self.run.seed} {self.question.id} {rollout.number} {node.name}"
            return random.Random(seed).choice(untried)
        state = node.state
        is_answered = len(state.plan) > 1 and state.history and not is_refusal(state.history[-1].answer)
        return SA if is_answered and SA in untried else untried[0]

    def _backpropagate(self, path: list[Node]) -> None:
        """Add the reward of the answer at the end of a path to its nodes, or forget the visit without one.

        The consistency of an answer depends on all valid answers, so a further answer may change the rewards
        of earlier ones in its tree. N in equation 2 counts only valid answers, so a refusal does not lower
        the consistency of other answers; its own reward is 0.
        """
        if not path[-1].answer:
            self.num_failed += 1
            _count_visits(path, -1)
            return
        self.answers.append(path[-1])
        valid = [node for node in self.answers if node.is_valid and node.path[0] is path[0]]
        if self.reward_model is not None and self.parameters.reward == "rm":
            rewards = self.reward_model.rewards(valid)
        else:
            rewards = jcd_scores([node.answer for node in valid])
        for end, reward in zip(valid, rewards, strict=True):
            for node in end.path:
                node.value += reward - end.reward
            end.reward = reward

    def candidates(self) -> list[Node]:
        """Return the nodes with valid answers in tree order, including those that no rollout entered."""
        nodes = valid_nodes([node for root in self.roots for node in root.subtree()])
        if self.reward_model is not None:
            for node, score in zip(nodes, self.reward_model.rewards(nodes), strict=True):
                node.score = score
        return nodes

    async def last_resort(self) -> list[Node]:
        """Return direct answers for a search without candidates.

        Their call may spend the whole remaining budget. Its key is not that of a direct answer in the search,
        so the samples are new ones. If the budget has no limit and a direct answer has already failed, no
        further one is tried.
        """
        if self.ledger.most is None and DA in self.roots[0].dead_actions:
            return []
        runner = self._action_runner(self.ledger.share(1))
        runner.reward_model = None
        states = await runner.expand(PathState(), "last", DA)
        runner.budget.close()
        return valid_nodes(list(map(Node, states or ())))

    async def verify(self, candidates: Sequence[Node]) -> ChosenAnswer:
        """Return the answer that the verifier chooses.

        The verifier's call may also spend the tokens that the search reserved for this call.
        """
        params, budget = self.parameters, self.ledger.share(1)
        prompts = self._prompts(BudgetedModel(self.run.model, budget))
        max_tokens = params.sampling(SA).max_tokens
        chosen = await choose_answer(params.verifier, candidates, prompts, max_tokens, self.run)
        self.num_verifier_tokens = budget.num_spent
        return chosen

    def record_cost(self) -> None:
        """Record the cost of the search in the trace."""
        rollouts = {"rollouts": float(self.num_rollouts), "failed rollouts": float(self.num_failed)}
        numbers = {**self.ledger.numbers, **rollouts}
        if self.num_verifier_tokens:
            numbers["input tokens of the verifier"] = float(self.num_verifier_tokens)
        if self.reward_model is not None:
            numbers["input tokens of rewards"] = float(self.reward_model.num_input)
        self.run.trace.decide("budget", "spent", str(self.ledger), numbers=numbers)

    def _prompts(self, model: Model) -> PromptBuilder:
        return PromptBuilder(model, self.question, self.parameters.prompts)

    def _action_runner(self, budget: TokenLedger) -> ActionRunner:
        answering = self._prompts(BudgetedModel(self.run.model, budget))
        planner = language_model(self.run.models.get("plan", self.run.model), "plan")
        planning = self._prompts(BudgetedModel(planner, budget))
        return ActionRunner(self.parameters, answering, planning, self.run, budget, self.reward_model)

    async def _direct_runner(self) -> ActionRunner:
        """Return the runner of the direct answer.

        Its budget is just enough, or 0 if that is more than a quarter of the tokens left.
        """
        left, most = self.ledger.left, None
        if left is not None:
            runner = self._action_runner(TokenLedger(0))
            most = await self.run.model.count(runner.prompts.da())
            most += await runner.tokens_to_finish(PathState(), DA)
            most = most if 4 * most <= left else 0
        return self._action_runner(self.ledger.lend(most))

    async def _budget_of_rollout(self, rollout: int) -> TokenLedger | None:
        """Return the budget of a rollout, or None if it has no room for an answer and is not the first."""
        # The remaining budget is shared by no more rollouts than can reach an answer by a short path.
        num_sharing, left = self.parameters.rollouts - rollout, self.ledger.left
        # The fewest input tokens with which a rollout can reach an answer.
        least = 0 if left is None else await self.run.model.count(self._prompts(self.run.model).sa(()))
        if left is not None:
            num_sharing = max(1, min(num_sharing, left // (_SHORT_PATH * least)))
        budget = self.ledger.share(num_sharing)
        if rollout and not budget.fits(least):
            budget.close()
            return None
        return budget

    async def _tokens_for_verifier(self) -> int:
        """Return the number of tokens reserved for the verifier's call, with one answer per rollout."""
        params = self.parameters
        num_candidates = params.rollouts + params.has_direct_candidate
        is_single = max(num_candidates, params.samples, params.answer_samples) == 1
        if params.l_max is None or params.verifier != "sa" or is_single:
            return 0
        return await verifier_tokens(self._prompts(self.run.model), num_candidates, params.l_max)

    def _is_enough(self) -> bool:
        """Return whether the remaining rollouts are unnecessary."""
        params = self.parameters
        if not params.stop_lead:
            return False
        answer, lead = leading_answer(self.candidates())
        numbers = {"rollouts": float(self.num_rollouts)}
        num_more = (params.rollouts - self.num_rollouts) * params.answer_samples
        if params.verifier == "vote" and lead > num_more + ROUNDING:
            why = "no further vote can change the words of the answer"
            self.run.trace.decide("rollouts", "stop", why, numbers=numbers)
            return True
        is_enough = lead >= params.stop_lead - ROUNDING
        self.run.trace.decide(
            "rollouts",
            "stop" if is_enough else "continue",
            f"the leading answer is {lead:.3g} votes ahead after {self.num_rollouts} rollouts",
            signal="votes ahead",
            threshold=params.stop_lead,
            words=(WordSignal(answer, lead, is_hit=not is_enough),),
            numbers=numbers,
        )
        return is_enough


def _count_visits(path: list[Node], number: int = 1) -> list[Node]:
    for node in path:
        node.visits += number
    return path


def _order(action: str) -> int:
    return (*_ORDER, action).index(action)
