"""The prompts of Self-RAG's judgements for a model without reflection tokens (Asai et al. 2024).

A model that was not trained on reflection tokens is asked in words, and the label words are scored. What each
question must ask is the paper's; the words are ours, and short. Question and passage come first, then what is
asked about them, so that several judgements of one passage have their beginning in common. The packaged
adapter was trained on the same words with the instruction in front (docs/reader.md).

Each group maps the paper's tokens to label words. The words of a group differ from the first letter on, and
none begins another, so that their probabilities can be set against each other.
"""

from collections.abc import Mapping, Sequence

from askance.core.ports import Model
from askance.core.types import Chat, Hit, Passage, Prompt, Question, Raw, Span, Turn, untrusted
from askance.methods.prompts import numbered_passages, passage_text, question_spans

RETRIEVAL: Mapping[str, str] = {
    "[Retrieval]": "search",
    "[No Retrieval]": "unneeded",
    "[Continue to Use Evidence]": "continue",
}
RELEVANCE: Mapping[str, str] = {"[Relevant]": "relevant", "[Irrelevant]": "irrelevant"}
SUPPORT: Mapping[str, str] = {
    "[Fully supported]": "fully",
    "[Partially supported]": "partially",
    "[No support / Contradictory]": "not",
}
USEFULNESS: Mapping[str, str] = {f"[Utility:{grade}]": str(grade) for grade in range(1, 6)}


def retrieval_prompt(model: Model, question: Question, so_far: str, hits: Sequence[Hit] = ()) -> Prompt:
    """Whether to search before the answer goes on after `so_far`, with the evidence in use at hand."""
    evidence = numbered_passages(hits) if hits else ()
    told = _answer("Answer so far", so_far)
    return _prompt(model, (*evidence, *_question(question)), RETRIEVAL_INSTRUCTION, told)


def relevance_prompt(model: Model, question: Question, passage: Passage) -> Prompt:
    """Whether `passage` helps with the question."""
    return _prompt(model, (*_question(question), *_passage(passage)), RELEVANCE_INSTRUCTION)


def support_prompt(model: Model, question: Question, so_far: str, sentence: str, passage: Passage) -> Prompt:
    """How far `passage` backs `sentence`, which follows `so_far`."""
    before = _answer("Answer so far", so_far) if so_far.strip() else ()
    at_hand = (*_question(question), *_passage(passage))
    return _prompt(model, at_hand, SUPPORT_INSTRUCTION, (*before, *_answer("Sentence", sentence)))


def usefulness_prompt(model: Model, question: Question, answer: str) -> Prompt:
    """How useful the whole `answer` is, from 1 to 5."""
    return _prompt(model, _question(question), USEFULNESS_INSTRUCTION, _answer("Answer", answer))


def options(labels: Mapping[str, str], prompt: Prompt) -> tuple[str, ...]:
    """The label words as `score` takes them, in the order of `labels`; a blank parts them from a cue."""
    return tuple(labels.values() if isinstance(prompt, Chat) else (f" {word}" for word in labels.values()))


def _prompt(
    model: Model, at_hand: tuple[Span, ...], instruction: str, judged: tuple[Span, ...] = ()
) -> Prompt:
    # The last part is a line break, which a chat turn does without.
    spans = (*at_hand, Span(f"\n{instruction}"), *((Span("\n\n"), *judged) if judged else (Span("\n"),)))
    if "chat" in model.capabilities:
        return Chat((Turn("system", (Span(SYSTEM),)), Turn("user", spans[:-1])))
    return Raw((*spans, Span("Judgement:")))


def _question(question: Question) -> tuple[Span, ...]:
    return (Span("Question: "), *question_spans(question), Span("\n"))


def _passage(passage: Passage) -> tuple[Span, ...]:
    return (Span("Passage: "), untrusted(passage_text(passage)), Span("\n"))


def _answer(label: str, text: str) -> tuple[Span, ...]:
    words = " ".join(text.split())
    return (Span(f"{label}:"), *((Span(" "), untrusted(words)) if words else ()), Span("\n"))


SYSTEM = "You judge answers and their sources."

RETRIEVAL_INSTRUCTION = (
    "Does the next sentence of the answer need a search? Reply search if it needs facts that no passage "
    "here holds, continue if the passages hold them, or unneeded if it needs no facts."
)
RELEVANCE_INSTRUCTION = "Is the passage useful for answering the question? Reply relevant or irrelevant."
SUPPORT_INSTRUCTION = (
    "How far does the passage back the sentence? Use nothing but the passage. Reply fully, partially if a "
    "major part is missing, or not if it is unrelated or contradicts."
)
USEFULNESS_INSTRUCTION = (
    "How useful is the answer, whether or not it is true? Reply 5 if it is complete, 4 if little is missing, "
    "3 if much is missing, 2 if it is incomplete or off the point, or 1 if it hardly touches the question."
)
