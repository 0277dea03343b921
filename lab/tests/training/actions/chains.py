"""What the tests of AirRAG's actions share: invented multi-hop questions with their decompositions."""

from lab.tests.training.reader.sample_examples import supporting

from askance.core.types import Question
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import Paragraph, ReasoningStep, SupportingFacts


def chain(number: int) -> Example:
    """A question with three steps, in MuSiQue's form."""
    song, band, town, river = f"Song {number}", f"Band {number}", f"Town {number}", f"River {number}"
    steps = (
        ReasoningStep(f"{song} >> performer", band),
        ReasoningStep("What city was #1 formed in?", town),
        ReasoningStep("which river flows through #2 ?", river),
    )
    paragraphs = (
        supporting(song, f"{song} is sung by {band}."),
        supporting(band, f"{band} was formed in {town}."),
        supporting(town, f"{town} lies on {river}."),
        Paragraph("Pisa", "Pisa lies on the Arno."),
    )
    return Example(
        Question(f"m{number}", f"Which river flows through the city of the band that sings {song}?"),
        (river,),
        hops=3,
        supporting_facts=SupportingFacts(paragraphs, steps=steps),
    )


def comparison(number: int) -> Example:
    """A yes-or-no question whose steps have no answers, in StrategyQA's form."""
    steps = (
        ReasoningStep(f"How old is cat {number}?"),
        ReasoningStep(f"How old is dog {number}?"),
        ReasoningStep("Is #1 greater than #2?"),
    )
    return Example(
        Question(f"s{number}", f"Is cat {number} older than dog {number}?", task="yes_no"),
        ("yes",),
        supporting_facts=SupportingFacts(steps=steps),
    )


CHAINS = tuple(map(chain, range(12)))
COMPARISONS = tuple(map(comparison, range(12)))
