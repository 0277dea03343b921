"""AirRAG: a tree search over reasoning actions, and a vote over the answers it ends in."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from askance.core.knobs import Knobs, knob
from askance.core.ports import Needs, Run
from askance.core.types import Answer, Demo, Question, Role, Sampling
from askance.methods import airrag_prompts as prompts
from askance.methods.airrag_acting import Acting, Memory
from askance.methods.airrag_actions import ALL, WITHOUT_ANALYSIS, Actions
from askance.methods.airrag_budget import Account, Allowance
from askance.methods.airrag_choosing import Chosen, Ending, choose, valid
from askance.methods.airrag_showing import answered, show_spending, show_tree
from askance.methods.airrag_state import DA, QT, RA, SA, SAY, Legality, State
from askance.methods.airrag_voting import Vote, jcd_scores
from askance.methods.prompts import STOPS
from askance.tree.mcts import Node, Outcome, Rules, Settings, Tree, search

Verifier = Literal["sa", "jcd", "emb", "rm", "rm_vote"]


@dataclass(frozen=True, slots=True)
class Airrag(Knobs):
    """AirRAG (Feng et al. 2025, arXiv 2501.10053): Monte Carlo tree search over five actions.

    SAY splits the question into sub-queries, RA answers one from passages, QT rewrites what to ask next, SA
    sums up; DA answers at once. UCT chooses which path to extend; every path that ends is a candidate.

    There is no public code. Where the paper is silent: the queue of sub-queries, the reward (how much an
    answer has in common with all answers found so far, computed anew after each rollout), the exploration
    weight of rStar, lazy expansion, and the first rollout, which takes the actions in the order of the
    paper's appendix so that a single one is a path of reasoning. Ours: a query that was asked is not asked
    again; a retrieval without passages is a refusal; `rollouts` run `wave` at a time, one at most from each
    node, which changes no result; the budget is shared out between the rollouts.
    """

    rollouts: int = knob(1, "paths to try", at_least=1)
    samples: int = knob(1, "replies of SAY and QT to draw at once", at_least=1)
    answer_samples: int = knob(1, "replies of RA, SA and DA to draw at once", at_least=1)
    q_div: float = knob(
        0.0, "how far SAY and QT go from temperature and top_p to 1 and 1", at_least=0, at_most=1
    )
    temperature: float = knob(0.7, "of all replies but the verifier's", at_least=0)
    top_p: float = knob(0.8, "probability mass to sample from", at_least=0.01, at_most=1)
    top_k: int = knob(50, "tokens to sample from; 0: all", at_least=0)
    passages: int = knob(
        3, "passages for a sub-query; 0: as many as l_max has room for, up to most_passages", at_least=0
    )
    most_passages: int = knob(100, "the most of them", at_least=1)
    l_max: int | None = knob(None, "most input tokens of all calls of a question; none: no limit", at_least=1)
    count_verifier: bool = knob(True, "whether the verifier's call counts against l_max")
    verifier: Verifier = knob(
        "sa", "who chooses: a call that sees all answers, common words, vectors, or a reward model"
    )
    reward: Literal["consistency", "rm", "mixed"] = knob(
        "consistency", "what a path is worth while searching: common words, a reward model, or half of each"
    )
    vote_power: float = knob(0.0, "weight of a reply's share of the samples drawn beside it", at_least=0)
    exploration: float = knob(2.0, "weight of what was visited rarely", at_least=0)
    schedule: Literal["constant", "linear", "exponential"] = knob("constant", "how that weight falls")
    expansion: Literal["lazy", "eager"] = knob(
        "lazy", "draw for an action when it is taken, or for all actions of a node at once"
    )
    unexplored: Literal["first", "random"] = knob("first", "which of several new nodes comes first")
    skip_exhausted: bool = knob(True, "never visit an end twice, and stop when nothing is left")
    wave: int = knob(4, "rollouts side by side", at_least=1)
    actions: Actions = knob(ALL, "what a path may consist of: its own, and other methods by name")
    include_da: bool = knob(False, "a direct answer as a further candidate when there is one rollout")
    followup_qt: Literal["if_no_plan", "always", "never"] = knob(
        "if_no_plan", "when the first rollout asks for a follow-up once all is answered"
    )
    early_sa: bool = knob(False, "sum up also while sub-queries are left")
    most_iterations: int = knob(4, "most RA, and most QT, of a path", at_least=1)
    examples: int = knob(0, "worked examples in the prompts of SAY, QT and SA", at_least=0, at_most=3)
    query_tokens: int = knob(256, "most new tokens of SAY and QT", at_least=1)
    answer_tokens: int = knob(256, "most new tokens of RA", at_least=1)
    summary_tokens: int = knob(128, "most new tokens of SA and DA", at_least=1)

    paper: ClassVar[str] = "Feng et al. 2025 (AirRAG)"

    @property
    def needs(self) -> Needs:
        is_judged = self.verifier in ("rm", "rm_vote") or self.reward != "consistency"
        roles: frozenset[Role] = frozenset({"reward"}) if is_judged else frozenset()
        return Needs(retriever=True, roles=roles)

    @property
    def legality(self) -> Legality:
        """What may follow what."""
        steps = 2 * self.most_iterations + 1
        return Legality(
            self.actions.is_lite,
            self.most_iterations,
            steps if self.actions.is_lite else steps + 1,
            self.early_sa,
            self.actions.names,
            answers_directly=DA in self.actions.own,
        )

    @property
    def analysis_demos(self) -> tuple[Demo, ...]:
        """For SAY."""
        return prompts.SAY_DEMOS[: self.examples]

    @property
    def transformation_demos(self) -> tuple[Demo, ...]:
        """For QT."""
        return prompts.QT_DEMOS[: self.examples]

    @property
    def summary_demos(self) -> tuple[Demo, ...]:
        """For SA."""
        return prompts.SA_DEMOS[: self.examples]

    def samples_of(self, action: str) -> int:
        """Replies of an action drawn at once."""
        return self.samples if action in (SAY, QT) else self.answer_samples

    def sampling(self, action: str) -> Sampling:
        """How an action's replies are drawn; they end where an invented next question would begin."""
        far = self.q_div if action in (SAY, QT) else 0.0
        tokens = {SAY: self.query_tokens, QT: self.query_tokens, RA: self.answer_tokens}
        return Sampling(
            tokens.get(action, self.summary_tokens),
            temperature=self.temperature + far * (1 - self.temperature),
            top_p=self.top_p + far * (1 - self.top_p),
            top_k=self.top_k,
            stop=STOPS,
        )

    async def answer(self, question: Question, run: Run) -> Answer:
        searching = _Searching(self, question, run)
        tree = await searching.tree()
        endings = valid(searching.endings(tree))
        chosen = await searching.choose(endings) if endings else None
        show_tree(run, tree, self.exploration)
        show_spending(run, searching.account, self, tree)
        return answered(question, run, chosen)


