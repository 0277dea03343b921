"""The words of AirRAG's prompts (Feng et al. 2025, arXiv 2501.10053, appendix A), which can be replaced.

What each must say is the paper's; the words are ours. They are short, since every call of a tree search pays
for them.
"""

from dataclasses import dataclass, field, replace

from askance.core.types import Demo
from askance.methods.prompts import content_name

REFUSAL = "The passages do not contain the answer."
"""What RA asks for where the passages hold no answer."""


@dataclass(frozen=True, slots=True, repr=False)
class AirragWording:
    """What the model is told to do by each action, with worked examples. Its repr changes with the content.

    Attributes:
        system: the system turn, and what stands in front of an instruction in plain text.
        say, ra, qt, sa: the instructions of the actions; that of DA is none.
        verify: of the call that chooses between answers.
        judge: of the reward model, which replies Yes or No.
        examples: how many of each action's examples are shown, unless the method is told otherwise.
        say_demos, qt_demos, sa_demos: worked examples; `Question: ` goes in front of each.
        name: what the repr begins with; no part of the content, so that renaming changes nothing.
    """

    system: str
    say: str
    ra: str
    qt: str
    sa: str
    verify: str
    judge: str
    examples: int = 0
    say_demos: tuple[Demo, ...] = ()
    qt_demos: tuple[Demo, ...] = ()
    sa_demos: tuple[Demo, ...] = ()
    name: str = field(default="wording", compare=False, kw_only=True)

    def __repr__(self) -> str:
        return content_name(self)

    def __str__(self) -> str:
        return next((known.name for known in (OWN, READER) if self == known), repr(self))


_SAY_DEMOS = (
    Demo(
        "Is the tallest mountain of Kenya higher than that of Tanzania?",
        "Which is the tallest mountain of Kenya, and how high is it?\n"
        "Which is the tallest mountain of Tanzania, and how high is it?",
    ),
    Demo(
        "In which city did the inventor of the saxophone die?",
        "Who invented the saxophone?\nIn which city did the inventor of the saxophone die?",
    ),
    Demo("How many strings has a cello?", "None"),
)
_QT_DEMOS = (
    Demo(
        "In which city did the inventor of the saxophone die?\n"
        "Known: Who invented the saxophone? Adolphe Sax\n"
        "Next query: In which city did the inventor of the saxophone die?",
        "In which city did Adolphe Sax die?",
    ),
    Demo(
        "Which sea does the river of Vienna flow into?\n"
        "Known: Which river flows through Vienna? the Danube\nNext query: None",
        "Which sea does the Danube flow into?",
    ),
    Demo(
        "How many strings has a cello?\nKnown: How many strings has a cello? four\nNext query: None", "None"
    ),
)
_SA_DEMOS = (
    Demo(
        "Known: Who invented the saxophone? Adolphe Sax\n"
        "Known: In which city did Adolphe Sax die? Paris\n"
        "Question: In which city did the inventor of the saxophone die?",
        "Paris",
    ),
    Demo(
        "Known: How high is Mount Kenya? 5,199 m\nKnown: How high is Kilimanjaro? 5,895 m\n"
        "Question: Is the tallest mountain of Kenya higher than that of Tanzania?",
        "no",
    ),
    Demo("Known: How many strings has a cello? four\nQuestion: How many strings has a cello?", "four"),
)

OWN = AirragWording(
    system="You are an expert at answering questions.",
    say="Rephrase the question, make it more general, or split it into sub-queries, so that searching and "
    "answering get easier. Write one query per line and nothing else, or None if nothing is gained.",
    ra="Answer the question from the passages, which may or may not be relevant. Be brief. If they do not "
    f"hold the answer, say: {REFUSAL}",
    qt="Given what is known, make searching and answering easier: rewrite the next query with the names "
    "that are known by now, step back to a more general question, split it into several queries, or ask a "
    "follow-up question. Write one query per line and nothing else, or None if nothing is gained.",
    sa="Give the correct and concise answer to the question, from the passages and from what is known.",
    verify="Give the correct and concise answer to the question. Choose between the candidates by what is "
    "known and by the passages. A number in brackets says how often a candidate was found.",
    judge="Do these steps lead to the correct answer to the question? Look at whether the plan fits, each "
    "finding holds and the answer follows. Reply Yes or No.",
    say_demos=_SAY_DEMOS,
    qt_demos=_QT_DEMOS,
    sa_demos=_SA_DEMOS,
    name="airrag",
)
READER = replace(
    OWN,
    qt="Given what is known, decide whether to rephrase, summarise or split the next query, or to ask a "
    "follow-up, so that searching and answering get easier. Write one query per line, or None if none is "
    "needed.",
    name="airrag-reader",
)
"""What trained readers are taught, the packaged one among them: whoever changes it must train that again."""
