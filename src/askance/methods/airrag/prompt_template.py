"""The words of AirRAG's prompts (Feng et al. 2025, arXiv 2501.10053, appendix A), which can be replaced.

Our own stand in `prompt_template.toml`.
"""

import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path

from askance.core.types import Demo
from askance.methods.common.prompts import content_name

REFUSAL = "The passages do not contain the answer."
"""What RA asks for where the passages hold no answer."""


@dataclass(frozen=True, slots=True, repr=False)
class AirragPromptTemplate:
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
"""What trained readers are taught, the packaged one among them: whoever changes it must train that again."""
