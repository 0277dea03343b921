"""Every error that askance raises on purpose.

    AskanceError                 exit code 1
    ├── InputError               exit code 2: what the user gave can't be used
    │   ├── UnknownName          no such method, model, parameter …; names the nearest
    │   ├── ParameterError            a parameter of the wrong type or out of range
    │   ├── ConfigError          a configuration that can't be read, or of a newer version
    │   ├── PresetError          a preset that can't be read, or does not know the method or profile
    │   ├── QuestionError        an empty or unusable question
    │   ├── DocumentError        a document or row that can't be read
    │   ├── DatasetError         questions with answers that can't be read
    │   ├── GridError            a file of cells to evaluate that can't be read
    │   ├── RunFolderError       the folder of an evaluation that can't be used or written
    │   ├── BadIndex             an index that is missing, empty, newer, or built otherwise
    │   ├── TraceFileError       a trace file that can't be read
    │   ├── PromptsError         a prompt file that can't be read or used
    │   ├── ModelSpecError       a model that can't be found or loaded
    │   ├── PromptTooLong        a prompt beyond the model's context window
    │   ├── BudgetTooSmall       an L_max without room for anything that could be an answer
    │   ├── MissingAbility       a model, index or encoder that a method needs is not there
    │   │   └── ModelLacks       the model that answers has not the signals or capabilities
    │   └── MissingExtra         an optional package is not installed; names the pip line
    ├── MachineFailure           no memory, or no room to write
    ├── TooManyFailures          an evaluation was stopped, since too many of its questions failed
    ├── TrainingFailed           a training stopped learning; names the step
    ├── LimitReached             a question has cost what it may cost
    ├── AllFailed                of several methods that were asked, none came to an answer
    ├── ModelFailure             the model broke while answering
    │   ├── ModelUnavailable     a server is busy or out of reach: it may help to try again
    │   └── RequestRefused       exit code 2: a server does not take what it is asked for
    └── RetrieverFailure         the retriever broke while searching

A message names the value, the place and the remedy. An `InputError` is raised
before anything is written or computed wherever that can be known. `machine_failure`
tells failures of the machine from those of files and programs.
"""

import errno
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from askance.core.installing import install_line


class AskanceError(Exception):
    """Root of the tree; `exit_code` is what the command line returns for it."""

    exit_code = 1


class InputError(AskanceError):
    """What the user gave can't be used.

    Attributes:
        setting: the key of the setting of an engine that it is about, such as ``parameters.passages``; empty
            where that is not known.
    """

    exit_code = 2
    setting = ""


@contextmanager
def about(setting: str) -> Iterator[None]:
    """Say of an `InputError` which setting it is about, unless that is known already."""
    try:
        yield
    except InputError as error:
        error.setting = error.setting or setting
        raise


class UnknownName(InputError):
    """A name that stands for nothing; the message offers the nearest valid one."""

    def __init__(
        self, kind: str, name: str, known: Iterable[str], *, place: str = "", remedy: str = ""
    ) -> None:
        """Compose the message.

        Args:
            known: the valid names.
            place: where the name was found.
            remedy: what to write instead; without one, the nearest valid name.
        """
        names = sorted(known)
        folded = {each.lower(): each for each in reversed(names)}
        near = get_close_matches(name.lower(), folded, n=1, cutoff=0.5)
        nearest = f"did you mean {folded[near[0]]!r}?" if near else "there is none with a similar name."
        remedy = remedy or nearest
        where = f" {place}" if place else ""
        listing = f" Known: {', '.join(names)}." if names else ""
        super().__init__(f"unknown {kind} {name!r}{where}: {remedy}{listing}")


class ParameterError(InputError):
    """A parameter of the wrong type or out of range."""


class ConfigError(InputError):
    """A configuration that can't be read, or of a newer version."""


class PresetError(InputError):
    """A preset that can't be read, or that does not know the method or its profile."""


class QuestionError(InputError):
    """An empty or unusable question."""


class DocumentError(InputError):
    """A document or row that can't be read; the message names file and line."""


class DatasetError(InputError):
    """A file of questions with answers that can't be read; the message names file, row and field."""


class GridError(InputError):
    """A file of cells to evaluate that can't be read; the message names the key."""


class RunFolderError(InputError):
    """The folder of an evaluation that can't be read, written or gone on with."""


class BadIndex(InputError):
    """An index that is missing, empty, newer than this version, or built in another way."""


class TraceFileError(InputError):
    """A trace file that can't be read."""


class PromptsError(InputError):
    """A prompt file that can't be read or used; the message names file and key."""


