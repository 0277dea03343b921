"""One question's tree search in AirRAG: what may be read, which action comes next, what a path earns."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from askance.core.ports import Model, Run
from askance.core.token_ledger import BudgetedModel, TokenLedger
from askance.core.types import Question
from askance.methods.airrag import choosing
from askance.methods.airrag.action_runner import Acting, Memory
from askance.methods.airrag.choosing import Chosen, Ending
from askance.methods.airrag.mcts import Node, RolloutOutcome, Tree
from askance.methods.airrag.parameters import AirragParameters
from askance.methods.airrag.prompts import Prompts
from askance.methods.airrag.reward import PathJudge
from askance.methods.airrag.state import DA, QT, RA, SA, SAY, PathState

_SHORT_PATH = 6
"""What SAY, RA with a passage or two, and SA read, in prompts of SA without any passage."""


@dataclass(slots=True)
class Searching:
    """One question's search."""

    airrag: AirragParameters
    question: Question
    run: Run
    account: TokenLedger = field(init=False)
    judge: PathJudge | None = None
    num_verifying: int = 0
    _beside: Acting | None = None
    _rollouts: dict[int, Acting] = field(default_factory=dict)
    _memory: Memory = field(default_factory=dict)

    def __post_init__(self) -> None:
        airrag, models = self.airrag, self.run.models
        self.account = TokenLedger(airrag.l_max)
        if airrag.is_judged:
            is_free = airrag.reward == "consistency" and not airrag.count_verifier
            prompts = self._prompts(models.get("reward", self.run.model))
            self.judge = PathJudge(prompts, TokenLedger() if is_free else None)

    async def tree(self) -> Tree[PathState]:
        """The search, and beside it a direct answer."""
        airrag, kept = self.airrag, self._for_verifier()
        self.account.set_aside += kept
        if airrag.draws_beside:
            self._beside = self._acting(self.account.part(self._for_direct_answer()))
        start = PathState(pending=(self.question.text,)) if airrag.actions.is_lite else PathState()
        beside = (DA,) if airrag.draws_beside else ()
        tree = Tree(start, self, airrag, f"{self.run.seed} {self.question.id}", beside)
        await tree.grow()
        for acting in self._rollouts.values():  # what nobody needs any more
            acting.allowance.close()
        self.account.set_aside -= kept
        return tree

    def is_terminal(self, state: PathState) -> bool:
        return state.answer is not None

    def actions(self, state: PathState, dead: frozenset[str]) -> tuple[str, ...]:
        return self.airrag.actions_after(state, dead)

    def endings(self, tree: Tree[PathState]) -> list[Ending]:
        """Where distinct paths ended, those drawn but not entered included, in the order of the tree."""
        found: dict[object, Ending] = {}
        for node in tree.root.below():
            state = node.state
            if state.answer is not None:
                score, is_grounded = self._judged(state), any(state.found)
                ending = Ending(state, node.votes, node.visits, node.reward, score, is_grounded)
                found.setdefault(state.key, ending)
        return list(found.values())

    async def last_resort(self, tree: Tree[PathState]) -> list[Ending]:
        """A direct answer, where no path has ended: with all that is left, if it was not in vain before."""
        if self.account.most is None and DA in tree.root.dead:
            return []
        acting = self._acting(self.account.share(1), is_judged=False)
        outcomes = await acting.draw(PathState(), tree.root.name, DA)
        acting.allowance.close()
        return [Ending(each.state, each.votes) for each in outcomes or ()]

    async def chosen(self, endings: Sequence[Ending]) -> Chosen:
        """The verifier's choice, for which it may read what was kept for it."""
        airrag = self.airrag
        allowance = self.account.share(1) if airrag.count_verifier else TokenLedger()
        prompts = self._prompts(BudgetedModel(self.run.model, allowance))
        chosen = await choosing.choose(airrag.verifier, endings, prompts, airrag.summary_tokens, self.run)
        self.num_verifying = allowance.num_spent
        return chosen

    def show_spending(self, tree: Tree[PathState]) -> None:
        """Tell what the search cost."""
        rollouts, failed = float(tree.num_rollouts), float(tree.num_failed)
        numbers = {**self.account.numbers, "rollouts": rollouts, "failed rollouts": failed}
        if self.num_verifying:
            numbers["input tokens of the verifier"] = float(self.num_verifying)
        if self.judge is not None:
            numbers["input tokens of rewards"] = float(self.judge.num_input)
        self.run.trace.decide("budget", "spent", str(self.account), numbers=numbers)

    def _prompts(self, model: Model) -> Prompts:
        return Prompts(model, self.question, self.airrag.prompts, self.airrag.num_examples)

    def _acting(self, allowance: TokenLedger, *, is_judged: bool = True) -> Acting:
        prompts = self._prompts(BudgetedModel(self.run.model, allowance))
        judge = self.judge if is_judged else None
        return Acting(self.airrag, prompts, self.run, allowance, judge, dict(self._memory))

    async def draw(
        self, node: Node[PathState], action: str, rollout: int
    ) -> list[RolloutOutcome[PathState]] | None:
        if self._beside is None or action != DA or node.parent is not None:
            return await self._rollouts[rollout].draw(node.state, node.name, action)
        outcomes = await self._beside.draw(node.state, node.name, action)
        self._beside.allowance.close()
        return outcomes

    def choose(self, node: Node[PathState], untried: Sequence[str], rollout: int) -> str:
        """The first rollout goes in the order of the paper's appendix, all others by chance."""
        if rollout:
            seed = f"{self.run.seed} {self.question.id} {rollout} {node.name}"
            return random.Random(seed).choice(untried)
        wanted = self._next(node.state)
        return wanted if wanted in untried else untried[0]

    def _next(self, state: PathState) -> str:
        is_lite = self.airrag.actions.is_lite
        if not state.last:
            return RA if is_lite else SAY
        if state.last == SAY:
            return RA
        if state.last == QT:
            return RA if state.pending else SA
        if state.pending:
            return QT
        has_no_plan = is_lite or len(state.plan) < 2 or state.refused
        follows = {"always": True, "never": False, "if_no_plan": has_no_plan}
        return QT if follows[self.airrag.followup_qt] else SA

    def may_start(self, rollout: int) -> bool:
        if rollout in self._rollouts:  # it found no place to go on from in the wave before
            self._rollouts[rollout].allowance.close()
        # Rollouts that what is left is for: no more than could come to an answer by a short path.
        num_sharing, left = self.airrag.rollouts - rollout, self.account.left
        # Input tokens without which no rollout comes to an answer.
        least = 0 if left is None else self.run.model.count(self._prompts(self.run.model).sa(()))
        if left is not None:
            num_sharing = max(1, min(num_sharing, left // (_SHORT_PATH * least)))
        allowance = self.account.share(num_sharing)
        if rollout and not allowance.fits(least):
            allowance.close()
            return False
        self._rollouts[rollout] = self._acting(allowance)
        return True

    def is_settled(self, tree: Tree[PathState]) -> bool:
        """Whether the rollouts that are left are not wanted any more."""
        airrag, endings = self.airrag, choosing.valid(self.endings(tree))
        num_more = (airrag.rollouts - tree.num_rollouts) * airrag.answer_samples
        num_ended = tree.num_rollouts - tree.num_failed
        # An eager expansion draws for more ends than its rollout comes to.
        counts = airrag.stop_decided and airrag.expansion == "lazy"
        if 0 < airrag.stop_agreed <= num_ended and len(choosing.clustered(endings)) == 1:
            why = f"{num_ended} rollouts agree"
        elif counts and choosing.is_chosen(airrag.verifier, endings, num_more):
            why = "no vote to come can change the words of the answer"
        else:
            return False
        self.run.trace.decide("rollouts", "stop", why, numbers={"rollouts": tree.num_rollouts})
        return True

    def ended(self, rollout: int) -> None:
        self._rollouts[rollout].allowance.close()
        self._memory.update(self._rollouts[rollout].memory)

    def _for_verifier(self) -> int:
        """What is kept for the last call: its template, and room for an answer of each rollout."""
        airrag = self.airrag
        num_candidates = airrag.rollouts + airrag.draws_beside
        may_call = num_candidates > 1 or airrag.samples > 1 or airrag.answer_samples > 1
        if airrag.l_max is None or airrag.verifier != "sa" or not airrag.count_verifier or not may_call:
            return 0
        return choosing.num_kept_for_choosing(self._prompts(self.run.model), num_candidates, airrag.l_max)

    def _for_direct_answer(self) -> int:
        acting = self._acting(TokenLedger(0))
        return self.run.model.count(acting.prompts.da()) + acting.for_judging(PathState())

    def _judged(self, state: PathState) -> float:
        return 0.0 if self.judge is None else self.judge.reward(state)

    def rewards(self, terminals: Sequence[Node[PathState]]) -> list[float]:
        """What the paths that ended are worth, now that these are known; nothing where one is no answer.

        The N of equation 2 counts answers: refusals take nothing from what these have in common.
        """
        told = [node for node in terminals if Ending(node.state).is_valid]
        scores = choosing.jcd_scores([node.state.answer or "" for node in told])
        rewards = {id(node): self._reward(node, score) for node, score in zip(told, scores, strict=True)}
        return [rewards.get(id(node), 0.0) for node in terminals]

    def _reward(self, node: Node[PathState], score: float) -> float:
        siblings = node.parent.children if node.parent else [node]
        drawn = sum(each.votes for each in siblings if each.action == node.action)
        consistency: float = score * (node.votes / drawn) ** self.airrag.vote_power
        judged = self._judged(node.state)
        mixed = (judged + consistency) / 2
        return {"consistency": consistency, "rm": judged, "mixed": mixed}[self.airrag.reward]
