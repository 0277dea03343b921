"""The actions that AirRAG may take: its own, and other methods that answer at the root."""

from dataclasses import dataclass, replace

from askance.core.errors import AskanceError
from askance.core.ports import Method, Run
from askance.core.types import Answer, Question
from askance.methods.airrag_budget import Allowance, AllowedModel, NoRoom
from askance.methods.airrag_state import DA, QT, RA, SA, SAY

FULL, LITE = (SAY, DA, RA, QT, SA), (RA, QT, SA)


@dataclass(frozen=True, slots=True, repr=False)
class Actions:
    """Names of actions, in the order in which they were given.

    Attributes:
        own: all five of AirRAG, the same without a direct answer, or the three of AirRAG-Lite.
        further: other methods, by name.
    """

    own: tuple[str, ...] = FULL
    further: tuple[tuple[str, Method], ...] = ()

    @property
    def is_lite(self) -> bool:
        """Whether there is no analysis at the root."""
        return SAY not in self.own

    @property
    def names(self) -> tuple[str, ...]:
        """Of the other methods."""
        return tuple(name for name, _ in self.further)

    def __repr__(self) -> str:
        return "+".join([*self.own, *(f"{method!r}" for _, method in self.further)])

    def __str__(self) -> str:
        return ",".join([*self.own, *self.names])

    async def answer(self, name: str, question: Question, run: Run, allowance: Allowance) -> Answer | None:
        """What another method answers within `allowance`; None where it fails, which the trace has."""
        method = dict(self.further)[name]
        models = {role: AllowedModel(model, allowance) for role, model in run.models.items()}
        try:
            return await method.answer(question, replace(run, models=models, trace=run.trace.aside()))
        except NoRoom:
            run.trace.decide("action", "no room", f"{name} does not fit into the budget")
        except AskanceError as error:
            run.trace.decide("action", "failed", f"{name}: {error}")
        return None


ALL, WITHOUT_ANALYSIS = Actions(), Actions(LITE)
