"""Rewrite a follow-up question into a question that stands alone, so that every method can answer it.

A search needs the names that a follow-up only refers to: "And when did he die?" finds nothing. One call of
the answering model replaces such words by what they stand for. The task is known as conversational question
rewriting (Elgohary et al. 2019, CANARD, "Can You Unpack That? Learning to Rewrite Questions-in-Context").
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from askance.core.parameters import Parameters, checked_dataclass, parameter
from askance.core.ports import Model, Run
from askance.core.trace import Noted
from askance.core.types import Demo, GenerateRequest, Generation, Prompt, Question, Sampling, Span, untrusted
from askance.methods.common.prompts import chat_turns, in_layout
from askance.text.linguistics import content_words

INSTRUCTION = (
    "Rewrite the last question of the conversation so that it can be understood without the conversation. "
    'Replace words such as "he", "it" and "there" by the names that they stand for, and keep the rest. '
    "Repeat a question that needs no change. Write one question and nothing else; do not answer it."
)
_QUESTION_MARKS = ("?", "？", "؟")
_VIENNA = (
    Demo("Who painted The Kiss?", "The Kiss was painted by Gustav Klimt."),
    Demo("Where was he born?", "Gustav Klimt was born in Baumgarten, near Vienna."),
)
_EXAMPLES = (
    (_VIENNA[:1], "And when did he die?", "When did Gustav Klimt die?"),
    (_VIENNA, "Which river flows through that city?", "Which river flows through Vienna?"),
    (_VIENNA[1:], "Who wrote the novel Austerlitz?", "Who wrote the novel Austerlitz?"),
    (
        (Demo("How long is the Rhine?", "The Rhine is 1,233 kilometres long."),),
        "What about the Elbe?",
        "How long is the Elbe?",
    ),
)
"""Worked examples, written for this project: earlier turns, the last question, and its rewrite."""
_LABEL_TOKENS = 12
"""The number of tokens to reserve for the names of the two speakers of a turn and its line breaks."""


@checked_dataclass()
class QuestionRewriter(Parameters):
    """A rewriter of follow-up questions.

    The prompt shows the last turns of the conversation that fit into `history_tokens` and into the context
    window. If not even the last turn fits, both its texts are cut at their ends.
    """

    owner: ClassVar[str] = "the question rewriter"

    turns: int = parameter(6, "maximum number of earlier turns in the prompt", at_least=1)
    history_tokens: int = parameter(1024, "maximum number of tokens of these turns", at_least=64)
    max_tokens: int = parameter(96, "maximum number of new tokens", at_least=1)

    async def rewrite(self, question: Question, run: Run) -> Question:
        """Return a question that stands alone. The trace records the decision with its reason.

        A question without history is returned as it is, without a call. If the model writes nothing usable,
        the result is the question itself without its history, and the trace has a note.

        Args:
            question: The question with the earlier turns of its conversation as `history`.
            run: The run of the question, whose model in the role "answer" rewrites it.

        Raises:
            AskanceError: The call failed.
        """
        if not question.history:
            return question
        shown = await self.clipped(question, run.model)
        text, why = question.text, "the context window has no room for earlier turns"
        if shown:
            prompt = rewriting_prompt(run.model, shown, question.text)
            sampling = Sampling(self.max_tokens, stop=("\n",))
            request = GenerateRequest(prompt, sampling, key=("rewrite",))
            (generation,) = await run.model.generate(request)
            text, why = _usable(generation, question)
        if not text:
            note = f"the follow-up question is asked as it is: {why}."
            run.trace.add(Noted, name="rewrite", text=note, place="rewrite")
        is_same = text.casefold() in ("", " ".join(question.text.split()).casefold())
        run.trace.decide(
            "rewrite",
            "keep" if is_same else "rewritten",
            why,
            query="" if is_same else text,
            numbers={"turns": float(len(shown)), "turns left out": float(len(question.history) - len(shown))},
        )
        return replace(question, text=question.text if is_same else text, history=())

    async def clipped(self, question: Question, model: Model) -> tuple[Demo, ...]:
        """Return the earlier turns that the prompt shows, oldest first (see the class)."""
        window = model.context_tokens - self.max_tokens
        num_bare = await model.count(rewriting_prompt(model, (), question.text))
        room = min(self.history_tokens, window - num_bare)
        shown = list[Demo]()
        for turn in reversed(question.history[-self.turns :]):
            num_tokens = sum(len(model.tokenize(text)) for text in (turn.question, turn.answer))
            room -= _LABEL_TOKENS
            if num_tokens > room:
                shown += [_cut(turn, room // 2, model)] if not shown and room > 1 else []
                break
            shown, room = [turn, *shown], room - num_tokens
        return tuple(shown)


def rewriting_prompt(model: Model, turns: Sequence[Demo], question: str) -> Prompt:
    """Return the prompt for a rewrite: raw text if the model accepts it, and otherwise a chat."""
    worked = [(_conversation(turns, last), rewrite) for turns, last, rewrite in _EXAMPLES]
    asked, parts = _conversation(turns, question), [Span(f"{INSTRUCTION}\n\n")]
    for conversation, rewrite in worked:
        parts += [*conversation, Span(f"\nRewritten question: {rewrite}\n\n")]
    parts += [*asked, Span("\nRewritten question:")]
    return in_layout("auto", model, parts, chat_turns(INSTRUCTION, worked, asked), "")


def _conversation(turns: Sequence[Demo], question: str) -> tuple[Span, ...]:
    spans = list[Span]()
    for turn in turns:
        for name, text in (("User", turn.question), ("Assistant", turn.answer)):
            spans += [Span(f"{name}: "), untrusted(" ".join(text.split())), Span("\n")]
    return (*spans, Span("Last question: "), untrusted(" ".join(question.split())))


def _cut(turn: Demo, room: int, model: Model) -> Demo:
    """Return a turn, each of whose two texts has at most `room` tokens."""

    def cut(text: str) -> str:
        ids = model.tokenize(text)
        return text if len(ids) <= room else model.decode(ids[:room]).rstrip("\ufffd")

    return Demo(cut(turn.question), cut(turn.answer))


def _usable(generation: Generation, question: Question) -> tuple[str, str]:
    """Return the rewrite and the reason for it, or an empty string and the reason why it can't be used.

    A follow-up is about its conversation, so a rewrite that names something else is wrong. Small models copy
    such names from the worked examples.
    """
    text = " ".join(generation.text.split()).strip('"“” ')
    same = " ".join(question.text.split()).casefold()
    turns = [f"{turn.question} {turn.answer}" for turn in question.history]
    words, known = content_words(text), content_words(" ".join([question.text, *turns]))
    names = content_words(" ".join(word for word in text.split()[1:] if word[0].isupper()))
    if not words:
        return "", "the model wrote no rewrite"
    if generation.finish == "length":
        return "", "the model's rewrite has no end"
    if question.text.rstrip().endswith(_QUESTION_MARKS) and not text.endswith(_QUESTION_MARKS):
        return "", "the model's rewrite is no question"
    if words.isdisjoint(known) or not names <= known:
        return "", f"the model's rewrite names what the conversation does not ({text})"
    if text.casefold() == same:
        return text, "the question can be understood without the earlier turns"
    if text.casefold() in {turn.question.casefold() for turn in question.history}:
        return "", f"the model repeated an earlier question ({text})"
    return text, f"the question refers to earlier turns, so it is asked as: {text}"
