"""What a server can do, as the specification of a model declares it. Nothing is guessed."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Literal

from askance.core.errors import ParameterError, UnknownName
from askance.core.parameters import Parameters, parameter, parse_parameters
from askance.core.types import Capability, Signal

Tokenizer = Literal["none", "vllm", "llama.cpp", "llama-cpp-python"]


@dataclass(frozen=True, slots=True)
class ServerOptions(Parameters):
    """What follows the ``?`` of a specification. The defaults are what every server can."""

    owner: ClassVar[str] = "a model behind a server"

    chat: bool = parameter(True, "there is the endpoint chat/completions")
    completions: bool = parameter(False, "there is the endpoint completions, which takes raw prompts")
    continuation: Literal["0", "1", "final_message"] = parameter(
        "0",
        "chat goes on from the beginning of an answer: 1 where a last message of the assistant is enough, or "
        "where vLLM's continue_final_message says so",
    )
    score: bool = parameter(
        False, "completions tells log-probabilities of its prompt (echo), and so of options; needs chat=0"
    )
    logprobs: bool = parameter(False, "there are log-probabilities of the tokens written")
    top_logprobs: int = parameter(0, "so many alternatives to each token are told, too", at_least=0)
    top_k: bool = parameter(False, "top_k is understood")
    neutral: bool = parameter(
        False,
        "repeat_penalty, min_p and top_k have values of their own unless they are set: they are set to such "
        "as change nothing",
    )
    usage: bool = parameter(True, "stream_options is understood, by which usage is told with a stream")
    running_usage: bool = parameter(False, "usage is told with each piece, so that a cut text has it, too")
    seed: bool = parameter(True, "seed is understood")
    completion_tokens: bool = parameter(False, "chat knows max_completion_tokens in place of max_tokens")
    tokenize: Tokenizer = parameter("none", "whose way of counting tokens there is")
    context: int = parameter(32_768, "tokens of the context window", at_least=2)
    in_flight: int = parameter(64, "most requests at a time", at_least=1)
    timeout: float = parameter(600.0, "most seconds of a request", at_least=0.001)
    attempts: int = parameter(4, "how often a busy server is asked", at_least=1)

    @property
    def signals(self) -> frozenset[Signal]:
        """Entropy is a lower bound from the alternatives; see `reading`."""
        if self.top_logprobs:
            return frozenset({"logprob", "top_logprobs", "entropy"})
        return frozenset({"logprob"} if self.logprobs else ())

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Raw prompts are gone on from anyway; either kind of prompt may ask for that."""
        declared: dict[Capability, bool] = {
            "chat": self.chat,
            "raw": self.completions,
            "score": self.score,
            "continuation": self.continuation != "0" or not self.chat,
        }
        return frozenset(name for name, is_there in declared.items() if is_there)

    @property
    def shaping(self) -> dict[str, Any]:
        """Those that answers depend on."""
        return {name: value for name, value in asdict(self).items() if name not in _TERMS}


_TERMS = {"server", "context", "in_flight", "timeout", "attempts"}
"""Options that say nothing of what a server can do."""
_ENGINE = {"completions": "1", "top_logprobs": "20", "top_k": "1"}
_CONTINUING = {**_ENGINE, "continuation": "final_message"}
SERVERS: dict[str, dict[str, str]] = {
    "openai": {"completion_tokens": "1"},
    "vllm": {**_CONTINUING, "running_usage": "1", "tokenize": "vllm"},
    "ollama": {"continuation": "1", "top_logprobs": "20", "context": "4096"},
    "lmstudio": {"completions": "1", "top_k": "1", "neutral": "1"},
    "litellm": {"chat": "1"},
    "sglang": {**_CONTINUING, "running_usage": "1"},
    "llama.cpp": {**_CONTINUING, "neutral": "1", "tokenize": "llama.cpp"},
    "llama-cpp-python": {
        **_ENGINE,
        "top_logprobs": "5",
        "neutral": "1",
        "tokenize": "llama-cpp-python",
        "context": "2048",
        "in_flight": "1",
    },
}
"""What servers can do in their usual set-up, by `?server=`; single options after it count more."""

AUTO, ANEW = "auto", "anew"
"""Two names in place of a server's: find out what it can do unless that is known, and find it out anew."""
BOLDEST = {
    "chat": "chat=1",
    "raw": "completions=1",
    "continuation": "continuation=1",
    "score": "chat=0&completions=1&score=1",
    "logprob": "logprobs=1",
    "top_logprobs": "top_logprobs=5",
    "entropy": "top_logprobs=5",
}
"""What declares an ability that a server may have."""

OPTION_NAMES = ("server", *(field.name for field in fields(ServerOptions)))


def is_probed(settings: Mapping[str, str]) -> bool:
    """Whether a server is to be asked what it can do: unless it is named, or options declare that."""
    named = settings.get("server", "" if settings.keys() - _TERMS else AUTO)
    return named in (AUTO, ANEW)


def trying(settings: Mapping[str, str]) -> dict[str, str]:
    """The same to find out whether they hold: a server is asked once, and anew."""
    return {**settings, "attempts": "1", **({"server": ANEW} if is_probed(settings) else {})}


def read_options(settings: Mapping[str, str]) -> ServerOptions:
    """The options of a specification. Where a server is probed, what it can do is not among them.

    Raises:
        UnknownName: no such server or option.
        ParameterError: a value of the wrong type or out of range, or options that contradict each other.
    """
    given = dict(settings)
    named = given.pop("server", AUTO)
    if named not in (*SERVERS, AUTO, ANEW):
        raise UnknownName("server", named, (*SERVERS, AUTO, ANEW))
    options = ServerOptions(**parse_parameters(ServerOptions, {**SERVERS.get(named, {}), **given}))
    if not options.chat and not options.completions:
        raise ParameterError("chat=0 and no completions=1: declare at least one endpoint of the server.")
    if options.score and (options.chat or not options.completions):
        raise ParameterError(
            "score=1 needs chat=0 and completions=1: options are scored behind raw prompts alone, and where "
            "chats are taken, methods have them scored behind chats."
        )
    return options
