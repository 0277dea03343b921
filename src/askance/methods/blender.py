"""Blender: several methods answer the question, and one more call of the model makes one answer of theirs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from askance.core.errors import AllFailed, AskanceError, LimitReached, ModelSpecError, RequestRefused
from askance.core.knobs import Knobs, knob
from askance.core.ports import Method, Model, Needs, Run
from askance.core.trace import UPPER_BOUND
from askance.core.types import Answer, Demo, Hit, Question, Role
from askance.methods.airrag.choosing import Choosing, Ending, Vote, num_kept_for_choosing, valid
from askance.methods.airrag.method import Airrag, AirragLite
from askance.methods.airrag.showing import with_sources
from askance.methods.airrag.state import State, each_once
from askance.methods.airrag.wording import OWN, AirragWording
from askance.methods.bounded import NotedRetriever
from askance.methods.budget import Account, Allowance, NoRoom
from askance.methods.iterdrag import Iterdrag
from askance.methods.members import Members, answer_of, check_all, joined_needs
from askance.methods.single import Single
from askance.text.answers import normalise_answer
from askance.text.fusion import fuse_hits
from askance.tree.abreast import abreast


@dataclass(frozen=True, slots=True)
class Told:
    """What became of one method.

    Attributes:
        hits: passages that it found, in the order of its searches, each once and where it came first.
        failure: why it has no answer; empty where it came to an end.
        is_refused: it failed since a server refused what it asked for.
    """

    name: str
    answer: Answer = Answer("")
    hits: tuple[Hit, ...] = ()
    failure: str = ""
    is_refused: bool = False

    @property
    def bare(self) -> str:
        """The short answer, or all that was written where none can be read from it."""
        return (self.answer.short or self.answer.text).strip()

    @property
    def before(self) -> tuple[Demo, ...]:
        """What was written besides, for the last call to see."""
        written = self.answer.text.strip()
        is_more = normalise_answer(written) != normalise_answer(self.bare)
        return (Demo("", written),) if is_more else ()


async def ask_member(name: str, method: Method, question: Question, run: Run, allowance: Allowance) -> Told:
    """What a method answers within `allowance`. Where it fails, the trace says so, and so does `Told`.

    Raises:
        LimitReached: of the whole question.
    """
    trace = run.trace.aside()
    retriever = NotedRetriever(run.retriever, trace)
    own = replace(run, retriever=retriever, trace=trace)
    failure, is_refused = "", False
    with run.trace.because(run.trace.decide("member", "ask", f"{name} answers on its own")):
        try:
            answer = await answer_of(name, method, question, own, allowance)
        except (LimitReached, ModelSpecError):
            raise
        except (AskanceError, NoRoom) as error:
            answer, failure = Answer(""), str(error) or type(error).__name__
            is_refused = isinstance(error, RequestRefused)
            run.trace.decide("member", "failed", f"{name}: {failure}")
        finally:
            allowance.close()
    found = each_once(hit for _, hits in retriever.shown for hit in hits)
    return Told(name, answer, found, failure, is_refused)


def endings_of(told: Sequence[Told], most_passages: int | None) -> list[tuple[Told, Ending]]:
    """The answers of those that came to an end, with the passages that most methods found early.

    Args:
        most_passages: None for all that were found.
    """
    ended = [each for each in told if not each.failure]
    ranked = fuse_hits([each.hits for each in ended])
    places = {hit.passage.id: hit.rank for hit in ranked[:most_passages]}
    return [(each, _ending(each, places)) for each in ended]


def _ending(told: Told, places: dict[str, int]) -> Ending:
    hits = [replace(hit, rank=places[hit.passage.id]) for hit in told.hits if hit.passage.id in places]
    state = State(history=told.before, found=(tuple(hits),), answer=told.bare)
    return Ending(state, Vote(told.bare, is_grounded=bool(told.hits)))


@dataclass(slots=True)
class Shares:
    """One question's budget.

    Attributes:
        members: what each method may read.
        accounts: one of all of them, or one of each and one of the last call.
        kept: of a common account, for the last call.
    """

    l_max: int | None
    members: dict[str, Allowance]
    accounts: tuple[Account, ...]
    kept: int = 0

    @classmethod
    def of(cls, names: Sequence[str], most: int | None, num_kept: int | None) -> "Shares":
        """Each method has L_max, and so has the last call; or all together, the methods in equal parts.

        Args:
            num_kept: of what all have together, for the last call; None where each has its own.
        """
        if most is None or num_kept is None:
            accounts = tuple(Account(most) for _ in (*names, "the last call"))
            members = {name: account.share(1) for name, account in zip(names, accounts, strict=False)}
            return cls(most, members, accounts)
        account = Account(most)
        account.set_aside += num_kept
        members = {name: account.share(len(names) - number) for number, name in enumerate(names)}
        return cls(most, members, (account,), num_kept)

    def last(self) -> Allowance:
        """What the last call may read: all that is left over."""
        account = self.accounts[-1]
        account.set_aside -= self.kept
        self.kept = 0
        return account.share(1)

    @property
    def told(self) -> str:
        """What was spent, in words."""
        num_calls = sum(account.num_calls for account in self.accounts)
        read = sum(account.num_input for account in self.accounts)
        return f"{num_calls} calls read {read:,} tokens"

    @property
    def numbers(self) -> dict[str, float]:
        """What was spent in all, and what each method has read."""
        of_all = [account.numbers for account in self.accounts]
        spent = {name: sum(each[name] for each in of_all) for name in ("input tokens", "tokens", "calls")}
        if any(UPPER_BOUND in each for each in of_all):
            spent[UPPER_BOUND] = 1.0
        spent |= {f"input tokens of {name}": float(each.num_input) for name, each in self.members.items()}
        return spent if self.l_max is None else {**spent, "l_max": float(self.l_max)}


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
        shares = self._shares(question, run)
        told = await abreast(
            ask_member(name, method, question, run, shares.members[name])
            for name, method in self.methods.named
        )
        self._count(run, told)
        answer = await self._chosen(question, run, told, shares)
        run.trace.decide("budget", "spent", shares.told, numbers=shares.numbers)
        return answer

    def _shares(self, question: Question, run: Run) -> Shares:
        names, kept = self.methods.names, None
        if self.strict_budget and self.l_max is not None:
            kept = num_kept_for_choosing(run.model, question, self.prompts, len(names), self.l_max)
        return Shares.of(names, self.l_max, kept)

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
        choosing = Choosing(self.verifier, self.prompts, self.summary_tokens, question, run, shares.last())
        chosen = await choosing.choose(kept)
        nearest = by_ending[id(chosen.ending)]
        scored = zip(kept, chosen.scores, strict=True)
        numbers = {by_ending[id(ending)].name: score for ending, score in scored}
        run.trace.decide("choose", chosen.answer, f"nearest to {nearest.name}", numbers=numbers)
        own = [(question.text, [citation.passage for citation in nearest.answer.citations])]
        return with_sources(chosen.answer, question, run, own, chosen.ending.state.hits)
