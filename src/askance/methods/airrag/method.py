"""AirRAG: a tree search over reasoning actions, and a verifier that chooses among the answers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from askance.core.answers import Answer
from askance.core.errors import MissingAbility
from askance.core.parameters import checked_dataclass, parameter
from askance.core.ports import FeatureScorer, Needs, PairScorer, RoleModel, Run
from askance.core.types import Hit, Question, Role
from askance.methods.airrag.parameters import WITHOUT_ANALYSIS, Actions, AirragParameters
from askance.methods.airrag.state import QT, RA, SAY, Node
from askance.methods.airrag.tree_search import TreeSearch
from askance.methods.airrag.verifiers import ChosenAnswer, Verifier, agreement_with, cluster_answers
from askance.methods.common.answer_text import Evidence, cite_whole_answer
from askance.methods.common.named_methods import combined_needs
from askance.text.answers import short_answer
from askance.text.linguistics import content_words


@checked_dataclass()
class Airrag(AirragParameters):
    """AirRAG (Feng et al. 2025, arXiv 2501.10053): Monte Carlo tree search over five actions.

    SAY splits the question into sub-queries, RA answers one of them from passages, QT rewrites the next
    query, SA summarises the final answer, and DA answers directly. UCT selects the path to extend. The answer
    of every finished path is a candidate.

    The authors have published no code. The paper does not define the queue of sub-queries, the exploration
    weight (we use that of rStar) or when actions are expanded (by default, each is expanded when it is
    taken). Nor does the paper define the reward. Our reward is the similarity of an answer to all answers
    found so far, recomputed after each rollout. The first rollout takes the actions in the order of the
    paper's appendix. DA runs beside SAY (section 3.1) and adds one more candidate. We add three rules. A
    query is never asked twice. A retrieval without passages counts as a refusal. Up to `wave` rollouts run
    concurrently, at most one from each node. All rollouts share the token budget, and timing never changes
    the result.
    """

    paper: ClassVar[str] = "Feng et al. 2025 (AirRAG)"
    searches: ClassVar[str] = "for each sub-query of a tree"

    @property
    def needs(self) -> Needs:
        roles: frozenset[Role] = frozenset({"plan"} if {SAY, QT} & set(self.actions.own) else ())
        roles |= {"reward"} if self.is_judged else set()
        searches = not self.actions.is_direct
        own = Needs(retriever=searches, roles=roles, encoder=self.verifier == "emb")
        return combined_needs([own, *self.actions.needs])

    def check_models(self, models: Mapping[Role, RoleModel]) -> None:
        """Raise MissingAbility if no model can give rewards, or if a method used as an action can't run."""
        judge = models.get("reward", models["answer"])
        scores = isinstance(judge, PairScorer | FeatureScorer) or "score" in judge.capabilities
        if self.is_judged and not scores:
            raise MissingAbility(
                f"method airrag, with these parameters, scores paths, which {judge.name} can't do: name a "
                "model that can, for example --model reward=bundled, or choose --set verifier=jcd --set "
                "reward=consistency."
            )
        self.actions.check_models(models)

    async def answer(self, question: Question, run: Run) -> Answer:
        search = TreeSearch(self, question, run)
        await search.search()
        candidates = search.candidates() or await search.last_resort()
        chosen = await search.verify(candidates) if candidates else None
        for root in search.roots:
            _record_tree(run, root, self.exploration, chosen)
        _record_choice(run, self.verifier, chosen)
        search.record_cost()
        answer = _cited_answer(question, run, chosen)
        return replace(answer, agreement=agreement_with(answer.text, candidates))


@checked_dataclass()
class AirragLite(Airrag):
    """AirRAG-Lite: AirRAG with only retrieval-answer, query transformation and summary-answer."""

    actions: Actions = parameter(
        WITHOUT_ANALYSIS, "actions that a path may take: its own, and other methods by name"
    )

    paper: ClassVar[str] = "Feng et al. 2025 (AirRAG-Lite)"
    searches: ClassVar[str] = "the same, without a plan"


