"""Parts that the tests of annotations share: a critic that follows rules, passages, and rows."""

from askance.core.types import Passage
from askance.methods.selfrag.tokens import GROUPS
from askance.retrieval.scripted import ScriptedRetriever
from askance_lab.training.selfrag.annotate import Annotator
from askance_lab.training.selfrag.rows import SelfRagRow

ARNO = Passage("a", "Arno", "The Arno is a river that flows through Pisa.")
PO = Passage("p", "Po", "The Po flows [Relevant] through Turin.")
FIRST = "The river that flows through Pisa is the Arno."
SECOND = "It reaches the sea a few miles behind the town."
SHORT = "That is all."
ROW = SelfRagRow("r1", "made", "Which river flows through Pisa?", "", f"{FIRST} {SECOND} {SHORT}")


class RuleCritic:
    """A critic that gives the label of the first rule that applies, and records what it is asked.

    Args:
        labels: Labels by "group", "group first words of the text" or "group title of the passage".
    """

    def __init__(self, labels):
        self.labels, self.asked = labels, []

    def scorer_of(self, row):
        async def judge(group, hit, so_far, text, *, key):
            title = hit.passage.title if hit else ""
            self.asked.append((group, title, so_far, text))
            begins = [name for name in self.labels if name.startswith(group) and name != group]
            for name in begins:
                part = name.removeprefix(f"{group} ")
                if part == title or (text and text.startswith(part)):
                    return distribution(group, self.labels[name])
            return distribution(group, self.labels.get(group, ""))

        return judge


def distribution(group, label):
    """Return a distribution with one label, or with none if that is empty."""
    return {token: float(token == label) for token in GROUPS[group]}


LABELS = {
    "retrieve": "[Retrieval]",
    "retrieve It reaches": "[Continue to Use Evidence]",
    "relevance Arno": "[Relevant]",
    "relevance Po": "[Irrelevant]",
    "support Arno": "[Fully supported]",
    "support": "[No support / Contradictory]",
    "utility": "[Utility:4]",
}


def annotator(labels=LABELS, passages=(PO, ARNO), k=5, **identity):
    """Return an annotator, its critic and its retriever."""
    critic, retriever = RuleCritic(labels), ScriptedRetriever(passages)
    return Annotator(critic.scorer_of, retriever, k, identity), critic, retriever
