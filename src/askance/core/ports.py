"""The ports: what a method may ask of the world. All else is an adapter of one of these, or a wrapper."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from askance.core.trace import Trace
from askance.core.types import (
    Answer,
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


@runtime_checkable
class Model(Protocol):
    """A language model. `signals` and `capabilities` are declared, and checked before a run starts."""

    @property
    def name(self) -> str: ...
    @property
    def fingerprint(self) -> str:
        """What tells its answers from those of any other model; empty where nothing does."""

    @property
    def precision(self) -> str:
        """What its numbers are computed in, such as "float32"; empty where nobody tells."""

    @property
    def signals(self) -> frozenset[Signal]: ...
    @property
    def capabilities(self) -> frozenset[Capability]: ...
    @property
    def context_tokens(self) -> int: ...
    @property
    def counts_exactly(self) -> bool:
        """Whether `count` gives the number of tokens, or only an upper bound of it."""

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        """Write as many continuations of the prompt as are asked for.

        Raises:
            PromptTooLong: prompt and `max_tokens` do not fit `context_tokens`.
        """

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        """The log-probability of each option directly after `prompt`."""

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        """The last layer's attention over `text` alone, in one forward pass."""

    def tokenize(self, text: str | Sequence[Span], *, at_start: bool = False) -> TokenIds:
        """Ids of `text` in the middle of a text or, with `at_start`, at the start of one; no BOS, no EOS.

        A string is plain text: control tokens are never among its ids. Trusted spans may yield them.
        """

    def decode(self, ids: TokenIds, *, at_start: bool = False) -> str:
        """The text of `ids` in the middle of a text or, with `at_start`, at the start of one.

        The two differ where a tokenizer puts a space in front of a text and takes it off again.
        """

    def count(self, prompt: Prompt) -> int:
        """The prompt's length in tokens, chat template included; see `counts_exactly`."""


@runtime_checkable
class ShowsPieces(Protocol):
    """A model that shows its vocabulary, which the readings of the authors' code compare as it is."""

    def pieces(self, ids: TokenIds) -> tuple[str, ...]:
        """The vocabulary's own strings of `ids`, space markers and byte codes as they are."""


class Retriever(Protocol):
    """A searchable collection of passages."""

    @property
    def name(self) -> str: ...
    @property
    def fingerprint(self) -> str:
        """What tells its hits from those of any other retriever; empty where nothing does."""

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        """At most `k` passages, best first; none for a query without a searchable word.

        Passages whose ids are in `exclude` are passed over, as if they were not there.
        """


class Reranker(Protocol):
    """Says how relevant passages are to a query, more exactly than what found them."""

    @property
    def name(self) -> str: ...
    @property
    def fingerprint(self) -> str:
        """What tells its scores from those of any other reranker; empty where nothing does."""
        ...

    async def score(self, query: str, passages: Sequence[Passage]) -> Sequence[float]:
        """A number for each passage; the higher, the more relevant."""
        ...


class Encoder(Protocol):
    """Turns texts into vectors of length 1."""

    @property
    def name(self) -> str:
        """Its specification, where it was loaded by one."""

    @property
    def fingerprint(self) -> str:
        """What tells its vectors from those of any other encoder."""

    async def embed(self, texts: Sequence[str], kind: TextKind = "text") -> NDArray[np.float32]:
        """Shape [len(texts), dimensions], also for no texts.

        Args:
            kind: some encoders read what is searched for, and what is found, otherwise than texts that are
                compared with each other.
        """


class Entailment(Protocol):
    """Judges whether a text bears out a claim."""

    @property
    def name(self) -> str: ...

    async def entails(self, premise: str, claim: str) -> bool:
        """Whether whoever believes `premise` must believe `claim`."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a method asks of its surroundings, checked before anything runs.

    Attributes:
        signals, capabilities: of the model that answers.
        one_of: it must have all the capabilities of at least one of these sets, too, if there are any.
        attention: the last layer's attention, of the model that answers or of one in the role attend.
        retriever: something to search.
        roles: further roles that are asked where a model is given for them.
        encoder: something that turns texts into vectors.
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
        """The roles that may be asked."""
        always: frozenset[Role] = frozenset(("answer", "attend") if self.attention else ("answer",))
        return self.roles | always

    @property
    def choice(self) -> str:
        """`one_of` in words."""
        return " or ".join(" with ".join(sorted(each)) for each in self.one_of)


@dataclass(frozen=True, slots=True)
class Run:
    """What a method has at hand while it answers one question. All of it is recorded."""

    models: Mapping[Role, Model]
    retriever: Retriever
    trace: Trace
    seed: int = 0
    encoder: Encoder | None = None

    @property
    def model(self) -> Model:
        """The model that answers."""
        return self.models["answer"]


@runtime_checkable
class Method(Protocol):
    """An algorithm for ONE question. A frozen dataclass whose fields are its parameters."""

    @property
    def needs(self) -> Needs: ...

    async def answer(self, question: Question, run: Run) -> Answer: ...


@runtime_checkable
class ChecksModels(Protocol):
    """A method whose demands depend on more than what models declare, such as the tokens they know."""

    def check_models(self, models: Mapping[Role, Model]) -> None:
        """Looks at the models before anything runs.

        Raises:
            MissingAbility: one lacks what the method, set as it is, asks of it; says what would do.
        """


class WrappedModel:
    """A `Model` over another one: what a wrapper does not change is the other's own."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name, self.precision, self.count = model.name, model.precision, model.count
        self.tokenize, self.decode = model.tokenize, model.decode
        self.capabilities, self.context_tokens = model.capabilities, model.context_tokens
        self.counts_exactly = model.counts_exactly
        if isinstance(model, ShowsPieces):
            self.pieces = model.pieces

    @property
    def signals(self) -> frozenset[Signal]:
        """What the other gives by now: a server may turn out to refuse a signal while it is asked."""
        return self._model.signals

    @property
    def fingerprint(self) -> str:
        return self._model.fingerprint

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        return await self._model.generate(request)

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        return await self._model.score(prompt, options)

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        return await self._model.attend(text, bos=bos)


class WrappedRetriever:
    """A `Retriever` over another one."""

    def __init__(self, retriever: Retriever) -> None:
        self._retriever, self.name = retriever, retriever.name

    @property
    def fingerprint(self) -> str:
        return self._retriever.fingerprint

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        return await self._retriever.search(query, k, exclude=exclude)
