"""Shared parts of the tests of Self-RAG's long form: replies of two segments, and the parameters."""

from askance.methods.selfrag.method import Selfrag
from askance.methods.selfrag.tokens import CONTINUE, IRRELEVANT, NO_RETRIEVAL, RELEVANT, RETRIEVAL
from tests.methods.reflecting import ARNO, IN_ARNO, IN_PO, PO, QUESTION, found, said, supported

ASKS = QUESTION.text
ONE_A, ONE_P = "[Relevant]One a.[Fully supported]", "[Relevant]One p.[Partially supported]"
DECIDE = said(RETRIEVAL, {RETRIEVAL: 0.7, NO_RETRIEVAL: 0.2})
FIRST_A = said(ONE_A + RETRIEVAL, {RELEVANT: 0.9, IRRELEVANT: 0.1}, supported(0.8, 0.1, 0.1))
FIRST_P = said(ONE_P + RETRIEVAL, {RELEVANT: 0.6, IRRELEVANT: 0.2}, supported(0.3, 0.4, 0.1))
REPLIES = {
    "### Response:\n": DECIDE,
    IN_ARNO: FIRST_A,
    IN_PO: FIRST_P,
    ONE_A + found(ARNO): "[Relevant]Two aa.[Fully supported][Utility:5]",
    ONE_A + found(PO): "[Irrelevant]Two ap.[Utility:2]",
    ONE_P + found(ARNO): "[Relevant]Two pa.[No support / Contradictory][Utility:4]",
    ONE_P + found(PO): "[Relevant]Two pp.[Fully supported]",
}


def long(**parameters):
    return Selfrag(form="long", **parameters)


def grades(**weights):
    """Return probabilities of utility grades, as u5=0.6."""
    return {f"[Utility:{name[1:]}]": value for name, value in weights.items()}


def continued(text=" More."):
    return {
        "### Response:\n": DECIDE,
        IN_ARNO: said(ONE_A + CONTINUE, {CONTINUE: 0.5, RETRIEVAL: 0.3, NO_RETRIEVAL: 0.1}),
        CONTINUE: text,
    }
