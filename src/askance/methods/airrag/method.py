"""AirRAG: a tree search over reasoning actions, and a vote over the answers it ends in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from askance.core.errors import MissingAbility
from askance.core.parameters import parameter
from askance.core.ports import Model, Needs, Run
from askance.core.types import Answer, Hit, Question, Role
from askance.methods.airrag.choosing import Chosen, Ending, Verifier, valid
from askance.methods.airrag.mcts import Node, Tree
from askance.methods.airrag.parameters import WITHOUT_ANALYSIS, Actions, AirragParameters
from askance.methods.airrag.state import RA, PathState
from askance.methods.airrag.tree_search import Searching
from askance.methods.common.answer_text import Evidence, cite_whole_answer
from askance.methods.common.named_methods import check_models_of, combined_needs
from askance.text.answers import short_answer
from askance.text.linguistics import content_words


@dataclass(frozen=True, slots=True)
class Airrag(AirragParameters):
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
        return combined_needs([own, *(method.needs for _, method in self.actions.named)])

    def check_models(self, models: Mapping[Role, Model]) -> None:
        """Raise MissingAbility where no model can give rewards, or another method can't work."""
        judge = models.get("reward", models["answer"])
        if self.is_judged and "score" not in judge.capabilities:
            raise MissingAbility(
                f"method airrag, set as it is, has paths scored, which {judge.name} can't: name a model that "
                "can, for example --model reward=bundled, or choose --set verifier=jcd --set "
                "reward=consistency."
            )
        check_models_of((method for _, method in self.actions.named), models)

    async def answer(self, question: Question, run: Run) -> Answer:
        searching = Searching(self, question, run)
        tree = await searching.tree()
        endings = valid(searching.endings(tree) or await searching.last_resort(tree))
        chosen = await searching.chosen(endings) if endings else None
        _show_tree(run, tree, self.exploration, chosen)
        _show_choice(run, self.verifier, endings, chosen)
        searching.show_spending(tree)
        return _answered(question, run, chosen)


@dataclass(frozen=True, slots=True)
class AirragLite(Airrag):
    """AirRAG with retrieval-answer, query transformation and summary-answer alone (AirRAG-Lite)."""

    actions: Actions = parameter(
        WITHOUT_ANALYSIS, "what a path may consist of: its own, and other methods by name"
    )

    paper: ClassVar[str] = "Feng et al. 2025 (AirRAG-Lite)"
    searches: ClassVar[str] = "the same, without a plan"


_VERIFIERS = {
    "sa": "by summary-answer, a call that sees all",
    "jcd": "by the most words in common with the others",
    "emb": "by the vector nearest to the others'",
    "rm": "by the greatest reward",
    "rm_vote": "by the greatest sum of rewards",
}
"""What the trace says of the verifiers."""


def _show_tree(run: Run, tree: Tree[PathState], exploration: float, chosen: Chosen | None) -> None:
    """Every node, each before its children; `chosen` is the end whose answer was taken."""
    for node in tree.root.below():
        if node.parent is None:
            continue
        numbers = {"visits": float(node.visits), "value": node.value, "votes": float(node.votes)}
        if node.visits and node.parent.visits:
            numbers["uct"] = node.uct(exploration)
        if node.is_terminal:
            numbers["reward"] = node.reward
        if node.state.is_cut:
            numbers["cut"] = 1.0
        if chosen is not None and node.state is chosen.ending.state:
            numbers["chosen"] = 1.0
        hits = node.state.found[-1] if node.action == RA and node.state.found else ()
        run.trace.expand(
            node.name,
            node.action,
            _said(node),
            passage=hits[0] if hits else None,
            numbers=numbers,
            rejected="" if _is_candidate(node) else "it says that there is no answer",
        )


def _show_choice(run: Run, verifier: Verifier, endings: Sequence[Ending], chosen: Chosen | None) -> None:
    """The candidates with their scores, and which was taken."""
    if chosen is None:
        return
    numbers: dict[str, float] = {}
    for ending, score in zip(endings, chosen.scores, strict=True):
        numbers[ending.answer] = max(score, numbers.get(ending.answer, score))
    num_answers = sum(ending.copies for ending in endings)
    several = f"{_VERIFIERS[verifier]} of {num_answers} answers"
    why = several if num_answers > 1 else "it is the only answer"
    run.trace.decide("choose", chosen.answer, why, numbers=numbers)


def _answered(question: Question, run: Run, chosen: Chosen | None) -> Answer:
    """The answer, and as its sources those passages on its path that it was written from and that support it.

    A retrieval whose own answer is that of the path is looked at with its sub-query. Where there is none,
    all passages are, with the question.
    """
    if chosen is None:
        run.trace.decide("end", "nothing", "no path came to an answer")
        return Answer("")
    state = chosen.ending.state
    own = [
        (pair.question, [hit.passage for hit in hits])
        for pair, hits in zip(state.history, state.found, strict=False)
        if _gives(pair.answer, chosen.answer)
    ]
    return with_sources(chosen.answer, question, run, own, state.hits)


def _gives(answer: str, final: str) -> bool:
    """Whether the answer to a sub-query is the final one, whatever words without content stand around it."""
    said = content_words(answer)
    return said == content_words(final) and bool(said)


def with_sources(
    text: str, question: Question, run: Run, own: Sequence[Evidence], others: Sequence[Hit]
) -> Answer:
    """A bare answer, committed, and its sources.

    Args:
        own: (question, passages) whose answer it is.
        others: what else it was written from; looked at where none of `own` supports it.
    """
    run.trace.commit(text)
    evidence = [*own, (question.text, [hit.passage for hit in others])]
    return Answer(text, _short_form(text, question), cite_whole_answer(run.trace, text, evidence))


def _short_form(text: str, question: Question) -> str:
    """The bare answer in what a path ended in; of an open question, that is all of it."""
    is_open = question.task == "open" or (question.task == "choice" and not question.options)
    return text if is_open else short_answer(text, question)


def _is_candidate(node: Node[PathState]) -> bool:
    """Whether its answer is one; a node that is no end may still come to one."""
    return node.state.answer is None or Ending(node.state).is_valid


def _said(node: Node[PathState]) -> str:
    said = node.state.steps[-1].said
    if node.action == RA and node.state.history:
        return f"{node.state.history[-1].question} → {node.state.history[-1].answer}"
    return "; ".join(said) or "None"
