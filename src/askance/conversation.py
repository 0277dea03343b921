"""Conversations: questions that may refer to earlier ones, answered by any method.

conversation = askance.Conversation(engine)
conversation.ask("Who directed Fanny and Alexander?")
conversation.ask("And where was he born?")
"""

import asyncio
from dataclasses import replace
from typing import Any

from askance.ask import Engine, Result
from askance.core.types import Demo, Question
from askance.methods.common.question_rewriter import QuestionRewriter


def with_rewriter(engine: Engine) -> Engine:
    """Return an engine that rewrites follow-up questions: the same one, if it does so already."""
    return engine if engine.rewriter else replace(engine, rewriter=QuestionRewriter())


class Conversation:
    """A conversation with an engine, which remembers the earlier turns.

    A follow-up is rewritten into a question that stands alone (see `QuestionRewriter`), which the method then
    answers. A question that fails leaves the history unchanged.

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
        engine = with_rewriter(self.engine)
        question = Question(f"turn-{len(self.history) + 1}", text, history=self.history)
        result = await engine.answer(question, **options)
        self.history += (Demo(text, result.answer.statement),)
        return result

    def ask(self, text: str) -> Result:
        """Answer the next question from synchronous code (see `answer`)."""
        return asyncio.run(self.answer(text))