_VERIFIERS = {
    "sa": "by summary-answer, a call that reads them all",
    "jcd": "by the most words in common with the others",
    "emb": "by the vector nearest to the others'",
    "vote": "by the most votes of equal answers",
    "rm": "by the greatest reward",
    "rm_vote": "by the greatest sum of rewards",
}
"""The description of each verifier in the trace."""


def _record_tree(run: Run, root: Node, exploration: float, chosen: ChosenAnswer | None) -> None:
    """Record every node in the trace, parents before children, and mark the node of the `chosen` answer."""
    for node in root.subtree():
        if node.parent is None:
            continue
        numbers = {"visits": float(node.visits), "value": node.value, "votes": float(node.state.votes)}
        if node.visits and node.parent.visits:
            numbers["uct"] = node.uct(exploration)
        if node.answer:
            numbers["reward"] = node.reward
        is_chosen = chosen is not None and node is chosen.node
        marks = {"repeats": node.state.num_repeats, "cut": node.state.is_cut, "chosen": is_chosen}
        numbers |= {name: float(mark) for name, mark in marks.items() if mark}
        hits, text = tuple[Hit, ...](), node.state.steps[-1].text
        if node.action == RA:
            hits, answered = node.state.found[-1], node.state.history[-1]
            text = f"{answered.question} → {answered.answer}"
        run.trace.expand(
            node.name,
            node.action,
            text,
            passage=hits[0] if hits else None,
            numbers=numbers,
            rejected="it says that there is no answer" if node.answer and not node.is_valid else "",
        )


def _record_choice(run: Run, verifier: Verifier, chosen: ChosenAnswer | None) -> None:
    """Record the candidates, their scores, and the choice in the trace."""
    if chosen is None:
        return
    numbers: dict[str, float] = {}
    for node, score in chosen.scores.items():
        numbers[node.answer] = max(score, numbers.get(node.answer, score))
    num_answers = sum(node.state.votes for node in chosen.scores)
    if num_answers == 1:
        why = "it is the only answer"
    elif len(cluster_answers([*chosen.scores])) == 1:
        why = f"all {num_answers} answers agree"
    else:
        why = f"of {num_answers} answers, {_VERIFIERS[verifier]}"
    run.trace.decide("choose", chosen.answer, why, numbers=numbers)


def _cited_answer(question: Question, run: Run, chosen: ChosenAnswer | None) -> Answer:
    """Return the chosen answer, with a citation of the passage on its path that supports it.

    If the answer to a sub-query has the same content words as the final answer, the passages of that
    sub-query are checked first, with the sub-query as the question. If none of them supports the answer, all
    passages of the path are checked, with the original question.
    """
    if chosen is None:
        run.trace.decide("end", "nothing", "no path reached an answer")
        return Answer("")
    state, words = chosen.node.state, content_words(chosen.answer)
    own = [
        (pair.question, [hit.passage for hit in hits])
        for pair, hits in zip(state.history, state.found, strict=False)
        if content_words(pair.answer) == words and words
    ]
    return answer_with_sources(chosen.answer, question, run, own, state.hits)


def answer_with_sources(
    text: str, question: Question, run: Run, own: Sequence[Evidence], others: Sequence[Hit]
) -> Answer:
    """Commit an answer that has no citation markers, and return it with its citations.

    Args:
        own: Pairs of a question and the passages from which it was answered.
        others: Further passages that the answer is based on, checked only if no passage in `own` supports it.
    """
    run.trace.commit(text)
    evidence = [*own, (question.text, [hit.passage for hit in others])]
    return Answer(text, short_form(text, question), cite_whole_answer(run.trace, text, evidence))


def short_form(text: str, question: Question) -> str:
    """Return the short answer in `text` or, for an open question, the whole text."""
    is_open = question.task == "open" or (question.task == "choice" and not question.options)
    return text if is_open else short_answer(text, question)
