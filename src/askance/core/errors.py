"""The exceptions that askance raises on purpose.

    AskanceError                 exit code 1
    ├── InputError               exit code 2: the user's input can't be used
    │   ├── UnknownName          an unknown method, model, parameter …; suggests the nearest name
    │   ├── ParameterError       a parameter of the wrong type or out of range
    │   ├── ThresholdError       a threshold relative to no usable calibration
    │   ├── ConfigError          an unreadable configuration, or one of a newer version
    │   ├── PresetError          a preset that can't be read or used
    │   ├── QuestionError        an empty or invalid question
    │   ├── DocumentError        an unreadable document or record
    │   │   └── NothingIndexed   exit code 1: no document among the files could be read
    │   ├── FilterError          an unreadable filter, or one of wrong types
    │   ├── DatasetError         an unreadable file of questions with answers
    │   ├── GridError            an unreadable grid of experiments
    │   ├── RunFolderError       a run folder that can't be read or written
    │   │   └── RunFolderBusy    a run that another process is writing; it can be read later
    │   ├── BadIndex             an index that is missing, empty, newer or built differently
    │   │   └── IndexBusy        an index that another process is writing; a retry may help
    │   ├── TraceFileError       an unreadable trace file
    │   ├── PromptsError         an unreadable or invalid prompt file
    │   ├── ModelSpecError       a model that can't be found or loaded
    │   ├── PromptTooLong        a prompt beyond the model's context window
    │   ├── BudgetTooSmall       an L_max without room for any answer
    │   ├── MissingAbility       a missing model, index or encoder that the method needs
    │   │   └── ModelLacks       an answering model without a required signal or capability
    │   └── MissingExtra         an optional package that is not installed; names the pip command
    ├── MachineFailure           the machine is out of memory or disk space
    ├── WorkersLost              every worker of an evaluation has ended
    ├── TooManyFailures          an evaluation stopped because too many of its questions failed
    ├── LimitReached             a question reached its budget
    ├── AllFailed                every one of several methods failed
    ├── ModelFailure             the model failed while answering
    │   ├── ModelUnavailable     a server is busy or unreachable; a retry may help
    │   └── RequestRefused       exit code 2: a server rejects the request
    ├── RetrieverFailure         the retriever failed while searching
    └── FunctionFailure          a gate, query mode or reading failed, or returned something else

Each message names the faulty value, its location and the remedy. An `InputError` is raised before anything is
computed or written, unless the problem can't be detected that early. `machine_failure` distinguishes failures
of the machine from failures of files and programs.
"""

import errno
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from askance.core.installing import install_line

if TYPE_CHECKING:
    from pydantic import ValidationError


class AskanceError(Exception):
    """The base class of all errors of askance.

    Attributes:
        exit_code: The exit code of the command line.
    """

    exit_code = 1

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to copy the error to another process, since many subclasses compose their message."""
        return BaseException.__new__, (type(self), *self.args), vars(self)


class InputError(AskanceError):
    """User input that can't be used.

    Attributes:
        setting: The key of the engine setting that is at fault, such as ``parameters.passages``; empty if
            the setting is unknown.
    """

    exit_code = 2
    setting = ""


@contextmanager
def about(setting: str) -> Iterator[None]:
    """Attach the name of a setting to any `InputError` in the block that does not name a setting yet."""
    try:
        yield
    except InputError as error:
        error.setting = error.setting or setting
        raise


def first_flaw(error: "ValidationError") -> str:
    """Return the first problem of a validation, as the end of "PLACE", such as ", field a.b: expected …"."""
    first = error.errors(include_url=False)[0]
    field = ".".join(map(str, first["loc"]))
    return f", field {field}: {first['msg']}" if field else f": {first['msg']}"


class UnknownName(InputError):
    """An unknown name. The message suggests the nearest valid name."""

    def __init__(
        self, kind: str, name: str, known: Iterable[str], *, place: str = "", remedy: str = ""
    ) -> None:
        """Compose the message.

        Args:
            kind: The kind of thing that the name should refer to, such as "method".
            place: A phrase that locates the name, such as "of method single".
            remedy: The advice to give; by default the message suggests the nearest valid name.
        """
        names = sorted(known)
        folded = {known_name.lower(): known_name for known_name in reversed(names)}
        near = get_close_matches(name.lower(), folded, n=1, cutoff=0.5)
        nearest = f"did you mean {folded[near[0]]!r}?" if near else "there is none with a similar name."
        where = f" {place}" if place else ""
        listing = f" Known: {', '.join(names)}." if names else ""
        super().__init__(f"unknown {kind} {name!r:.99}{where}: {remedy or nearest}{listing}")


class ParameterError(InputError):
    """A parameter of the wrong type or out of range."""


class ThresholdError(InputError):
    """A threshold that is relative to no usable calibration.

    Attributes:
        brief: The message for clients of a server, without its files and models.
    """

    brief = "no calibration of this server's model is kept: give a number."


class ConfigError(InputError):
    """A configuration that can't be read, or that a newer version wrote."""


class PresetError(InputError):
    """A preset that can't be read, or whose parameters can't be used."""


class QuestionError(InputError):
    """A question that is empty or not valid Unicode."""


class DocumentError(InputError):
    """A document or record that can't be read. The message names the file and line."""


