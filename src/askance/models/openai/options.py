"""The abilities of a server, as the specification of a model declares them."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, ClassVar, Literal

from askance.core.errors import ParameterError, UnknownName
from askance.core.parameters import Parameters, checked_dataclass, parameter, parse_parameters
from askance.core.types import Capability, Signal
from askance.inference.stopping import MAX_THOUGHTS

Tokenizer = Literal["none", "vllm", "llama.cpp", "llama-cpp-python"]


@checked_dataclass()
class ServerOptions(Parameters):
    """The options after the ``?`` of a specification. The defaults suit every server."""

    owner: ClassVar[str] = "a model on a server"

    chat: bool = parameter(True, "the server has the endpoint chat/completions")
    completions: bool = parameter(False, "the server has the endpoint completions, which takes raw prompts")
    continuation: Literal["0", "1", "final_message"] = parameter(
        "0",
        "chat can continue the beginning of an answer: 1 if a last message of the assistant is enough, "
        "final_message if the server needs vLLM's continue_final_message",
    )
    score: bool = parameter(
        False, "completions returns log-probabilities of its prompt (echo), to score options; needs chat=0"
    )
    logprobs: bool = parameter(False, "the server returns log-probabilities of generated tokens")
    top_logprobs: int = parameter(0, "the number of alternatives returned for each token", at_least=0)
    top_k: bool = parameter(False, "the server supports top_k")
    neutral: bool = parameter(
        False,
        "the server applies repeat_penalty, min_p and top_k by default: requests set them to values without "
        "effect",
    )
    usage: bool = parameter(True, "the server supports stream_options, which adds the usage to a stream")
    running_usage: bool = parameter(False, "the server adds the usage to each event, also before a cut")
    seed: bool = parameter(True, "the server supports seed")
    completion_tokens: bool = parameter(False, "chat takes max_completion_tokens instead of max_tokens")
    tokenize: Tokenizer = parameter("none", "the server whose endpoint for counting tokens is used")
    context: int = parameter(32_768, "the context window in tokens", at_least=2)
    thoughts: Literal["auto", "none", "tags", "open"] = parameter(
        "auto",
        "how the model thinks before it answers: none, tags (or separate fields), open (the chat template "
        "opens a thought), or auto: unknown, so no text is shown before its end",
    )
    max_thoughts: int = parameter(
        MAX_THOUGHTS, "the maximum number of tokens of thoughts, besides those of the answer", at_least=0
    )
    enable_thinking: Literal["", "0", "1"] = parameter(
        "", "1 or 0 turns thinking on or off (chat_template_kwargs), if the chat template can"
    )
    reasoning_effort: Literal["", "none", "minimal", "low", "medium", "high", "xhigh"] = parameter(
        "", "how much the model thinks, if the server takes this"
    )
    in_flight: int = parameter(64, "the maximum number of concurrent requests", at_least=1)
    timeout: float = parameter(600.0, "the time limit of a request in seconds", at_least=0.001)
    attempts: int = parameter(4, "the maximum number of attempts while a server is busy", at_least=1)

    @property
    def signals(self) -> frozenset[Signal]:
        """The signals that the server returns. Entropy is a lower bound (see `streaming.min_entropy`)."""
        if self.top_logprobs:
            return frozenset({"logprob", "top_logprobs", "entropy"})
        return frozenset({"logprob"} if self.logprobs else ())

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The abilities of the server. Chats can be continued only if the option `continuation` says so."""
        declared: dict[Capability, bool] = {
            "chat": self.chat,
            "raw": self.completions,
            "score": self.score,
            "continuation": self.continuation != "0" or not self.chat,
        }
        return frozenset(name for name, is_declared in declared.items() if is_declared)

    @property
    def fingerprint_options(self) -> dict[str, Any]:
        """The options that answers depend on."""
        return {name: value for name, value in asdict(self).items() if name not in _RUN_OPTIONS}


_RUN_OPTIONS = {"server", "context", "in_flight", "timeout", "attempts"}
"""Options that declare no ability of a server."""
_ENGINE = {"completions": "1", "top_logprobs": "20", "top_k": "1"}
_CONTINUING = {**_ENGINE, "continuation": "final_message"}
SERVERS: dict[str, dict[str, str]] = {
    "openai": {"completion_tokens": "1", "thoughts": "none"},
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
"""The usual options of each kind of server, by the value of `?server=`. Explicit options override them."""

AUTO, ANEW = "auto", "anew"
"""Two values of `?server=` that probe the server: `auto` unless the cache has its options, `anew` always."""
ENABLING_OPTIONS = {
    "chat": "chat=1",
    "raw": "completions=1",
    "continuation": "continuation=1",
    "score": "chat=0&completions=1&score=1",
    "logprob": "logprobs=1",
    "top_logprobs": "top_logprobs=5",
    "entropy": "top_logprobs=5",
}
"""The options that declare each ability that a server may have."""

OPTION_NAMES = ("server", *(field.name for field in fields(ServerOptions)))


def is_probed(settings: Mapping[str, str]) -> bool:
    """Return whether to probe a server.

    A server is probed if the option `server` asks for it, or if there is neither this option nor an option
    that declares an ability.
    """
    server = settings.get("server", "" if settings.keys() - _RUN_OPTIONS else AUTO)
    return server in (AUTO, ANEW)


def options_for_check(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for a check of a model, without retries and without cached findings."""
    return {**settings, "attempts": "1", **({"server": ANEW} if is_probed(settings) else {})}


def read_options(settings: Mapping[str, str]) -> ServerOptions:
    """Parse the options of a specification.

    If the server is to be probed, the result does not include the abilities that the probe will find.

    Raises:
        UnknownName: A server or an option is unknown.
        ParameterError: A value has the wrong type or is out of range, or options contradict each other.
    """
    explicit = dict(settings)
    server = explicit.pop("server", AUTO)
    if server not in (*SERVERS, AUTO, ANEW):
        raise UnknownName("server", server, (*SERVERS, AUTO, ANEW))
    options = ServerOptions(**parse_parameters(ServerOptions, {**SERVERS.get(server, {}), **explicit}))
    if not options.chat and not options.completions:
        raise ParameterError("chat=0 without completions=1: declare at least one endpoint of the server.")
    if options.score and (options.chat or not options.completions):
        raise ParameterError(
            "score=1 needs chat=0 and completions=1: options are scored only after raw prompts, but methods "
            "score them after chats if chat is declared."
        )
    return options
