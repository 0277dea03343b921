"""What an action of AirRAG has room for: in the model's window, and in the tokens that a rollout may read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from askance.core.ports import Run
from askance.core.types import Hit, Prompt, Question
from askance.methods.airrag import prompts
from askance.methods.airrag.choosing import has_room
from askance.methods.airrag.knobs import AirragKnobs
from askance.methods.airrag.reward import Judge
from askance.methods.airrag.state import RA, State
from askance.methods.airrag.wording import AirragWording
from askance.methods.budget import Allowance, NoRoom, most_that_fit
from askance.methods.searching import num_in_room

RA_TOKENS = 256
"""Set aside for what an answer adds to the last call: the most that it may be long."""


@dataclass(slots=True)
class Room:
    """The room that one rollout has for its calls.

    Attributes:
        judge: who rewards paths; its calls are paid by `judging`, or by `allowance` where that is None.
    """

    airrag: AirragKnobs
    question: Question
    run: Run
    allowance: Allowance
    judge: Judge | None = None
    judging: Allowance | None = None

    @property
    def words(self) -> AirragWording:
        """The words of the prompts."""
        return self.airrag.prompts

    def num_passages(self, state: State, found: Sequence[Hit], planned: int | None = None) -> int:
        """How many the window has room for, and the allowance, if those still to be asked for get as many.

        Those are the queue; in Lite, where nothing is planned, as many as there may be. A quarter of the
        allowance is the summary's, but of what is left after the plan only half.

        Args:
            planned: retrievals, this one included; None for those still to be asked for.
        """
        model, left = self.run.model, self.allowance.left

        def count(hits: Sequence[Hit]) -> int:
            return model.count(prompts.retrieval_answer_prompt(model, hits, "", words=self.words))

        room: float = model.context_tokens - self.airrag.answer_tokens - count(())
        if left is not None:
            is_lite, most = self.airrag.actions.is_lite, self.airrag.most_iterations
            planned = planned or max(1, most - state.times(RA) if is_lite else len(state.pending))
            passages = min(0.25 * (self.allowance.most or 0), 0.5 * left)
            for_summary = self.closing(state) + RA_TOKENS * planned + passages
            transforming = prompts.transformation_prompt(
                model, self.question, state.history, "", words=self.words
            )
            templates = planned * (model.count(transforming) + count(()))
            room = min(room, (left - for_summary - templates) / planned)
        return num_in_room(found, room, count)

    def closing(self, state: State) -> int:
        """Input tokens that the final call takes without passages, as things stand."""
        if self.allowance.left is None:
            return 0
        prompt = prompts.summary_prompt(self.run.model, self.question, state.history, words=self.words)
        return self.run.model.count(prompt) + self.for_judging(state)

    def for_judging(self, state: State) -> int:
        """Input tokens for the reward model, once the path has ended."""
        if self.judge is None or self.judging is not None or self.allowance.left is None:
            return 0
        each = self.judge.count(state, self.airrag.summary_tokens)
        return each * self.airrag.answer_samples

    def summary(self, state: State) -> Prompt:
        """The final call's prompt; what has no room goes, worst passages first, then the oldest answers.

        Raises:
            NoRoom: not even the last sub-query with its answer has room.
        """
        model, question, demos = self.run.model, self.question, self.airrag.demos("sa")
        tops = {hits[0].passage.id for hits in state.found if hits}
        # Those dropped first stand last: all but the best of each retrieval, the worst of them at the end.
        ordered = sorted(state.hits, key=lambda hit: hit.passage.id not in tops)
        keep = self.for_judging(state)

        def has_room(prompt: Prompt) -> bool:
            return self._has_room(prompt, self.airrag.summary_tokens, keep)

        def with_hits(num_hits: int) -> Prompt:
            return prompts.summary_prompt(
                model, question, state.history, ordered[:num_hits], demos, words=self.words
            )

        num_hits = most_that_fit(len(ordered), lambda number: has_room(with_hits(number)))
        # Of as many as fit, some have no room as a rule.
        least = len(ordered) if self.airrag.passages else min(1, len(ordered))
        self.allowance.was_short |= num_hits is None or num_hits < least
        if num_hits is not None:
            return with_hits(num_hits)
        for oldest in range(len(state.history)):
            prompt = prompts.summary_prompt(model, question, state.history[oldest:], words=self.words)
            if has_room(prompt):
                return prompt
        raise NoRoom

    def fitting(
        self, hits: tuple[Hit, ...], prompt_of: Callable[[Sequence[Hit]], Prompt], keep: int
    ) -> tuple[tuple[Hit, ...], Prompt]:
        """As many of the best passages as there is room for, at least one, and the prompt that shows them.

        Raises:
            NoRoom: not even one has room.
        """
        num_hits = most_that_fit(
            len(hits),
            lambda number: self._has_room(prompt_of(hits[:number]), self.airrag.answer_tokens, keep),
        )
        self.allowance.was_short |= num_hits != len(hits)
        if not num_hits:
            raise NoRoom
        return hits[:num_hits], prompt_of(hits[:num_hits])

    def _has_room(self, prompt: Prompt, max_tokens: int, keep: int = 0) -> bool:
        return has_room(self.run.model, self.allowance, prompt, max_tokens, keep)