class ModelSpecError(InputError):
    """A model that can't be found or loaded.

    Attributes:
        status: with which a server refused it, such as 404; 0 where no server did.
    """

    status = 0


class PromptTooLong(InputError):
    """A prompt that does not fit the model's context window with room for the answer."""

    def __init__(self, model: str, *, prompt_tokens: int, max_tokens: int, context_tokens: int) -> None:
        super().__init__(
            f"the prompt has {prompt_tokens} tokens and {max_tokens} more were asked for, but {model} "
            f"has a context window of {context_tokens}: shorten the question, use fewer passages "
            "(--set passages=N) or fewer new tokens (--set max_tokens=N), or name a model with a longer "
            "window."
        )

    @classmethod
    def told(cls, model: str, reason: str) -> "PromptTooLong":
        """The same as a server tells it, which counts its tokens alone."""
        error = cls.__new__(cls)
        Exception.__init__(
            error,
            f"the prompt and what was to be written do not fit into the context window of {model}: {reason}. "
            "Shorten the question, use fewer passages (--set passages=N) or fewer new tokens (--set "
            "max_tokens=N).",
        )
        return error


class BudgetTooSmall(InputError):
    """L_max has no room for a call without which there is nothing to answer."""


class MissingAbility(InputError):
    """A model without a signal or capability that a method needs."""


class ModelLacks(MissingAbility):
    """The model that answers lacks what a method needs.

    Attributes:
        what: is lacking.
        remedy: what would help.
    """

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}: {remedy}.")
        self.what, self.remedy = what, remedy


class MissingExtra(InputError):
    """An optional package is not installed; the message names the command that installs its extra here."""

    def __init__(self, package: str, extra: str, what: str) -> None:
        super().__init__(
            f"{what} needs the package {package!r}, which is not installed: {install_line(extra, package)}"
        )


class MachineFailure(AskanceError):
    """The machine has no memory, or no room to write."""


LASTING = (ModelSpecError, MissingAbility)
"""Of a model, and every further question would meet them, too: a key that is refused, for example."""


class TooManyFailures(AskanceError):
    """An evaluation was stopped, since too many of its questions failed; what is finished is kept."""


class TrainingFailed(AskanceError):
    """A training stopped learning; what it had learned until its last checkpoint is kept."""


class LimitReached(AskanceError):
    """A question has cost what it may cost."""


class AllFailed(AskanceError):
    """Several methods were asked the same, and each of them failed; the message says how."""


class ModelFailure(AskanceError):
    """The model broke while answering."""


class ModelUnavailable(ModelFailure):
    """A model's server is busy or out of reach; `after_seconds` is when it asks to be tried again.

    `status` is what it answered; 0 where it did not.
    """

    def __init__(self, message: str, after_seconds: float | None = None, status: int = 0) -> None:
        super().__init__(message)
        self.after_seconds, self.status = after_seconds, status


class RequestRefused(ModelFailure):
    """A model's server does not take what it is asked for: an option, an endpoint, or one text.

    `told` is what the server itself says about it.
    """

    exit_code = 2

    def __init__(self, message: str, told: str = "") -> None:
        super().__init__(message)
        self.told = told


class RetrieverFailure(AskanceError):
    """The retriever broke while searching."""


_MEMORY = re.compile(
    r"out of memory|not enough memory|bad_alloc|"
    r"(?:cannot|can't|unable to|failed to) (?:allocate|mmap|map segment)",
    re.IGNORECASE,
)
_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def machine_failure(error: BaseException | None) -> MachineFailure | None:
    """What an error, or what it was raised from, says of the machine; None where it says nothing."""
    first = error
    while error is not None:
        if isinstance(error, MachineFailure):
            return error
        if is_memory(error):
            said = str(error).strip().partition("\n")[0].rstrip(".")
            return MachineFailure(
                f"there is not enough memory ({said or type(error).__name__}): use a smaller model, ask "
                "fewer questions at a time (--in-flight N), or allow more memory (ulimit -v, the container)."
            )
        if isinstance(error, OSError) and error.errno in _ROOM:
            where = error.filename or "what was to be shown"
            told = f"can't write {where}: {error.strerror}. Make room, or write elsewhere."
            return MachineFailure(str(first) if isinstance(first, AskanceError) else told)
        error = error.__cause__
    return None


def is_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out.

    Where it says so in words alone, it must be of a kind that libraries raise: names of files, and what a
    validator finds in them (a subclass of ValueError), may hold the same words.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno == errno.ENOMEM
    in_words = isinstance(error, RuntimeError | ImportError | OSError) or type(error) is ValueError
    return isinstance(error, MemoryError) or (in_words and bool(_MEMORY.search(str(error))))