@dataclass(frozen=True, slots=True)
class AirragLite(Airrag):
    """AirRAG with retrieval-answer, query transformation and summary-answer alone (AirRAG-Lite)."""

    actions: Actions = knob(
        WITHOUT_ANALYSIS, "what a path may consist of: its own, and other methods by name"
    )


@dataclass(slots=True)
class _Rollout:
    allowance: Allowance
    memory: Memory
    is_over: bool = False


@dataclass(slots=True)
class _Searching:
    """One question's search."""

    airrag: Airrag
    question: Question
    run: Run
    account: Account = field(init=False)
    _rollouts: dict[int, _Rollout] = field(default_factory=dict)
    _memory: Memory = field(default_factory=dict)
    _kept: int = 0

    def __post_init__(self) -> None:
        self.account = Account(self.airrag.l_max)
        self._kept = self._for_verifier()
        self.account.set_aside += self._kept

    async def tree(self) -> Tree[State, str]:
        """The search, and for more than one rollout a direct answer beside it."""
        airrag = self.airrag
        rules = Rules(
            actions=airrag.legality.actions,
            draw=self._draw,
            is_terminal=lambda state: state.answer is not None,
            choose=self._choose,
            rewards=self._rewards,
            may_start=self._may_start,
            ended=self._ended,
        )
        settings = Settings(
            rollouts=airrag.rollouts,
            wave=airrag.wave,
            exploration=airrag.exploration,
            schedule=airrag.schedule,
            expansion=airrag.expansion,
            revisits=not airrag.skip_exhausted,
            unexplored=airrag.unexplored,
            seed=f"{self.run.seed} {self.question.id}",
        )
        start = State(pending=(self.question.text,)) if airrag.actions.is_lite else State()
        return await search(start, rules, settings)

    def endings(self, tree: Tree[State, str]) -> list[Ending]:
        """Where distinct paths ended, those drawn but not entered included, in the order of the tree."""
        found: dict[object, Ending] = {}
        for node in tree.root.below():
            if node.state.answer is not None:
                vote = Vote(node.state.answer, node.votes, node.visits, node.reward)
                found.setdefault(node.state.key, Ending(node.state, vote))
        return list(found.values())

    async def choose(self, endings: Sequence[Ending]) -> Chosen:
        """By the verifier, with what was kept for it."""
        self.account.set_aside -= self._kept
        account = self.account if self.airrag.count_verifier else Account(None)
        return await choose(self.airrag, self.question, self.run, endings, account.share(1))

    async def _draw(self, node: Node[State, str], action: str, rollout: int) -> list[Outcome[State]]:
        mine = self._rollouts[rollout]
        acting = Acting(self.airrag, self.question, self.run, mine.allowance, mine.memory)
        return await acting.draw(node.state, node.name, action)

    def _choose(self, node: Node[State, str], untried: Sequence[str], rollout: int) -> str:
        """In the order of the paper's appendix first, afterwards by chance."""
        if rollout:
            seed = f"{self.run.seed} {self.question.id} {rollout} {node.name}"
            return random.Random(seed).choice(untried)
        wanted = self._next(node.state)
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
        allowance = self.account.share(self.airrag.rollouts - rollout)
        if rollout and not allowance.fits(self._least()):
            allowance.close()
            return False
        self._rollouts[rollout] = _Rollout(allowance, dict(self._memory))
        return True

    def _ended(self, rollout: int) -> None:
        mine = self._rollouts[rollout]
        mine.allowance.close()
        self._memory.update(mine.memory)

    def _least(self) -> int:
        """Input tokens without which no rollout comes to an answer."""
        return self.run.model.count(prompts.summary_prompt(self.run.model, self.question, ()))

    def _for_verifier(self) -> int:
        """What is kept for the last call: its template, and room for an answer of each rollout."""
        airrag = self.airrag
        may_call = airrag.rollouts > 1 or airrag.samples > 1 or airrag.answer_samples > 1
        if airrag.l_max is None or airrag.verifier != "sa" or not airrag.count_verifier or not may_call:
            return 0
        template = self.run.model.count(prompts.candidates_prompt(self.run.model, self.question, ()))
        return min(template + _CANDIDATE_TOKENS * airrag.rollouts, airrag.l_max // 2)

    def _rewards(self, terminals: Sequence[Node[State, str]]) -> list[float]:
        answers = [node.state.answer or "" for node in terminals]
        is_valid = [bool(valid([Ending(node.state, Vote(node.state.answer or ""))])) for node in terminals]
        shares = [_share_of_votes(node) ** self.airrag.vote_power for node in terminals]
        scores = jcd_scores(answers)
        return [
            score * share if told else 0.0
            for score, share, told in zip(scores, shares, is_valid, strict=True)
        ]


_CANDIDATE_TOKENS = 32


def _share_of_votes(node: Node[State, str]) -> float:
    siblings = [] if node.parent is None else node.parent.children
    drawn = sum(each.votes for each in siblings if each.action == node.action)
    return node.votes / drawn if drawn else 1.0
