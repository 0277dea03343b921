"""AirRAG: a tree search over reasoning actions, and a vote over the answers it ends in."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from askance.core.errors import MissingAbility
from askance.core.knobs import knob
from askance.core.ports import Model, Needs, Run
from askance.core.types import Answer, Question, Role
from askance.methods.airrag.actions import WITHOUT_ANALYSIS, Actions
from askance.methods.airrag.choosing import valid
from askance.methods.airrag.knobs import AirragKnobs
from askance.methods.airrag.searching import Searching
from askance.methods.airrag.showing import answered, show_choice, show_tree
from askance.methods.members import check_all, joined_needs


@dataclass(frozen=True, slots=True)
class Airrag(AirragKnobs):
    """AirRAG (Feng et al. 2025, arXiv 2501.10053): Monte Carlo tree search over five actions.

    SAY splits the question into sub-queries, RA answers one from passages, QT rewrites what to ask next, SA
    sums up; DA answers at once. UCT chooses which path to extend; every path that ends is a candidate.

    There is no public code. Where the paper is silent: the queue of sub-queries, the reward (how much an
    answer has in common with all answers found so far, computed anew after each rollout), the exploration
    weight of rStar, lazy expansion, and the first rollout, which takes the actions in the order of the
    paper's appendix. DA runs together with SAY (section 3.1), as a candidate beside the paths. Ours: a
    query that was asked is not asked again; a retrieval without passages is a refusal; `rollouts` run `wave`
    at a time, one at most from each node, and timing changes nothing; they share the budget.
    """

    paper: ClassVar[str] = "Feng et al. 2025 (AirRAG)"
    searches: ClassVar[str] = "for each sub-query of a tree"

    @property
    def needs(self) -> Needs:
        roles: frozenset[Role] = frozenset({"reward"}) if self.is_judged else frozenset()
        searches = not self.actions.is_direct
        own = Needs(retriever=searches, roles=roles, encoder=self.verifier == "emb")
        return joined_needs([own, *(method.needs for _, method in self.actions.named)])

    def check_models(self, models: Mapping[Role, Model]) -> None:
        """Raise MissingAbility where no model can give rewards, or another method can't work."""
        judge = models.get("reward", models["answer"])
        if self.is_judged and "score" not in judge.capabilities:
            raise MissingAbility(
                f"method airrag, set as it is, has paths scored, which {judge.name} can't: name a model that "
                "can, for example --model reward=bundled, or choose --set verifier=jcd --set "
                "reward=consistency."
            )
        check_all((method for _, method in self.actions.named), models)

    async def answer(self, question: Question, run: Run) -> Answer:
        searching = Searching(self, question, run)
        tree = await searching.tree()
        endings = valid(searching.endings(tree) or await searching.last_resort(tree))
        chosen = await searching.choose(endings) if endings else None
        show_tree(run, tree, self.exploration, chosen)
        show_choice(run, self.verifier, endings, chosen)
        searching.show_spending(tree)
        return answered(question, run, chosen)


@dataclass(frozen=True, slots=True)
class AirragLite(Airrag):
    """AirRAG with retrieval-answer, query transformation and summary-answer alone (AirRAG-Lite)."""

    actions: Actions = knob(
        WITHOUT_ANALYSIS, "what a path may consist of: its own, and other methods by name"
    )

    paper: ClassVar[str] = "Feng et al. 2025 (AirRAG-Lite)"
    searches: ClassVar[str] = "the same, without a plan"
