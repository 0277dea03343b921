"""The ports: the interfaces through which a method reaches models, retrievers and encoders.

Everything else is an adapter that implements a port, or a wrapper around one.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from askance.core.answers import Answer
from askance.core.errors import MissingAbility
from askance.core.filters import FieldKinds, Filter
from askance.core.types import (
    Attention,
    Capability,
    GenerateRequest,
    Generation,
    Hit,
    Passage,
    Prompt,
    Question,
    Role,
    Scored,
    Signal,
    Span,
    TextKind,
    TokenIds,
)

if TYPE_CHECKING:
    from askance.core.trace import Trace


@runtime_checkable
class Model(Protocol):
    """A language model.

    Its declared `signals` and `capabilities` are checked before a run starts.
    """

    @property
    def name(self) -> str:
        """The name of the model, as traces and reports show it."""

    @property
    def fingerprint(self) -> str:
        """An identifier that only models with the same outputs share; an empty string if there is none."""

    @property
    def precision(self) -> str:
        """The floating-point format the model computes in, such as "float32"; an empty string if unknown."""

    @property
    def signals(self) -> frozenset[Signal]:
        """The signals that the model can return with each token."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The kinds of calls that the model supports."""

    @property
    def context_tokens(self) -> int:
        """The size of the context window in tokens, for prompt and generated text together."""

    @property
    def counts_exactly(self) -> bool:
        """True if `count` returns the exact number of tokens, false if it returns an upper bound."""

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        """Generate `request.n` continuations of the prompt.

        Raises:
            PromptTooLong: The prompt and `max_tokens` together do not fit into `context_tokens`.
        """

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        """Return the log-probability of each option directly after `prompt`, in the order of `options`."""

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        """Return the last layer's attention over `text` alone, from one forward pass.

        Args:
            bos: True to put the beginning-of-sequence token before the text.
        """

    def tokenize(self, text: str | Sequence[Span], *, at_start: bool = False) -> TokenIds:
        """Return the token ids of `text`, without BOS and EOS.

        Args:
            text: The text. A string never yields control tokens, but a trusted span may.
            at_start: True if the text starts a sequence, false if it continues one.
        """

    def decode(self, ids: TokenIds, *, at_start: bool = False) -> str:
        """Return the text of token ids.

        Args:
            at_start: True if the ids start a sequence, false if they continue one. The results differ for
                tokenizers that prepend a space when they encode and strip it when they decode.
        """

    async def count(self, prompt: Prompt) -> int:
        """Return the length of a prompt in tokens, including the chat template (see `counts_exactly`).

        A model on a server asks its server. Local models answer at once.
        """


@runtime_checkable
class ShowsPieces(Protocol):
    """A model that exposes the raw strings of its vocabulary, which reproductions of authors' code need."""

    def pieces(self, ids: TokenIds) -> tuple[str, ...]:
        """Return the vocabulary's raw string for each token id, with its space markers and byte encodings."""


class PairScorer(ABC):
    """A model, such as a cross-encoder, that reads a query together with a text and writes nothing.

    It may have the role critic or reward. A score is a logit: the log-odds, in nats, that the text is
    relevant to the query. At 0, both are equally likely (see `types.relevance`). Adapters are subclasses, so
    that telling them from language models needs no look at members, some of which are slow to compute.

    Attributes:
        name: The name of the model, as traces and reports show it.
        fingerprint: An identifier that only models with the same scores share; an empty string if there is
            none.
        max_tokens: The number of tokens after which a pair is truncated.
    """

    name: str
    fingerprint: str
    max_tokens: int

    @abstractmethod
    async def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        """Return the logit of each pair of a query and a text, which is a finite number.

        Raises:
            ModelFailure: The model failed, for example for lack of memory.
        """

    @abstractmethod
    def count_tokens(self, query: str, text: str) -> int:
        """Return the number of tokens that the model reads of a pair, at most `max_tokens`."""


@dataclass(frozen=True, slots=True)
class FeatureScorer:
    """A model in the role reward that judges a reasoning path by numbers about it instead of its text.

    Attributes:
        probability: A function that takes the numbers by name, None for an unknown one, and returns the
            probability that the path leads to the right answer.
        evidence: The scorer of each sub-query with its best passage, for the number "evidence"; None if
            `probability` does without this number.
    """

    name: str
    fingerprint: str
    probability: Callable[[Mapping[str, float | None]], float]
    evidence: PairScorer | None = None


