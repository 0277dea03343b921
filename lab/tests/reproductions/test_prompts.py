"""The layout of the DRAGIN authors' prompts, with a set made up in its place."""

import asyncio

from askance.ask import ask
from askance.configuration.prompts import open_prompts
from askance.core.types import Passage, Question
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance_lab.reproductions.baselines import ClosedBookAuthors, SingleAuthors
from tests.configuration.test_prompt_templates import DEMO, written

AUTHORS = """
instruction = "Reply just as above."
before_question = "Think in steps like those.\\n\\n"
[[demos]]
question = "Is ice cold?"
answer = "Ice is frozen. So the answer is yes."
[[demos]]
question = "Is fire wet?"
answer = "Fire is hot gas. So the answer is no."
"""
FOUND = [Passage("p1", "Snow", "Snow is ice."), Passage("p2", "Rain", "Rain is\nwater.")]


def prompts_of(method, found=()):
    model = ScriptedModel([" Snow is ice. So the answer is yes."] * 3)
    asyncio.run(
        ask(Question("q", "Is snow cold?"), method, {"answer": model}, ScriptedRetriever(list(found)))
    )
    return model.prompts


def test_a_set_of_the_authors_gives_their_prompt_byte_for_byte(tmp_path):
    template = open_prompts(written(tmp_path, AUTHORS))
    examples = (
        "Question: Is ice cold?\nAnswer: Ice is frozen. So the answer is yes.\n"
        "Question: Is fire wet?\nAnswer: Fire is hot gas. So the answer is no.\n"
    )
    case = "Think in steps like those.\n\nQuestion: Is snow cold?\nAnswer:"
    assert prompts_of(ClosedBookAuthors(prompts=template))[0] == examples + case
    assert prompts_of(SingleAuthors(passages=2, prompts=template), FOUND)[0] == (
        f"{examples}Context:\n[1] Snow is ice.\n[2] Rain is water.\nReply just as above.\n{case}"
    )


def test_without_a_sentence_before_the_question_the_case_follows_at_once(tmp_path):
    template = open_prompts(written(tmp_path, DEMO))
    assert prompts_of(ClosedBookAuthors(prompts=template))[0] == (
        "Question: Own?\nAnswer: It is. So the answer is yes.\nQuestion: Is snow cold?\nAnswer:"
    )
