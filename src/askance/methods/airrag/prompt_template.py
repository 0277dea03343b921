"""The prompt template of AirRAG (Feng et al. 2025, arXiv 2501.10053, appendix A), which users can replace.

The default text is in `prompt_template.toml`.
"""

import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path

from askance.core.types import Demo
from askance.methods.common.prompts import content_name

REFUSAL = "The passages do not contain the answer."
"""The reply that RA asks for if the passages hold no answer."""


@dataclass(frozen=True, slots=True, repr=False)
class AirragPromptTemplate:
    """The instructions of each action, with worked examples. The repr changes with the content.

    Attributes:
        system: The system message, which precedes each instruction if the model has no chat format.
        say, ra, qt, sa: The instructions of the actions. DA has none.
        verify: The instruction of the call that chooses between answers.
        judge: The instruction of the reward model, which replies Yes or No.
        examples: The number of worked examples shown for each action.
        say_demos, qt_demos, sa_demos: The worked examples. In prompts, `Question: ` precedes each example.
        name: The prefix of the repr, which is ignored in comparisons.
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
    name: str = field(default="prompts", compare=False, kw_only=True)

    def __repr__(self) -> str:
        return content_name(self)

    def __str__(self) -> str:
        return next((known.name for known in (OWN, READER) if self == known), repr(self))


def _own() -> AirragPromptTemplate:
    content = tomllib.loads(Path(__file__).with_name("prompt_template.toml").read_text(encoding="utf-8"))
    content |= {key: tuple(Demo(**each) for each in content[key]) for key in DEMO_KEYS}
    return AirragPromptTemplate(**content, name="airrag")


DEMO_KEYS = ("say_demos", "qt_demos", "sa_demos")
OWN = _own()
READER = replace(
    OWN,
    qt="Given what is known, decide whether to rephrase, summarise or split the next query, or to ask a "
    "follow-up, so that searching and answering get easier. Write one query per line, or None if none is "
    "needed.",
    name="airrag-reader",
)
"""The template on which readers, including the packaged one, are trained. If you change it, retrain them."""