ScorePairs = Callable[[PairScorer, Sequence[tuple[str, str]]], Awaitable[Sequence[float]]]
"""A function that makes a call of a `PairScorer`."""
RoleModel = Model | PairScorer | FeatureScorer
"""A model in a role: a language model or, in the roles critic and reward, one that only judges."""


class Retriever(Protocol):
    """A searchable collection of passages."""

    @property
    def name(self) -> str:
        """The name of the retriever, as traces and reports show it."""

    @property
    def fingerprint(self) -> str:
        """An identifier that only retrievers with the same hits share; an empty string if there is none."""

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        """Return the best passages for a query, best first.

        Args:
            query: The query. A query without a searchable word finds nothing.
            k: The maximum number of passages.
            exclude: The ids of passages to ignore, as if the collection did not contain them.
        """


class FilteringRetriever(Retriever, Protocol):
    """A retriever that can be limited to the documents that pass a filter (see `retrieval.filters`)."""

    @property
    def fields(self) -> FieldKinds | None:
        """The fields of the documents, or None if this retriever can't filter."""

    def filtered(self, where: Filter) -> Retriever:
        """Return a retriever that searches only the documents that pass `where`.

        Its hits and scores are those that remain if all others are removed from the ranking of the whole
        collection. The filters of repeated calls apply together. The name and the fingerprint of the result
        contain the filter.
        """


class Reranker(Protocol):
    """A model that scores how relevant passages are to a query, more accurately than the first search."""

    @property
    def name(self) -> str:
        """The name of the reranker, as traces and reports show it."""

    @property
    def fingerprint(self) -> str:
        """An identifier that only rerankers with the same scores share; an empty string if there is none."""

    async def score(self, query: str, passages: Sequence[Passage]) -> Sequence[float]:
        """Return a relevance score for each passage, in the order of `passages`. A higher score is better."""


class Encoder(Protocol):
    """A model that embeds texts as vectors of length 1."""

    @property
    def name(self) -> str:
        """The specification that the encoder was loaded from, if it has one."""

    @property
    def fingerprint(self) -> str:
        """An identifier that only encoders with the same vectors share."""

    async def embed(self, texts: Sequence[str], kind: TextKind = "text") -> NDArray[np.float32]:
        """Return the vectors of texts, of shape [len(texts), dimensions].

        Args:
            texts: The texts. An empty sequence yields an array of shape [0, dimensions].
            kind: The use of the vectors. Some encoders embed queries and passages differently from texts
                that are compared with each other.
        """


class Entailment(Protocol):
    """A model that decides whether a text entails a claim."""

    @property
    def name(self) -> str:
        """The name of the model, as reports show it."""

    async def entails(self, premise: str, claim: str) -> bool:
        """Return whether `claim` follows from `premise`."""


@dataclass(frozen=True, slots=True)
class Needs:
    """The requirements of a method, which are checked before anything runs.

    Attributes:
        signals: The signals that the answering model must return.
        capabilities: The capabilities that the answering model must have.
        one_of: Alternative sets of capabilities. The answering model must have every capability of at least
            one set.
        attention: True if the method needs the last layer's attention, which the answering model or a model
            in the role "attend" must provide.
        retriever: True if the method searches.
        roles: Optional roles, which the method uses if a model is given for them.
        encoder: True if the method compares texts by their vectors.
    """

    signals: frozenset[Signal] = frozenset()
    capabilities: frozenset[Capability] = frozenset()
    one_of: tuple[frozenset[Capability], ...] = ()
    attention: bool = False
    retriever: bool = False
    roles: frozenset[Role] = frozenset()
    encoder: bool = False

    @property
    def asked_roles(self) -> frozenset[Role]:
        """All roles whose models the method may call."""
        always: frozenset[Role] = frozenset(("answer", "attend") if self.attention else ("answer",))
        return self.roles | always

    @property
    def choice(self) -> str:
        """The alternatives of `one_of` as a string for messages."""
        return " or ".join(" with ".join(sorted(each)) for each in self.one_of)


