"""askance: retrieval-augmented generation that decides when to search, what to ask and what to believe.

    import askance

    engine = askance.open_engine(index="my-index", method="flare")
    result = engine.ask("Which river flows through the city where the composer was born?")
    print(result.answer.text)
    print(result.trace.decisions)

Names are loaded on first use, so that importing this costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from askance.core.version import VERSION as __version__

if TYPE_CHECKING:
    from askance.ask import Result
    from askance.config import EngineConfig, open_engine
    from askance.config_sources import read_config
    from askance.core.errors import AskanceError, InputError
    from askance.core.types import Answer, Demo, Passage, Question
    from askance.engine import Engine
    from askance.runtime.limit import Budget

_HOMES = {
    "Answer": "core.types",
    "AskanceError": "core.errors",
    "Budget": "runtime.limit",
    "Demo": "core.types",
    "Engine": "engine",
    "EngineConfig": "config",
    "InputError": "core.errors",
    "Passage": "core.types",
    "Question": "core.types",
    "Result": "ask",
    "open_engine": "config",
    "read_config": "config_sources",
}
__all__ = [
    "Answer",
    "AskanceError",
    "Budget",
    "Demo",
    "Engine",
    "EngineConfig",
    "InputError",
    "Passage",
    "Question",
    "Result",
    "__version__",
    "open_engine",
    "read_config",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'askance' has no attribute {name!r}")
    return getattr(import_module(f"askance.{_HOMES[name]}"), name)
