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
    from askance.ask import Engine, Result
    from askance.config import EngineConfig, open_engine
    from askance.config_sources import read_config
    from askance.core.errors import AskanceError, InputError
    from askance.core.knobs import Knobs, knob
    from askance.core.ports import Encoder, Entailment, Method, Model, Needs, Retriever, Run
    from askance.core.trace import Trace
    from askance.core.types import (
        Answer,
        Attention,
        Chat,
        Citation,
        Demo,
        GenerateRequest,
        Generation,
        Hit,
        Passage,
        Question,
        Raw,
        Sampling,
        Scored,
        Span,
        Token,
        Turn,
        Usage,
        Want,
    )
    from askance.eval.datasets import Example
    from askance.runtime.session import Budget

_HOMES = {
    "Answer": "core.types",
    "AskanceError": "core.errors",
    "Attention": "core.types",
    "Budget": "runtime.session",
    "Chat": "core.types",
    "Citation": "core.types",
    "Demo": "core.types",
    "Encoder": "core.ports",
    "Engine": "ask",
    "EngineConfig": "config",
    "Entailment": "core.ports",
    "Example": "eval.datasets",
    "GenerateRequest": "core.types",
    "Generation": "core.types",
    "Hit": "core.types",
    "InputError": "core.errors",
    "Knobs": "core.knobs",
    "Method": "core.ports",
    "Model": "core.ports",
    "Needs": "core.ports",
    "Passage": "core.types",
    "Question": "core.types",
    "Raw": "core.types",
    "Result": "ask",
    "Retriever": "core.ports",
    "Run": "core.ports",
    "Sampling": "core.types",
    "Scored": "core.types",
    "Span": "core.types",
    "Token": "core.types",
    "Trace": "core.trace",
    "Turn": "core.types",
    "Usage": "core.types",
    "Want": "core.types",
    "knob": "core.knobs",
    "open_engine": "config",
    "read_config": "config_sources",
}
__all__ = [
    "Answer",
    "AskanceError",
    "Attention",
    "Budget",
    "Chat",
    "Citation",
    "Demo",
    "Encoder",
    "Engine",
    "EngineConfig",
    "Entailment",
    "Example",
    "GenerateRequest",
    "Generation",
    "Hit",
    "InputError",
    "Knobs",
    "Method",
    "Model",
    "Needs",
    "Passage",
    "Question",
    "Raw",
    "Result",
    "Retriever",
    "Run",
    "Sampling",
    "Scored",
    "Span",
    "Token",
    "Trace",
    "Turn",
    "Usage",
    "Want",
    "__version__",
    "knob",
    "open_engine",
    "read_config",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'askance' has no attribute {name!r}")
    return getattr(import_module(f"askance.{_HOMES[name]}"), name)