class NothingIndexed(DocumentError):
    """No file that was given holds a document that can be read."""

    exit_code = 1


class FilterError(InputError):
    """A filter that can't be read, or that compares a field with a value of the wrong type."""


class DatasetError(InputError):
    """A file of questions with answers that can't be read. The message names the file, record and field."""


class GridError(InputError):
    """A grid of experiments that can't be read. The message names the key."""


class RunFolderError(InputError):
    """The run folder of an evaluation that can't be read, written or resumed."""


class RunFolderBusy(RunFolderError):
    """A run folder that another process is writing, so that the run can be read or continued later."""


class BadIndex(InputError):
    """An index that is missing, empty, written by a newer version, or built differently."""


class IndexBusy(BadIndex):
    """An index that another process is writing, so that the call may succeed later."""


class TraceFileError(InputError):
    """A trace file that can't be read."""


class PromptsError(InputError):
    """A prompt file that can't be read or used. The message names the file and key."""


class ModelSpecError(InputError):
    """A model that can't be found or loaded.

    Attributes:
        status: The HTTP status with which a server refused the model, such as 404; 0 if no server refused it.
    """

    status = 0


class PromptTooLong(InputError):
    """A prompt that does not fit into the model's context window together with the new tokens."""

    def __init__(self, model: str, reason: str) -> None:
        super().__init__(
            f"the prompt and the new tokens do not fit into the context window of {model}: {reason}. "
            "Shorten the question, use fewer passages (--set passages=N) or fewer new tokens (--set "
            "max_tokens=N), or name a model with a longer window."
        )


class BudgetTooSmall(InputError):
    """A token budget L_max without room for a call that every answer needs."""


class MissingAbility(InputError):
    """A model, index or encoder that a method needs is missing or lacks a required ability."""


class ModelLacks(MissingAbility):
    """The answering model lacks a signal or capability that a method needs.

    Attributes:
        what: A sentence without a full stop that names the method, its needs and the model.
    """

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}: {remedy}.")
        self.what, self.remedy = what, remedy


class MissingExtra(InputError):
    """An optional package is not installed. The message gives the command that installs the package."""

    def __init__(self, package: str, extra: str, what: str) -> None:
        super().__init__(
            f"{what} needs the package {package!r}, which is not installed: {install_line(extra, package)}"
        )


class MachineFailure(AskanceError):
    """The machine is out of memory or disk space."""


class WorkersLost(AskanceError):
    """Every worker of an evaluation has ended. Finished questions are kept."""


LASTING = (ModelSpecError, MissingAbility, WorkersLost)
"""Errors that every further question would raise as well, such as a refused API key."""


class TooManyFailures(AskanceError):
    """An evaluation stopped because too many of its questions failed. Finished questions are kept."""


class LimitReached(AskanceError):
    """A question used up its budget of tokens, calls or seconds."""


class AllFailed(AskanceError):
    """Every one of several methods failed on the same question. The message lists their errors."""


class ModelFailure(AskanceError):
    """The model failed while answering."""


class ModelUnavailable(ModelFailure):
    """A model's server is busy or unreachable.

    Attributes:
        after_seconds: The wait that the server asks for before a retry, if any.
        status: The HTTP status of the server's response; 0 if there was none.
    """

    def __init__(self, message: str, after_seconds: float | None = None, status: int = 0) -> None:
        super().__init__(message)
        self.after_seconds, self.status = after_seconds, status


class RequestRefused(ModelFailure):
    """A model's server rejects a request because of an option, an endpoint or the prompt."""

    exit_code = 2

    def __init__(self, message: str, server_message: str = "") -> None:
        super().__init__(message)
        self.server_message = server_message


class RetrieverFailure(AskanceError):
    """The retriever failed while searching."""


class FunctionFailure(AskanceError):
    """A function that a parameter names failed, or returned something other than what it should."""


_MEMORY = re.compile(
    r"out of memory|not enough memory|bad_alloc|"
    r"(?:cannot|can't|unable to|failed to) (?:allocate|mmap|map segment)",
    re.IGNORECASE,
)
_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def machine_failure(error: BaseException | None) -> MachineFailure | None:
    """Return the machine failure that caused an error, or None if something else caused it."""
    first = error
    while error is not None:
        if isinstance(error, MachineFailure):
            return error
        if is_memory(error):
            reason = str(error).strip().partition("\n")[0].rstrip(".")
            return MachineFailure(
                f"there is not enough memory ({reason or type(error).__name__}): use a smaller model, ask "
                "fewer questions at a time (--in-flight N), or allow more memory (ulimit -v, the container)."
            )
        if isinstance(error, OSError) and error.errno in _ROOM:
            target = error.filename or "the output"
            message = f"can't write {target}: {error.strerror}. Free some space, or write elsewhere."
            return MachineFailure(str(first) if isinstance(first, AskanceError) else message)
        error = error.__cause__
    return None


def is_memory(error: BaseException) -> bool:
    """Return whether an error means that memory ran out.

    If only the message indicates a lack of memory, the error must also have a type that libraries raise in
    that case. Without this condition, a file name or the message of a validator (which raises a subclass of
    ValueError) could match.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno == errno.ENOMEM
    in_words = isinstance(error, RuntimeError | ImportError | OSError) or type(error) is ValueError
    return isinstance(error, MemoryError) or (in_words and bool(_MEMORY.search(str(error))))
