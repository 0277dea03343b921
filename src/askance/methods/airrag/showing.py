"""What is told of a tree of AirRAG: its nodes and what they cost, and the answer with its sources."""

from collections.abc import Sequence

from askance.core.ports import Run
from askance.core.types import Answer, Hit, Question
from askance.methods.airrag.choosing import Chosen, Ending, Verifier
from askance.methods.airrag.state import RA, State
from askance.methods.finishing import Evidence, whole_cited
from askance.text.answers import short_answer
from askance.text.linguistics import content_words
from askance.tree.mcts import Node, Tree

_VERIFIERS = {
    "sa": "by summary-answer, a call that sees all",
    "jcd": "by the most words in common with the others",
    "emb": "by the vector nearest to the others'",
    "rm": "by the greatest reward",
    "rm_vote": "by the greatest sum of rewards",
}
"""What the trace says of the verifiers."""


def show_tree(run: Run, tree: Tree[State], exploration: float, chosen: Chosen | None = None) -> None:
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


def show_choice(run: Run, verifier: Verifier, endings: Sequence[Ending], chosen: Chosen | None) -> None:
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


def answered(question: Question, run: Run, chosen: Chosen | None) -> Answer:
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
    return Answer(text, short_form(text, question), whole_cited(run.trace, text, evidence))


def short_form(text: str, question: Question) -> str:
    """The bare answer in what a path ended in; of an open question, that is all of it."""
    is_open = question.task == "open" or (question.task == "choice" and not question.options)
    return text if is_open else short_answer(text, question)


def _is_candidate(node: Node[State]) -> bool:
    """Whether its answer is one; a node that is no end may still come to one."""
    return node.state.answer is None or Ending(node.state).is_valid


def _said(node: Node[State]) -> str:
    said = node.state.steps[-1].said
    if node.action == RA and node.state.history:
        return f"{node.state.history[-1].question} → {node.state.history[-1].answer}"
    return "; ".join(said) or "None"
