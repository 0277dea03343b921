"""Shared parts of the AirRAG tests: the paper's question, its passages, a model that plays all actions."""

import asyncio
from dataclasses import replace

from askance.core.trace import Decided, Expanded, Generated, ScoredOptions
from askance.core.types import Passage, Question
from askance.methods.airrag.parameters import Actions
from askance.methods.airrag.state import QT, RA, SA, SAY
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.asking import ask

QUESTION = Question(
    "q", "What is the mouth of the watercourse of the body of water at Bartram's Covered Bridge?"
)
BRIDGE = Passage("1", "Bartram's Covered Bridge", "It is in Pennsylvania and carries a road over Crum Creek.")
CREEK = Passage("2", "Crum Creek", "It flows to the Delaware River at Eddystone.")
OTHER_CREEK = Passage("3", "Crum Creek (New York)", "It flows to the Mohawk.")
PASSAGES = (BRIDGE, CREEK, OTHER_CREEK)

PATHS_ALONE = Actions(own=(SAY, RA, QT, SA))
"""Without a direct answer beside the paths."""

WHERE = "Where is Bartram's Covered Bridge?"
MOUTH = "Mouth of the watercourse at the bridge?"
TRANSFORMED = "Mouth of Crum Creek?"
SCRIPT = {
    "say": f"1. {WHERE}\n2. {MOUTH}",
    "ra": lambda prompt: "Over Crum Creek." if f"Question: {WHERE}" in prompt else "The Delaware River.",
    "qt": TRANSFORMED,
    "sa": "Answer: It is the Delaware River.",
    "da": "The Schuylkill River",
    "verify": "the Delaware River",
}


def playing(**changes):
    """Return replies by action; a reply may be a function of the prompt, or of the prompt and the sample."""
    script = SCRIPT | changes

    def reply(prompt, key):
        action = next(each for each in reversed(key) if each in script)
        said = script[action]
        return said(prompt) if callable(said) else said

    return reply


def model(*, named="scripted", scores=None, context_tokens=4096, capabilities=None, **changes):
    """Return a scripted model that plays AirRAG's actions."""
    abilities = {} if capabilities is None else {"capabilities": frozenset(capabilities)}
    return ScriptedModel(
        playing(**changes), name=named, scores=scores, context_tokens=context_tokens, **abilities
    )


class Varied(ScriptedModel):
    """Gives the lines of a reply to the samples of a call, one each in turn; `/` stands for a line break."""

    async def generate(self, request):
        found = []
        for self.sample in range(request.n):
            found += await super().generate(replace(request, key=(*request.key, self.sample), n=1))
        return tuple(found)

    def _reply(self, shown, key):
        reply = super()._reply(shown, key)
        if reply is None or not reply.text:
            return reply
        lines = reply.text.splitlines()
        return type(reply)(lines[self.sample % len(lines)].replace("/", "\n"))


def run(method, models=None, passages=PASSAGES, question=QUESTION, *, seed=0, encoder=None):
    """Return the result, and the queries."""
    models = models or model()
    models = models if isinstance(models, dict) else {"answer": models}
    retriever = passages if hasattr(passages, "search") else ScriptedRetriever(passages)
    asked = ask(question, method, models, retriever, seed=seed, encoder=encoder)
    return asyncio.run(asked), getattr(retriever, "queries", [])


def nodes(result):
    """Return the steps of the tree by name."""
    return {event.node: event for event in result.trace.events if isinstance(event, Expanded)}


def tree(result):
    """Return a line for each node of the tree: its name, action, text and numbers.

    The numbers are visits, votes, reward (if the node has an answer), and marks.
    """
    lines = []
    for event in nodes(result).values():
        numbers = [
            f"{event.numbers[name]:.3g}" for name in ("visits", "votes", "reward") if name in event.numbers
        ]
        marks = [name for name in ("repeats", "cut", "chosen") if event.numbers.get(name)]
        lines.append(" ".join([event.node, event.action, event.text, "·", *numbers, *marks]))
    return lines


def path(result, node):
    """Return the actions that lead to a node."""
    numbers = node.split(".")
    return [nodes(result)[".".join(numbers[:end])].action for end in range(2, len(numbers) + 1)]


def ends(result):
    """Return the nodes with an answer."""
    return [name for name, event in nodes(result).items() if event.action in ("sa", "da")]


def calls(result):
    """Return the actions that the model was asked for, with the last part of each key."""
    return [event.key for event in result.trace.events if isinstance(event, Generated)]


def spent(result):
    """Return the numbers of the budget."""
    (decided,) = [each for each in decisions(result) if each.name == "budget"]
    return decided.numbers


def decisions(result):
    return [event for event in result.trace.events if isinstance(event, Decided)]


def scored(result):
    """Return the prompts that a reward model was shown."""
    return [event.prompt for event in result.trace.events if isinstance(event, ScoredOptions)]
