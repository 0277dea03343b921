"""What the terms of a trace mean, told where each first appears on a screen."""

from collections.abc import Iterator

from askance.core.trace import AnyEvent, Asked, Decided, Expanded, Searched

ACTIONS = {
    "say": "system analysis",
    "da": "direct answer",
    "ra": "retrieval-answer",
    "qt": "query transformation",
    "sa": "summary-answer",
    "retrieve": "with a passage",
    "none": "without a passage",
    "continue": "with the same passage",
}
"""The names of actions: those of the AirRAG paper, and what Self-RAG tries."""
_ACTIONS = {
    "say": "plans the sub-queries (None: the question itself is the only one)",
    "da": "answers the bare question, without a passage",
    "ra": "searches for a sub-query and answers it (sub-query → answer)",
    "qt": "asks something else next (None: goes on as planned)",
    "sa": "answers the question from the answers before it",
}
_SIGNALS = {
    "doubt (nats) × attention": "RIND, how unsure the model was of it (entropy in nats) × the most attention "
    "that later words pay it",
    "entropy (nats) × attention": "RIND, how unsure the model was of it (entropy in nats) × the most "
    "attention that later words pay it",
    "token probability": "the model's probability of its least probable token",
    "1 − probability": "1 − the model's probability of it",
    "share of [Retrieval]": "the model's probability of [Retrieval], the reflection token that asks for a "
    "search, as a share of that of [Retrieval] and [No Retrieval]",
}
_NUMBERS = {
    "score": "what candidates are ranked by: sequence + weighted relevance, support and utility",
    "step": "the score of this segment alone",
    "sequence": "mean probability of its tokens to the model",
    "relevance": "the model's judgement that the passage bears on the question: [Relevant], 0 to 1",
    "support": "that the passage bears the text out: [Fully supported] 1, [Partially supported] 0.5, "
    "[No support] 0",
    "utility": "that it is a useful answer: [Utility:1] -1 to [Utility:5] 1",
    "visits": "rollouts that took this step",
    "value": "the sum of their rewards",
    "uct": "mean reward + a bonus for few visits: where the next rollout goes",
    "reward": "what the answer of a finished path is worth, 0 to 1",
}
_SPENT = {
    "rollouts": "a rollout is one path through the tree, down to an answer",
    "tokens": "L_total: all tokens read and written",
    "l_max": "L_max: the most input tokens of a question (--set l_max=N)",
}
_SCORES = {
    "bm25": "its BM25 score, for words shared with the query, rare ones weighing more",
    "dense": "the cosine of its vector and the query's, 1 at most",
    "hybrid": "its reciprocal rank fusion: higher where it ranks high both by words and by vectors",
}


class Legend:
    """Explains the terms of one trace, each once."""

    def __init__(self) -> None:
        self._known = set[str]()
        self._retriever = ""

    def __call__(self, event: AnyEvent) -> list[str]:
        """What an event needs to be understood, beyond what was told of those before it."""
        if isinstance(event, Asked):
            self._retriever = event.retriever.partition(" ")[0]
        told = dict(self._terms(event))
        new = [term for term in told if term not in self._known]
        self._known.update(new)
        return [told[term] for term in new]

    def _terms(self, event: AnyEvent) -> Iterator[tuple[str, str]]:
        if isinstance(event, Searched) and event.hits and self._retriever in _SCORES:
            yield "hit", f"number behind a title: {_SCORES[self._retriever]}"
        elif isinstance(event, Decided):
            yield from _of_decision(event)
        elif isinstance(event, Expanded):
            yield "node", f"{event.node}: a place in the tree; {event.node}.1 is the first step behind it"
            if event.action in _ACTIONS:
                yield event.action, f"{ACTIONS[event.action]}: {_ACTIONS[event.action]}"
            yield from ((name, f"{name}: {_NUMBERS[name]}") for name in event.numbers if name in _NUMBERS)


def _of_decision(event: Decided) -> Iterator[tuple[str, str]]:
    if event.words and event.threshold is not None:
        side = "at most" if event.signal == "token probability" else "above"
        meaning = _SIGNALS.get(event.signal, event.signal)
        yield (
            event.signal,
            f"(number) behind a word: {meaning}; in doubt {side} the threshold {event.threshold:g}",
        )
    if event.name == "budget":
        yield from ((name, meaning) for name, meaning in _SPENT.items() if name in event.numbers)
    if event.name == "choose" and event.numbers:
        yield "choose", "(number) behind a candidate: its score, by which the verifier compares it"
