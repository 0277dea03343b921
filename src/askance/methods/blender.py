"""Blender: several methods answer the question, and one more call of the model makes one answer of theirs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from askance.core.errors import AllFailed, RequestRefused
from askance.core.knobs import Knobs, knob
from askance.core.ports import Model, Needs, Run
from askance.core.types import Answer, Question, Role
from askance.methods.airrag import Airrag, AirragLite
from askance.methods.airrag.choosing import choose, valid
from askance.methods.airrag.showing import with_sources
from askance.methods.airrag.wording import OWN, AirragWording
from askance.methods.blender_asking import Told, ask_member, endings_of
from askance.methods.blender_budget import Shares
from askance.methods.iterdrag import Iterdrag
from askance.methods.members import Members, check_all, joined_needs
from askance.methods.single import Single
from askance.tree.abreast import abreast

OF_THE_PAPER = Members(
    (("single", Single()), ("iterdrag", Iterdrag()), ("airrag_lite", AirragLite()), ("airrag", Airrag()))
)


@dataclass(frozen=True, slots=True)
class Blender(Knobs):
    """AirRAG-Blender (Feng et al. 2025, arXiv 2501.10053): the answers of several methods, refined into one.

    Each method answers on its own. Then the model sees the question, the different answers with what their
    methods wrote before them, and the passages that they found, and gives the answer: AirRAG's action SA.
    Where all answers are equal, nobody is asked; where one method alone has answered, its answer stands.

    The paper names neither the methods nor what each may read. Ours: vanilla RAG, IterDRAG, AirRAG-Lite and
    AirRAG, each within `l_max` of its own, and so is the last call; with `strict_budget` all of them
    together. Ours, too: which passages come first in the last call (reciprocal-rank fusion), and that a
    method that fails costs its own answer alone.
    """

    methods: Members = knob(OF_THE_PAPER, "the methods that answer, by name")
    l_max: int | None = knob(
        None, "most input tokens of each method, and of the last call; none: no limit", at_least=1
    )
    strict_budget: bool = knob(False, "whether l_max is for all of them together, in equal parts")
    verifier: Literal["sa", "jcd"] = knob("sa", "who chooses: a call that sees all answers, or common words")
    passages: int = knob(0, "most passages that the last call is shown; 0: as many as fit", at_least=0)
    show_passages: bool = knob(True, "whether the last call is shown passages at all")
    summary_tokens: int = knob(128, "most new tokens of the last call", at_least=1)
    prompts: AirragWording = knob(OWN, "the words of the last call: a set for airrag, or a file")

    paper: ClassVar[str] = "Feng et al. 2025 (AirRAG-Blender)"
    searches: ClassVar[str] = "as each of its methods does"

    @property
    def needs(self) -> Needs:
        return joined_needs([method.needs for _, method in self.methods.named])

    def check_models(self, models: Mapping[Role, Model]) -> None:
        """Raise MissingAbility where one of the methods can't work with `models`."""
        check_all((method for _, method in self.methods.named), models)

    async def answer(self, question: Question, run: Run) -> Answer:
        shares = Shares.of(self, question, run)
        told = await abreast(
            ask_member(name, method, question, run, shares.members[name])
            for name, method in self.methods.named
        )
        self._count(run, told)
        answer = await self._chosen(question, run, told, shares)
        run.trace.decide("budget", "spent", shares.told, numbers=shares.numbers)
        return answer

    def _count(self, run: Run, told: Sequence[Told]) -> None:
        """Say how many have come to an end.

        Raises:
            AllFailed: none has; says why.
            RequestRefused: the same, where a server refused what each of them asked for.
        """
        failures = [f"{each.name}: {each.failure.rstrip('.')}" for each in told if each.failure]
        if len(failures) == len(told):
            kind = RequestRefused if all(each.is_refused for each in told) else AllFailed
            raise kind(f"method blender: each of its methods failed. {'; '.join(failures)}.")
        why = f"{len(told) - len(failures)} of {len(told)} methods came to an end"
        numbers = {"methods": float(len(told)), "failed": float(len(failures))}
        run.trace.decide("members", "merge", why, numbers=numbers)

    async def _chosen(self, question: Question, run: Run, told: Sequence[Told], shares: Shares) -> Answer:
        endings = endings_of(told, (self.passages or None) if self.show_passages else 0)
        kept = valid([ending for _, ending in endings])
        if not kept:
            run.trace.decide("end", "nothing", "no method came to an answer")
            return Answer("")
        by_ending = {id(ending): each for each, ending in endings}
        if len(kept) == 1:
            only = by_ending[id(kept[0])]
            run.trace.decide("choose", only.name, "it is the only answer")
            run.trace.commit(only.answer.text)
            return only.answer
        chosen = await choose(self, question, run, kept, shares.last())
        nearest = by_ending[id(chosen.ending)]
        scored = zip(kept, chosen.scores, strict=True)
        numbers = {by_ending[id(ending)].name: score for ending, score in scored}
        run.trace.decide("choose", chosen.answer, f"nearest to {nearest.name}", numbers=numbers)
        own = [(question.text, [citation.passage for citation in nearest.answer.citations])]
        return with_sources(chosen.answer, question, run, own, chosen.ending.state.hits)
