"""Requests for chat completions: their form, and the checks that turn one into a question with settings."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr, TypeAdapter, ValidationError

from askance.conversation import read_messages
from askance.core.errors import UnknownName
from askance.core.safe_text import whole_characters
from askance.core.types import Question
from askance.serve.citations import without_sources
from askance.serve.errors import bad_request
from askance.serve.limits import QUESTION_CHARACTERS

_NO_TOOLS, _UNSUPPORTED = "this server calls no tools", "it is unsupported"
_SAYS_NOTHING = "it says nothing about the answer"
_IN_TRACE = "the trace has the log-probabilities of every call"
_IGNORED: Mapping[str, tuple[Any, ...]] = {
    "stop": (str | list[str], "a method decides where its answer ends", [], ""),
    "presence_penalty": (float, _UNSUPPORTED, 0),
    "frequency_penalty": (float, _UNSUPPORTED, 0),
    "logit_bias": (dict[str, float], _UNSUPPORTED, {}),
    "tools": (list[dict[str, Any]], _NO_TOOLS, []),
    "functions": (list[dict[str, Any]], _NO_TOOLS, []),
    "parallel_tool_calls": (bool, _NO_TOOLS, True),
    "reasoning_effort": (str, _UNSUPPORTED),
    "verbosity": (str, _UNSUPPORTED),
    "prediction": (dict[str, Any], _UNSUPPORTED),
    "web_search_options": (dict[str, Any], _UNSUPPORTED),
    "service_tier": (str, _UNSUPPORTED, "auto", "default"),
    "store": (bool, "no answer is stored beyond its trace", False),
    "metadata": (dict[str, str], _SAYS_NOTHING, {}),
    "user": (str, _SAYS_NOTHING, ""),
    "safety_identifier": (str, _SAYS_NOTHING),
    "prompt_cache_key": (str, _SAYS_NOTHING),
    "prompt_cache_retention": (str, _SAYS_NOTHING),
}
"""Fields of OpenAI's API that change nothing here, each with its type, the reason and the values, besides
None, that ask for what happens anyway. Many clients send them unasked."""
_REFUSED: Mapping[str, tuple[Any, ...]] = {
    "n": ("a question has one answer", 1),
    "logprobs": (_IN_TRACE, False),
    "top_logprobs": (_IN_TRACE, 0),
    "response_format": ("answers are text", {"type": "text"}),
    "modalities": (_UNSUPPORTED, ["text"]),
    "audio": (_UNSUPPORTED,),
    "tool_choice": (_NO_TOOLS, "none", "auto"),
    "function_call": (_NO_TOOLS, "none", "auto"),
}
"""Fields that ask for a response of another form, which the client would wait for in vain, each with the
reason and the values, besides None, that ask for the form that the response has."""
_UNSAMPLED = {"temperature": 0, "top_p": 1}
"""The values that ask for no sampling, so that they describe every method."""


class Extensible(BaseModel):
    """A part of a request that may have fields which are not declared here."""

    model_config = ConfigDict(extra="allow")


class ContentPart(Extensible):
    """A part of a message. Only text is supported."""

    type: str
    text: str | None = None


class Message(Extensible):
    """A message of the conversation."""

    role: str
    content: str | list[ContentPart] | None = None


class StreamOptions(Extensible):
    """The options of a stream."""

    include_usage: bool = False


FilterText = Annotated[StrictStr, Field(min_length=1, json_schema_extra={"format": "filter"})]
"""A filter of documents (see `retrieval.filters`)."""


class AskanceOptions(Extensible):
    """The part of a request that OpenAI does not know. All other keys are parameters of the method.

    Attributes:
        events: Whether a stream also has the events of the trace.
        where: A filter of the documents to search.
    """

    events: StrictBool = False
    where: FilterText | None = None


class ChatRequest(Extensible):
    """A request for a chat completion, in OpenAI's form.

    Attributes:
        model: The method, as ``askance/NAME``; by default the method of the server.
        messages: The conversation; its last message is the question.
    """

    model: str = ""
    messages: list[Message] = Field(min_length=1)
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    askance: AskanceOptions | None = None


def read_conversation(messages: Sequence[Message]) -> tuple[Question, list[str]]:
    """Return the question of a conversation with its history, and sentences about what is not used.

    Raises:
        ApiError: 400. A role or a kind of content is unsupported, the last message is not the user's, or the
            messages are too long. The message names the place.
    """
    read, num_characters = list[tuple[str, str]](), 0
    for number, message in enumerate(messages):
        place, role, text = f"messages[{number}]", message.role, ""
        if role in ("user", "assistant"):
            text = _text(message, place)
        elif role not in ("system", "developer"):
            is_tool = role in ("tool", "function")
            why = _NO_TOOLS if is_tool else "expected user, assistant, system or developer"
            raise bad_request(f"{place}.role={role[:50]!r}: {why}.", f"{place}.role")
        num_characters += len(text)
        if num_characters > QUESTION_CHARACTERS:
            raise bad_request(
                f"{place}: the conversation has more than {QUESTION_CHARACTERS:,} characters: ask a shorter "
                "question, or start a new conversation.",
                place,
                "question_too_long",
            )
        read.append((role, without_sources(text) if role == "assistant" else text))
    question, ignored = read_messages(read)
    if not question.text.strip():
        place = f"messages[{len(messages) - 1}]"
        raise bad_request(f"{place}: the last message must be a question of the role user.", place)
    return question, ignored


def _text(message: Message, place: str) -> str:
    if getattr(message, "tool_calls", None) or getattr(message, "function_call", None):
        raise bad_request(f"{place}.tool_calls: {_NO_TOOLS}.", f"{place}.tool_calls")
    if message.content is None:
        raise bad_request(f"{place}.content is missing: give a text.", f"{place}.content")
    if isinstance(message.content, str):
        return whole_characters(message.content)
    for number, part in enumerate(message.content):
        if part.type != "text" or part.text is None:
            at = f"{place}.content[{number}]"
            raise bad_request(f"{at}: parts of the type {part.type[:50]!r} are unsupported, give text.", at)
    return whole_characters("\n".join(part.text or "" for part in message.content))


def read_parameters(
    request: ChatRequest, known: Sequence[str], method: str, *, is_strict: bool
) -> tuple[dict[str, Any], list[str]]:
    """Return the parameters of the method, and sentences about fields that change nothing.

    ``max_tokens``, ``temperature`` and ``top_p`` are parameters of the methods that have them.

    Args:
        known: The names of the method's parameters.
        method: The name of the method, for messages.
        is_strict: Whether to refuse fields that change nothing.

    Raises:
        UnknownName: The request has an unknown field.
        ApiError: 400. A field has a value of the wrong type, asks for a response of another form or, with
            `is_strict`, changes nothing.
    """
    ignored = dict[str, str]()
    for name, value in (request.model_extra or {}).items():
        if name in _IGNORED:
            kind, why, *neutral = _IGNORED[name]
            if value is not None and _checked(name, kind, value) not in neutral:
                ignored[name] = f"{name}: {why}"
        elif name in _REFUSED:
            why, *neutral = _REFUSED[name]
            if value is not None and value not in neutral:
                raise bad_request(f"{name}: {why}; leave it out.", name, "unsupported")
        else:
            fields = [*ChatRequest.model_fields, *_IGNORED, *_REFUSED]
            raise UnknownName("field", name, fields, remedy="parameters of the method go under 'askance'.")
    parameters = dict(request.askance.model_extra or {}) if request.askance else {}
    limit = request.max_completion_tokens or request.max_tokens
    given = {"max_tokens": limit, "temperature": request.temperature, "top_p": request.top_p}
    for name, value in given.items():
        if value is None or name in parameters:
            continue
        if name in known:
            parameters[name] = value
        elif value != _UNSAMPLED.get(name):
            ignored[name] = f"{name}={value:g}: the method {method} fixes it"
    if is_strict and ignored:
        name, why = next(iter(ignored.items()))
        raise bad_request(f"{why}; leave it out.", name, "unsupported")
    return parameters, [*ignored.values()]


def _checked(name: str, kind: Any, value: Any) -> Any:
    try:
        return TypeAdapter(kind).validate_python(value, strict=True)
    except ValidationError as error:
        flaw = error.errors(include_url=False)[0]["msg"]
        raise bad_request(f"{f'{name}={value!r}'[:80]}: {flaw}.", name) from error
