"""Blender: several methods answer the question, and one more call of the model makes one answer of theirs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from askance.core.concurrency import gather_or_cancel
from askance.core.errors import AllFailed, AskanceError, LimitReached, ModelSpecError, RequestRefused
from askance.core.parameters import Parameters, parameter
from askance.core.ports import Method, Model, Needs, Run
from askance.core.token_ledger import BudgetedModel, NoRoom, TokenLedger
from askance.core.trace import Trace
from askance.core.types import Answer, Demo, Hit, Question, Role
from askance.methods.airrag.method import Airrag, AirragLite, answer_with_sources
from askance.methods.airrag.prompt_template import OWN, AirragPromptTemplate
from askance.methods.airrag.prompts import PromptBuilder
from askance.methods.airrag.state import PathState, unique_hits
from askance.methods.airrag.verifiers import FinishedPath, choose_answer, valid_paths, verifier_tokens
from askance.methods.baselines import Single
from askance.methods.common.members import Members, answer_of, check_all, joined_needs
from askance.methods.common.token_limit import NotedRetriever
from askance.methods.iterdrag import Iterdrag
from askance.text.answers import normalise_answer
from askance.text.fusion import fuse_hits


@dataclass(frozen=True, slots=True)
class Told:
    """What became of one method.

    Attributes:
        hits: passages that it found, in the order of its searches, each once and where it came first.
        error: why it has no answer; None where it came to an end.
    """

    name: str
    answer: Answer = Answer("")
    hits: tuple[Hit, ...] = ()
    error: Exception | None = None


async def ask_member(name: str, method: Method, question: Question, run: Run, allowance: TokenLedger) -> Told:
    """What a method answers within `allowance`. Where it fails, the trace says so, and so does `Told`.

    Raises:
        LimitReached: of the whole question.
    """
    trace = run.trace.aside()
    retriever = NotedRetriever(run.retriever, trace)
    own = replace(run, retriever=retriever, trace=trace)
    answer, error = Answer(""), None
    with run.trace.because(run.trace.decide("member", "ask", f"{name} answers on its own")):
        try:
            answer = await answer_of(name, method, question, own, allowance)
        except (LimitReached, ModelSpecError):
            raise
        except (AskanceError, NoRoom) as raised:
            error = raised
            run.trace.decide("member", "failed", f"{name}: {raised}")
        finally:
            allowance.close()
    return Told(name, answer, unique_hits(hit for _, hits in retriever.shown for hit in hits), error)


def endings_of(told: Sequence[Told], most_passages: int | None) -> list[tuple[Told, FinishedPath]]:
    """The answers of those that came to an end, with the passages that most methods found early.

    An answer is the short one, or all that was written where none can be read from it. What was written
    besides stands before it, for the last call to see.

    Args:
        most_passages: None for all that were found.
    """
    ended = [each for each in told if each.error is None]
    ranked = fuse_hits([each.hits for each in ended])
    places, endings = {hit.passage.id: hit.rank for hit in ranked[:most_passages]}, []
    for each in ended:
        hits = (replace(hit, rank=places.get(hit.passage.id, 0)) for hit in each.hits)
        written = each.answer.text.strip()
        bare = (each.answer.short or written).strip()
        before = (Demo("", written),) if normalise_answer(written) != normalise_answer(bare) else ()
        state = PathState(history=before, found=(tuple(hit for hit in hits if hit.rank),), answer=bare)
        endings.append((each, FinishedPath(state, is_grounded=bool(each.hits))))
    return endings


@dataclass(frozen=True, slots=True)
class Shares:
    """One question's budget.

    Attributes:
        whole: what all methods and the last call spend.
        members: what each method may read of it.
        last: what the last call may read of it.
    """

    whole: TokenLedger
    members: Mapping[str, TokenLedger]
    last: TokenLedger

    def tell(self, trace: Trace, l_max: int | None) -> None:
        """Say what was spent in all, and what each method has read."""
        spent = self.whole.numbers
        why = f"{spent['calls']:.0f} calls read {spent['input tokens']:,.0f} tokens"
        spent |= {f"input tokens of {name}": float(each.num_spent) for name, each in self.members.items()}
        spent |= {} if l_max is None else {"l_max": float(l_max)}
        trace.decide("budget", "spent", why, numbers=spent)


OF_THE_PAPER = Members(
    (("single", Single()), ("iterdrag", Iterdrag()), ("airrag_lite", AirragLite()), ("airrag", Airrag()))
)


@dataclass(frozen=True, slots=True)
class Blender(Parameters):
    """AirRAG-Blender (Feng et al. 2025, arXiv 2501.10053): the answers of several methods, refined into one.

    Each method answers on its own. Then the model sees the question, the different answers with what their
    methods wrote before them, and the passages that they found, and gives the answer: AirRAG's action SA.
    Where all answers are equal, nobody is asked; where one method alone has answered, its answer stands.

    The paper names neither the methods nor what each may read. Ours: vanilla RAG, IterDRAG, AirRAG-Lite and
    AirRAG, each within `l_max` of its own, and so is the last call; with `strict_budget` all of them
    together. Ours, too: which passages come first in the last call (reciprocal-rank fusion), and that a
    method that fails costs its own answer alone.
    """

    methods: Members = parameter(OF_THE_PAPER, "the methods that answer, by name")
    l_max: int | None = parameter(
        None, "most input tokens of each method, and of the last call; none: no limit", at_least=1
    )
    strict_budget: bool = parameter(False, "whether l_max is for all of them together, in equal parts")
    verifier: Literal["sa", "jcd"] = parameter(
        "sa", "who chooses: a call that sees all answers, or common words"
    )
    passages: int = parameter(0, "most passages that the last call is shown; 0: as many as fit", at_least=0)
    show_passages: bool = parameter(True, "whether the last call is shown passages at all")
    summary_tokens: int = parameter(128, "most new tokens of the last call", at_least=1)
    prompts: AirragPromptTemplate = parameter(OWN, "the words of the last call: a set for airrag, or a file")

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
        told = await gather_or_cancel(
            ask_member(name, method, question, run, shares.members[name])
            for name, method in self.methods.named
        )
        self._count(run, told)
        answer = await self._chosen(question, run, told, shares)
        shares.tell(run.trace, self.l_max)
        return answer

    def _shares(self, question: Question, run: Run) -> Shares:
        """Each method has L_max, and so has the last call; or all together, the methods in equal parts."""
        names = self.methods.names
        if self.strict_budget and self.l_max is not None:
            kept = verifier_tokens(PromptBuilder(run.model, question, self.prompts), len(names), self.l_max)
            whole = last = TokenLedger(self.l_max, set_aside=kept)
            members = [whole.share(len(names) - number) for number in range(len(names))]
            whole.set_aside -= kept
        else:
            whole = TokenLedger()
            *members, last = (whole.lend(self.l_max) for _ in (*names, "the last call"))
        return Shares(whole, dict(zip(names, members, strict=True)), last)

    def _count(self, run: Run, told: Sequence[Told]) -> None:
        """Say how many have come to an end.

        Raises:
            AllFailed: none has; says why.
            RequestRefused: the same, where a server refused what each of them asked for.
        """
        failures = [f"{each.name}: {str(each.error).rstrip('.')}" for each in told if each.error]
        if len(failures) == len(told):
            kind = (
                RequestRefused if all(isinstance(each.error, RequestRefused) for each in told) else AllFailed
            )
            raise kind(f"method blender: each of its methods failed. {'; '.join(failures)}.")
        why = f"{len(told) - len(failures)} of {len(told)} methods came to an end"
        numbers = {"methods": float(len(told)), "failed": float(len(failures))}
        run.trace.decide("members", "merge", why, numbers=numbers)

    async def _chosen(self, question: Question, run: Run, told: Sequence[Told], shares: Shares) -> Answer:
        endings = endings_of(told, (self.passages or None) if self.show_passages else 0)
        kept = valid_paths([ending for _, ending in endings])
        if not kept:
            run.trace.decide("end", "nothing", "no method came to an answer")
            return Answer("")
        by_ending = {id(ending): each for each, ending in endings}
        if len(kept) == 1:
            only = by_ending[id(kept[0])]
            run.trace.decide("choose", only.name, "it is the only answer")
            run.trace.commit(only.answer.text)
            return only.answer
        prompts = PromptBuilder(BudgetedModel(run.model, shares.last), question, self.prompts)
        chosen = await choose_answer(self.verifier, kept, prompts, self.summary_tokens, run)
        nearest = by_ending[id(chosen.path)]
        scored = zip(kept, chosen.scores, strict=True)
        numbers = {by_ending[id(ending)].name: score for ending, score in scored}
        run.trace.decide("choose", chosen.answer, f"nearest to {nearest.name}", numbers=numbers)
        own = [(question.text, [citation.passage for citation in nearest.answer.citations])]
        return answer_with_sources(chosen.answer, question, run, own, chosen.path.state.hits)
