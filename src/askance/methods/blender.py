"""Blender: several methods answer the question, and one more model call merges their answers into one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from askance.core.answers import Answer
from askance.core.concurrency import gather_or_cancel
from askance.core.errors import AllFailed, RequestRefused
from askance.core.parameters import Parameters, checked_dataclass, parameter
from askance.core.ports import Method, Needs, RoleModel, Run
from askance.core.token_ledger import BudgetedModel, TokenLedger
from askance.core.trace import Trace
from askance.core.types import Demo, Hit, Question, Role
from askance.methods.airrag.method import Airrag, AirragLite, answer_with_sources
from askance.methods.airrag.prompts import OWN, AirragPromptTemplate, PromptBuilder
from askance.methods.airrag.state import Node, PathState, unique_hits
from askance.methods.airrag.verifiers import agreement_with, choose_answer, valid_nodes, verifier_tokens
from askance.methods.baselines import Single
from askance.methods.common.named_methods import Members, combined_needs, member_answer
from askance.methods.common.token_limit import RecordingRetriever
from askance.methods.iterdrag import Iterdrag
from askance.text.answers import normalise_answer
from askance.text.fusion import fuse_hits


@dataclass(frozen=True, slots=True)
class MemberResult:
    """The result of one method.

    Attributes:
        hits: The distinct passages, in the order in which the searches first found them.
        error: The exception that ended the method; None if the method returned an answer.
    """

    name: str
    answer: Answer = Answer("")
    hits: tuple[Hit, ...] = ()
    error: Exception | None = None


async def run_member(
    name: str, method: Method, question: Question, run: Run, ledger: TokenLedger
) -> MemberResult:
    """Run a method within a token budget, and return its result.

    If the method fails, the result contains the exception, and the trace records the failure.

    Raises:
        LimitReached: A limit for the whole question is reached.
    """
    trace = run.trace.aside()
    retriever = RecordingRetriever(run.retriever, trace)
    member_run = replace(run, retriever=retriever, trace=trace)
    with run.trace.because(run.trace.decide("member", "ask", f"{name} answers on its own")):
        answer, error = await member_answer(name, method, question, member_run, ledger)
        if error is not None:
            run.trace.decide("member", "failed", f"{name}: {error}")
        ledger.close()
    return MemberResult(name, answer, unique_hits(hit for _, hits in retriever.shown for hit in hits), error)


def candidates_of(results: Sequence[MemberResult], most_passages: int | None) -> dict[Node, MemberResult]:
    """Return each successful result by a node of AirRAG, which is made from it.

    The nodes are the input of the last call. The answer of a node is the short answer or, without one, the
    whole text. If the whole text differs from the short answer, it becomes the history of the node.
    Reciprocal-rank fusion ranks the passages of all methods together, and only the best of them are kept.

    Args:
        most_passages: The maximum number of passages to keep; None keeps all.
    """
    succeeded = [result for result in results if result.error is None]
    ranked = fuse_hits([result.hits for result in succeeded])
    ranks, candidates = {hit.passage.id: hit.rank for hit in ranked[:most_passages]}, {}
    for result in succeeded:
        hits = (replace(hit, rank=ranks.get(hit.passage.id, 0)) for hit in result.hits)
        written = result.answer.text.strip()
        short = (result.answer.short or written).strip()
        history = (Demo("", written),) if normalise_answer(written) != normalise_answer(short) else ()
        state = PathState(history=history, found=(tuple(hit for hit in hits if hit.rank),), answer=short)
        candidates[Node(state)] = result
    return candidates


PAPER_MEMBERS = Members(
    (("single", Single()), ("iterdrag", Iterdrag()), ("airrag_lite", AirragLite()), ("airrag", Airrag()))
)


@checked_dataclass()
class Blender(Parameters):
    """AirRAG-Blender (Feng et al. 2025, arXiv 2501.10053): merge the answers of several methods into one.

    Each method answers separately. The model then reads the question, the distinct answers with their
    reasoning, and the passages found, and gives the final answer (AirRAG's action SA). If all answers are
    equal, or only one method has answered, that call is omitted. By default, the methods are vanilla RAG,
    IterDRAG, AirRAG-Lite and AirRAG.
    """

    methods: Members = parameter(PAPER_MEMBERS, "the methods that answer, by name")
    l_max: int | None = parameter(
        None, "maximum number of input tokens per method, and of the last call; none: no limit", at_least=1
    )
    strict_budget: bool = parameter(False, "apply l_max to all of them together, in equal shares")
    verifier: Literal["sa", "jcd"] = parameter(
        "sa", "what chooses the answer: a call that sees all of them (sa), or common words (jcd)"
    )
    passages: int | None = parameter(
        None, "maximum number of passages in the last call; none: as many as fit", at_least=0
    )
    summary_tokens: int = parameter(128, "maximum number of new tokens of the last call", at_least=1)
    prompts: AirragPromptTemplate = parameter(
        OWN, "prompt template of the last call: a name that airrag knows, or a file"
    )

    paper: ClassVar[str] = "Feng et al. 2025 (AirRAG-Blender)"
    searches: ClassVar[str] = "as each of its methods does"

    @property
    def needs(self) -> Needs:
        return combined_needs(self.methods.needs)

    def check_models(self, models: Mapping[Role, RoleModel]) -> None:
        """Raise MissingAbility if one of the methods can't work with `models`."""
        self.methods.check_models(models)

    async def answer(self, question: Question, run: Run) -> Answer:
        whole, *budgets, last = await self._budgets(question, run)
        results = await gather_or_cancel(
            run_member(name, method, question, run, budget)
            for (name, method), budget in zip(self.methods.named, budgets, strict=True)
        )
        _record_outcome(run.trace, results)
        answer = await self._choose(question, run, results, last)
        why = f"{whole.num_calls} calls read {whole.num_spent:,} tokens"
        spent = zip(self.methods.names, budgets, strict=True)
        numbers = whole.numbers | {f"input tokens of {name}": float(each.num_spent) for name, each in spent}
        numbers |= {} if self.l_max is None else {"l_max": float(self.l_max)}
        run.trace.decide("budget", "spent", why, numbers=numbers)
        return answer

    async def _budgets(self, question: Question, run: Run) -> list[TokenLedger]:
        """Return the token budgets of all calls together, of each method, and of the last call.

        Each method and the last call may spend `l_max` tokens. With `strict_budget`, one `l_max` is divided
        among all of them.
        """
        num_methods = len(self.methods.named)
        if not self.strict_budget or self.l_max is None:
            whole = TokenLedger()
            return [whole, *(whole.lend(self.l_max) for _ in range(num_methods + 1))]
        prompts = PromptBuilder(run.model, question, self.prompts)
        reserved = await verifier_tokens(prompts, num_methods, self.l_max)
        whole = TokenLedger(self.l_max, set_aside=reserved)
        members = [whole.share(number) for number in range(num_methods, 0, -1)]
        whole.set_aside -= reserved
        return [whole, *members, whole]

    async def _choose(
        self, question: Question, run: Run, results: Sequence[MemberResult], budget: TokenLedger
    ) -> Answer:
        candidates = candidates_of(results, self.passages)
        kept = valid_nodes(list(candidates))
        if not kept:
            run.trace.decide("end", "nothing", "no method came to an answer")
            return Answer("")
        if len(kept) == 1:
            only = candidates[kept[0]]
            run.trace.decide("choose", only.name, "it is the only answer")
            run.trace.commit(only.answer.text)
            return only.answer
        prompts = PromptBuilder(BudgetedModel(run.model, budget), question, self.prompts)
        chosen = await choose_answer(self.verifier, kept, prompts, self.summary_tokens, run)
        nearest = candidates[chosen.node]
        numbers = {candidates[node].name: score for node, score in chosen.scores.items()}
        run.trace.decide("choose", chosen.answer, f"nearest to {nearest.name}", numbers=numbers)
        evidence = [(question.text, [citation.passage for citation in nearest.answer.citations])]
        answer = answer_with_sources(chosen.answer, question, run, evidence, chosen.node.state.hits)
        return replace(answer, agreement=agreement_with(answer.text, kept))


def _record_outcome(trace: Trace, results: Sequence[MemberResult]) -> None:
    """Record how many methods have an answer.

    Raises:
        AllFailed: No method has an answer. The message gives the reason for each failure.
        RequestRefused: A server refused the requests of every method.
    """
    failures = [f"{result.name}: {str(result.error).rstrip('.')}" for result in results if result.error]
    if len(failures) == len(results):
        is_refused = all(isinstance(result.error, RequestRefused) for result in results)
        error_class = RequestRefused if is_refused else AllFailed
        raise error_class(f"method blender: each of its methods failed. {'; '.join(failures)}.")
    why = f"{len(results) - len(failures)} of {len(results)} methods came to an end"
    numbers = {"methods": float(len(results)), "failed": float(len(failures))}
    trace.decide("members", "merge", why, numbers=numbers)
