"""Accuracy: whether an accepted answer is part of the short answer, once both are normalised.

AirRAG (Feng et al. 2025, arXiv 2501.10053), where a node that answers writes a sentence of its own; FlashRAG
(Jin et al. 2024, arXiv 2405.13576) computes it the same way, though it does not ignore empty golds.
"""

from collections.abc import Sequence

from askance.eval.metrics.normalisations import NORMALISATIONS


def accuracy(prediction: str, golds: Sequence[str]) -> float | None:
    """1 or 0; golds of which normalisation leaves nothing are ignored, and where all are, nothing applies.

    It reads the short answer, for that is what the paper's answering nodes write; the whole text may weigh
    candidates up before it decides, and naming a gold on the way is not answering. A part need not be whole
    words: "son" is part of "Johnson".

    >>> accuracy("It is the river Rhine.", ["Rhein", "the Rhine"])
    1.0
    """
    form = NORMALISATIONS["airrag"]
    accepted, normal = form.accepted(golds), form.normal_form(prediction)
    return float(any(gold in normal for gold in accepted)) if accepted else None
