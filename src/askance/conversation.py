"""Conversations: questions that may refer to earlier ones, answered by any method.

conversation = askance.Conversation(engine)
conversation.ask("Who directed Fanny and Alexander?")
conversation.ask("And where was he born?")
"""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from askance.ask import Engine, Result
from askance.core.ports import language_model
from askance.core.types import Demo, Question
from askance.methods.baselines import ClosedBook
from askance.methods.common.question_rewriter import QuestionRewriter
from askance.methods.common.small_talk import SmallTalkHistory, is_small_talk, small_talk_prompt


def with_rewriter(engine: Engine) -> Engine:
    """Return an engine that rewrites follow-up questions: the same one, if it does so already."""
    return engine if engine.rewriter else replace(engine, rewriter=QuestionRewriter())


def engine_for(engine: Engine, question: Question) -> Engine:
    """Return the engine that answers a turn of a conversation: one that does not search for small talk."""
    if not is_small_talk(question.text):
        return with_rewriter(engine)
    model = language_model(engine.models["answer"])
    is_chat = "chat" in model.capabilities
    prompts = small_talk_prompt(question, is_chat=is_chat)
    method = ClosedBook(ask_short_answer=False, layout="chat" if is_chat else "auto", prompts=prompts)
    return replace(engine, method=method, models={"answer": model}, rewriter=SmallTalkHistory())


def read_messages(messages: Iterable[tuple[str, str]]) -> tuple[Question, list[str]]:
    """Return the question at the end of a conversation with its history, and sentences about unused messages.

    The text of the question is empty if the last message of a user has an answer.

    Args:
        messages: Pairs (role, text). The role is user, assistant, system or developer.
    """
    turns, ignored, asked = list[Demo](), list[str](), ""
    for number, (role, text) in enumerate(messages):
        if role in ("system", "developer"):
            why = "the methods of askance have prompts of their own, so a message of the role"
            ignored.append(f"messages[{number}]: {why} {role} is not used")
        elif role == "user":
            asked = f"{asked}\n{text}".strip() if asked else text
        elif asked:
            turns.append(Demo(asked, text))
            asked = ""
    return Question("question", asked, history=tuple(turns)), ignored


class Conversation:
    """A conversation with an engine, which remembers the earlier turns.

    A follow-up is rewritten into a question that stands alone (see `QuestionRewriter`), which the method then
    answers. Small talk is answered from the conversation, without a search (see `small_talk`). A question
    that fails leaves the history unchanged.

    Args:
        engine: The engine that answers. Without a rewriter of its own, it gets the default one.

    Attributes:
        engine: The engine, which may be replaced between questions.
        history: The answered questions with their answers, oldest first.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.history: tuple[Demo, ...] = ()

    async def answer(self, text: str, **options: Any) -> Result:
        """Answer the next question. `options` are those of `Engine.answer`, which says what is raised."""
        question = Question(f"turn-{len(self.history) + 1}", text, history=self.history)
        result = await engine_for(self.engine, question).answer(question, **options)
        self.history += (Demo(text, result.answer.statement),)
        return result

    def ask(self, text: str) -> Result:
        """Answer the next question from synchronous code (see `answer`)."""
        return asyncio.run(self.answer(text))