@dataclass(frozen=True, slots=True)
class Run:
    """The models, retriever and trace that a method uses to answer one question.

    The models and the retriever record every call in the trace.

    Attributes:
        retriever: The collection to search.
        trace: The trace, in which the method records its decisions.
        encoder: The encoder, for methods that need one.
    """

    models: Mapping[Role, RoleModel]
    retriever: Retriever
    trace: "Trace"
    seed: int = 0
    encoder: Encoder | None = None

    @property
    def model(self) -> Model:
        """The model in the role "answer"."""
        return language_model(self.models["answer"])


@runtime_checkable
class Method(Protocol):
    """An algorithm that answers one question: a frozen dataclass whose fields are the parameters."""

    @property
    def needs(self) -> Needs:
        """The method's requirements, given its parameters."""

    async def answer(self, question: Question, run: Run) -> Answer:
        """Answer a question with the models and the retriever of `run`."""


@runtime_checkable
class ChecksModels(Protocol):
    """A method whose requirements go beyond a model's declared capabilities.

    An example is a requirement that certain tokens are in the model's vocabulary.
    """

    def check_models(self, models: Mapping[Role, RoleModel]) -> None:
        """Check the models before anything runs.

        Raises:
            MissingAbility: A model lacks something that the method needs with these parameters. The message
                says what would work.
        """


def language_model(model: RoleModel, role: Role = "answer") -> Model:
    """Return the model in a role that only a language model can have.

    Raises:
        MissingAbility: The model only judges. The message says which roles it can have.
    """
    if not isinstance(model, PairScorer | FeatureScorer):
        return model
    judged, roles = "numbers about a reasoning path", "reward (--model reward=…)"
    if isinstance(model, PairScorer):
        judged, roles = "pairs of texts", f"critic (--model critic=…) or {roles}"
    raise MissingAbility(
        f"model {model.name} in the role {role} only judges {judged}: give it the role {roles}, and the role "
        f"{role} another model."
    )


def wrap(model: RoleModel, wrap_model: Callable[[Model], Model], score_pairs: ScorePairs) -> RoleModel:
    """Return a model whose calls go through a wrapper.

    Args:
        wrap_model: Returns the wrapper of a language model.
        score_pairs: Makes the calls of a `PairScorer`, also of one that a `FeatureScorer` uses.
    """
    if isinstance(model, FeatureScorer):
        return replace(model, evidence=model.evidence and WrappedScorer(model.evidence, score_pairs))
    return WrappedScorer(model, score_pairs) if isinstance(model, PairScorer) else wrap_model(model)


def _of(path: str) -> Any:
    """Return a property that reads an attribute of the wrapped object each time."""
    return property(attrgetter(path))


@dataclass(eq=False, repr=False)
class WrappedModel:
    """A `Model` around another model. Subclasses override the calls they change and inherit the rest."""

    _model: Model

    name, fingerprint, precision = _of("_model.name"), _of("_model.fingerprint"), _of("_model.precision")
    signals, capabilities = _of("_model.signals"), _of("_model.capabilities")
    context_tokens, counts_exactly = _of("_model.context_tokens"), _of("_model.counts_exactly")
    tokenize, decode, pieces = _of("_model.tokenize"), _of("_model.decode"), _of("_model.pieces")
    generate, score = _of("_model.generate"), _of("_model.score")
    attend, count = _of("_model.attend"), _of("_model.count")


class WrappedScorer(PairScorer):
    """A `PairScorer` around another one, whose calls a function makes (see `wrap`)."""

    def __init__(self, scorer: PairScorer, call: ScorePairs) -> None:
        self.name, self.fingerprint, self.max_tokens = scorer.name, scorer.fingerprint, scorer.max_tokens
        self._scorer, self._call = scorer, call

    def count_tokens(self, query: str, text: str) -> int:
        return self._scorer.count_tokens(query, text)

    async def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        return await self._call(self._scorer, pairs)


@dataclass(eq=False, repr=False)
class WrappedRetriever:
    """A `Retriever` around another retriever. Subclasses override what they change."""

    _retriever: Retriever

    name, fingerprint = _of("_retriever.name"), _of("_retriever.fingerprint")

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        return await self._retriever.search(query, k, exclude=exclude)
