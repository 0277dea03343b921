"""One question's tree search in AirRAG: what may be read, which action comes next, what a path earns."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from askance.core.ports import Run
from askance.core.types import Question
from askance.methods.airrag import prompts
from askance.methods.airrag.acting import Acting, Memory, Reply
from askance.methods.airrag.ahead import Ahead, Next
from askance.methods.airrag.choosing import (
    Choosing,
    Chosen,
    Ending,
    Vote,
    clustered,
    is_chosen,
    jcd_scores,
    num_kept_for_choosing,
    valid,
)
from askance.methods.airrag.knobs import AirragKnobs
from askance.methods.airrag.reward import Judge
from askance.methods.airrag.room import Room
from askance.methods.airrag.state import DA, QT, RA, SA, SAY, State
from askance.methods.budget import Account, Allowance
from askance.tree.mcts import Rules, Settings, search
from askance.tree.nodes import Node, Outcome, Tree


@dataclass(slots=True)
class _Rollout:
    allowance: Allowance
    memory: Memory


@dataclass(slots=True)
class Searching:
    """One question's search."""

    airrag: AirragKnobs
    question: Question
    run: Run
    account: Account = field(init=False)
    judge: Judge | None = None
    _beside: Allowance | None = None
    _judging: Allowance | None = None
    _rollouts: dict[int, _Rollout] = field(default_factory=dict)
    _memory: Memory = field(default_factory=dict)
    _ahead: Ahead[Reply] = field(default_factory=Ahead)
    _kept: int = 0
    num_verifying: int = 0

    def __post_init__(self) -> None:
        airrag, models = self.airrag, self.run.models
        self.account = Account(airrag.l_max)
        self._kept = self._for_verifier()
        self.account.set_aside += self._kept
        if airrag.is_judged:
            self.judge = Judge(models.get("reward", self.run.model), self.question, airrag.prompts)
            if airrag.reward == "consistency" and not airrag.count_verifier:
                self._judging = Account(None).share(1)

    async def tree(self) -> Tree[State, str]:
        """The search, and beside it a direct answer."""
        airrag = self.airrag
        if airrag.draws_beside:
            self._beside = self.account.part(self._for_direct_answer())
        rules = Rules(
            actions=airrag.legality.actions,
            draw=self._draw,
            is_terminal=lambda state: state.answer is not None,
            choose=self._choose,
            rewards=self._rewards,
            may_start=self._may_start,
            ended=self._ended,
            is_settled=self._is_settled,
            beside=(DA,) if self._beside is not None else (),
        )
        settings = Settings(
            rollouts=airrag.rollouts,
            wave=airrag.wave,
            exploration=airrag.exploration,
            schedule=airrag.schedule,
            expansion=airrag.expansion,
            revisits=not airrag.skip_exhausted,
            draws_abreast=airrag.l_max is None,
            unexplored=airrag.unexplored,
            seed=f"{self.run.seed} {self.question.id}",
        )
        start = State(pending=(self.question.text,)) if airrag.actions.is_lite else State()
        try:
            return await search(start, rules, settings)
        finally:
            await self._ahead.close()

    def endings(self, tree: Tree[State, str]) -> list[Ending]:
        """Where distinct paths ended, those drawn but not entered included, in the order of the tree."""
        found: dict[object, Ending] = {}
        for node in tree.root.below():
            if node.state.answer is not None:
                is_grounded = any(node.state.found)
                vote = Vote(node.state.answer, node.votes, node.visits, node.reward, is_grounded)
                found.setdefault(node.state.key, Ending(node.state, vote, self._judged(node.state)))
        return list(found.values())

    async def last_resort(self, tree: Tree[State, str]) -> list[Ending]:
        """A direct answer, where no path has ended: with all that is left, if it was not in vain before."""
        self._release()
        if self.account.most is None and DA in tree.root.dead:
            return []
        acting = Acting(self.airrag, self.question, self.run, self.account.share(1))
        outcomes = await acting.draw(State(), tree.root.name, DA)
        acting.allowance.close()
        return [Ending(each.state, Vote(each.state.answer or "", each.votes)) for each in outcomes or ()]

    async def choose(self, endings: Sequence[Ending]) -> Chosen:
        """The verifier's choice, for which it may read what was kept for it."""
        self._release()
        account = self.account if self.airrag.count_verifier else Account(None)
        allowance = account.share(1)
        airrag, words = self.airrag, self.airrag.prompts
        choosing = Choosing(airrag.verifier, words, airrag.summary_tokens, self.question, self.run, allowance)
        chosen = await choosing.choose(endings)
        self.num_verifying = allowance.num_input
        return chosen

    def show_spending(self, tree: Tree[State, str]) -> None:
        """Tell what the search cost."""
        rollouts, failed = float(tree.num_rollouts), float(tree.num_failed)
        numbers = {**self.account.numbers, "rollouts": rollouts, "failed rollouts": failed}
        if self.num_verifying:
            numbers["input tokens of the verifier"] = float(self.num_verifying)
        if self.judge is not None:
            numbers["input tokens of rewards"] = float(self.judge.num_input)
        self.run.trace.decide("budget", "spent", str(self.account), numbers=numbers)

    def _release(self) -> None:
        """Give back what nobody needs any more, once the search is over."""
        for rollout in self._rollouts.values():
            rollout.allowance.close()
        self.account.set_aside -= self._kept
        self._kept = 0

    async def _draw(self, node: Node[State, str], action: str, rollout: int) -> list[Outcome[State]] | None:
        mine = self._rollouts[rollout]
        is_beside = self._beside is not None and action == DA and node.parent is None
        allowance = self._beside if is_beside and self._beside else mine.allowance
        acting = Acting(
            self.airrag,
            self.question,
            self.run,
            allowance,
            self.judge,
            self._judging,
            memory=mine.memory,
            ahead=self._ahead,
            following=self._following(node, action, rollout),
        )
        outcomes = await acting.draw(node.state, node.name, action)
        if is_beside:
            allowance.close()
        return outcomes

    def _following(self, node: Node[State, str], action: str, rollout: int) -> Next | None:
        """What comes behind the one state that an action will lead to, where no more than that is needed to
        ask for it.
        """
        airrag = self.airrag
        may_vary = airrag.samples_of(action) > 1 or airrag.expansion != "lazy"
        if may_vary or airrag.l_max is not None or airrag.multi_query:
            return None
        name = f"{node.name}.{len(node.children) + 1}"

        def next_action(state: State) -> str:
            return self._chosen(name, state, airrag.legality.actions(state), rollout)

        return Next(name, next_action)

    def _choose(self, node: Node[State, str], untried: Sequence[str], rollout: int) -> str:
        return self._chosen(node.name, node.state, untried, rollout)

    def _chosen(self, node: str, state: State, untried: Sequence[str], rollout: int) -> str:
        """The first rollout goes in the order of the paper's appendix, all others by chance."""
        if rollout:
            seed = f"{self.run.seed} {self.question.id} {rollout} {node}"
            return random.Random(seed).choice(untried)
        wanted = self._next(state)
        return wanted if wanted in untried else untried[0]

    def _next(self, state: State) -> str:
        if not state.last:
            return RA if self.airrag.actions.is_lite else SAY
        if state.last == SAY:
            return RA
        if state.last == QT:
            return RA if state.pending else SA
        if state.pending:
            return QT
        has_no_plan = self.airrag.actions.is_lite or len(state.plan) < 2 or state.refused
        follows = {"always": True, "never": False, "if_no_plan": has_no_plan}
        return QT if follows[self.airrag.followup_qt] else SA

    def _may_start(self, rollout: int) -> bool:
        if rollout in self._rollouts:  # it found no place to go on from in the wave before
            self._rollouts[rollout].allowance.close()
        allowance = self.account.share(self._num_sharing(rollout))
        if rollout and not allowance.fits(self._least()):
            allowance.close()
            return False
        self._rollouts[rollout] = _Rollout(allowance, dict(self._memory))
        return True

    def _num_sharing(self, rollout: int) -> int:
        """Rollouts that what is left is for: no more than could come to an answer by a short path."""
        num_sharing, left = self.airrag.rollouts - rollout, self.account.left
        if left is None:
            return num_sharing
        return max(1, min(num_sharing, left // (_SHORT_PATH * self._least())))

    def _is_settled(self, tree: Tree[State, str]) -> bool:
        """Whether the rollouts that are left are not wanted any more."""
        airrag, endings = self.airrag, valid(self.endings(tree))
        num_more = (airrag.rollouts - tree.num_rollouts) * airrag.answer_samples
        num_ended = tree.num_rollouts - tree.num_failed
        agreed = 0 < airrag.stop_agreed <= num_ended and len(clustered([each.vote for each in endings])) == 1
        # An eager expansion draws for more ends than its rollout comes to.
        counts = airrag.stop_decided and airrag.expansion == "lazy"
        if agreed:
            why = f"{num_ended} rollouts agree"
        elif counts and is_chosen(airrag.verifier, endings, num_more):
            why = "no vote to come can change the words of the answer"
        else:
            return False
        self.run.trace.decide("rollouts", "stop", why, numbers={"rollouts": tree.num_rollouts})
        return True

    def _ended(self, rollout: int) -> None:
        mine = self._rollouts[rollout]
        mine.allowance.close()
        self._memory.update(mine.memory)

    def _least(self) -> int:
        """Input tokens without which no rollout comes to an answer."""
        return self.run.model.count(
            prompts.summary_prompt(self.run.model, self.question, (), words=self.airrag.prompts)
        )

    def _for_verifier(self) -> int:
        """What is kept for the last call: its template, and room for an answer of each rollout."""
        airrag = self.airrag
        may_call = (
            airrag.rollouts > 1 or airrag.samples > 1 or airrag.answer_samples > 1 or airrag.draws_beside
        )
        if airrag.l_max is None or airrag.verifier != "sa" or not airrag.count_verifier or not may_call:
            return 0
        num_candidates = airrag.rollouts + airrag.draws_beside
        return num_kept_for_choosing(
            self.run.model, self.question, airrag.prompts, num_candidates, airrag.l_max
        )

    def _for_direct_answer(self) -> int:
        room = Room(self.airrag, self.question, self.run, Allowance(self.account, 0), self.judge)
        prompt = prompts.direct_prompt(self.run.model, self.question, words=self.airrag.prompts)
        return self.run.model.count(prompt) + (0 if self._judging else room.for_judging(State()))

    def _judged(self, state: State) -> float:
        return 0.0 if self.judge is None else self.judge.reward(state)

    def _rewards(self, terminals: Sequence[Node[State, str]]) -> list[float]:
        """What the paths that ended are worth, now that these are known; nothing where one is no answer.

        The N of equation 2 counts answers: refusals take nothing from what these have in common.
        """
        answers = {node.name: node.state.answer or "" for node in terminals}
        told = {name: answer for name, answer in answers.items() if Ending(State(), Vote(answer)).is_valid}
        scores = dict(zip(told, jcd_scores(list(told.values())), strict=True))
        return [self._reward(node, scores[node.name]) if node.name in told else 0.0 for node in terminals]

    def _reward(self, node: Node[State, str], score: float) -> float:
        consistency: float = score * _share_of_votes(node) ** self.airrag.vote_power
        judged = self._judged(node.state)
        mixed = (judged + consistency) / 2
        return {"consistency": consistency, "rm": judged, "mixed": mixed}[self.airrag.reward]


_SHORT_PATH = 6
"""What SAY, RA with a passage or two, and SA read, in prompts of SA without any passage."""


def _share_of_votes(node: Node[State, str]) -> float:
    siblings = [] if node.parent is None else node.parent.children
    drawn = sum(each.votes for each in siblings if each.action == node.action)
    return node.votes / drawn if drawn else 1.0
