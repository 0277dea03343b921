"""A method that measures how well sampled answers agree: their disagreement can decide whether to search."""

from collections import Counter

from askance.core.answers import Answer
from askance.core.parameters import checked_dataclass, parameter
from askance.core.ports import Run
from askance.core.types import GenerateRequest, Question, Sampling
from askance.methods.baselines import ClosedBook
from askance.methods.common.prompts import STOPS, answer_prompt
from askance.text.answers import normalise_answer, short_answer


@checked_dataclass()
class Agreement(ClosedBook):
    """Answer from memory several times, and count how many short answers equal the most frequent one.

    The text is a greedy answer. The samples only measure, as in self-consistency (Wang et al. 2023,
    "Self-Consistency Improves Chain of Thought Reasoning in Language Models").
    """

    samples: int = parameter(8, "number of sampled answers", at_least=2)
    temperature: float = parameter(1.0, "temperature of the samples", at_least=0)

    async def answer(self, question: Question, run: Run) -> Answer:
        state = self.start(question, run)
        await state.write_all()
        prompt = answer_prompt(run.model, question, (), "", self.layout, self.prompts)
        sampling = Sampling(self.max_tokens, self.temperature, stop=STOPS)
        drawn = await run.model.generate(GenerateRequest(prompt, sampling, n=self.samples, key=("samples",)))
        answers = Counter(normalise_answer(short_answer(one.text, question)) for one in drawn)
        (_, most), *_ = answers.most_common(1)
        share = most / self.samples
        why = f"{most} of {self.samples} sampled answers agree"
        run.trace.decide("retrieve", "keep", why, signal="agreement of samples", numbers={"agreement": share})
        return await state.finish()
