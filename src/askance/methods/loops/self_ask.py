"""Self-Ask with search: the model asks follow-up questions, each of which is answered by a search.

The phrases of its lines come from the paper. The rest of the prompt was written for this project.
"""

import re
from typing import ClassVar

from askance.core.answers import Answer
from askance.core.parameters import checked_dataclass, parameter
from askance.core.ports import Run
from askance.core.types import Demo, Question
from askance.methods.common.generation_state import GenerationState, WritesAnswer
from askance.methods.common.prompts import EXAMPLES, PromptTemplate
from askance.methods.iterdrag import FINAL, FOLLOW_UP, INTERMEDIATE
from askance.text.answers import short_answer

_ASKED = re.compile(r"follow[ -]?up\s*:[^\S\n]*(.+)$", re.IGNORECASE)
_FINAL = re.compile(re.escape(FINAL), re.IGNORECASE)
_NEEDED = "Are follow up questions needed here:"
SELF_ASK = PromptTemplate(
    demos=tuple(
        Demo(each["question"], f"{_NEEDED} {'Yes' if FOLLOW_UP in each['lines'] else 'No'}.\n{each['lines']}")
        for each in EXAMPLES["iterdrag"]
    ),
    system=f'Ask for what is missing in lines with "{FOLLOW_UP}". End with "{FINAL}" and the answer.',
    elicitation=f"\n{FINAL}",
)
"""The prompt of the lines."""


@checked_dataclass()
class SelfAsk(WritesAnswer):
    """Self-Ask with a search engine: Press et al. 2023, section 4.

    (The paper is "Measuring and Narrowing the Compositionality Gap in Language Models".) The model writes
    lines until it would answer its own follow-up question. The question is searched for, and a call of its
    own answers it from the passages alone; `prompts` is the template of this call. Its answer becomes the
    intermediate answer. The loop ends when the model asks nothing more, and the final line is the answer.
    """

    passages: int = parameter(3, "number of passages per follow-up", at_least=1)
    max_follow_ups: int = parameter(5, "maximum number of follow-up questions", at_least=1)

    paper: ClassVar[str] = "Press et al. 2023 (Self-Ask)"
    searches: ClassVar[str] = "with each follow-up question"

    async def answer(self, question: Question, run: Run) -> Answer:
        state, lines = self.start(question, run), ""
        state.template = SELF_ASK
        for step in state.rounds(self.max_follow_ups + 1):
            if await state.lacks_room(self.max_tokens, "line"):
                break
            stop = (INTERMEDIATE, "\n\n", "\nQuestion:")
            lines = (await state.write(self.max_tokens, ("lines", step), stop=stop)).text.rstrip()
            asked = _ASKED.search(state.parse_text(lines).text)
            if not asked:
                state.stop_reason = "the model asks no further question"
                break
            state.notes, lines = f"{state.notes}{lines}\n{INTERMEDIATE}", ""
            if step < self.max_follow_ups:
                state.notes += await self._intermediate_answer(state, asked[1].strip(), step) + "\n"
        final = _FINAL.search(lines)
        state.notes += lines[: final.start()] if final else ""
        state.keep_text(lines[final.start() :].split("\n")[0] if final else lines, 0)
        return await state.finish()

    async def _intermediate_answer(self, state: GenerationState, follow_up: str, step: int) -> str:
        """Return the answer to a follow-up question from passages, or the model's own if none were found."""
        run, question = state.run, Question(state.question.id, follow_up, demos=state.question.demos)
        hits = await state.search_for(follow_up, self.passages, "the model asks a follow-up")
        keep = await run.model.count(state.prompt(further=state.template.elicitation)) + self.max_tokens
        apart = GenerationState(question, run, False, self.layout, self.prompts, state.sampling)
        await apart.show_fitting(hits, keep=keep)
        if not apart.hits:
            if not await state.has_room(self.max_tokens):
                return ""
            return (await state.write(self.max_tokens, ("own", step), stop=("\n",))).text.rstrip()
        state.shown.append((0, (*(hit for _, before in state.shown[-1:] for hit in before), *apart.hits)))
        written = await apart.write(self.max_tokens, ("intermediate", step))
        plain = " ".join(state.parse_text(written.text).text.split())
        return f" {short_answer(plain, question) or plain}"
