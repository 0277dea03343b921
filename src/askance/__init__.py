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

from askance.core.version import VERSION

if TYPE_CHECKING:
    from askance.ask import Engine as Engine
    from askance.ask import Result as Result
    from askance.config import EngineConfig as EngineConfig
    from askance.config import open_engine as open_engine
    from askance.config_sources import read_config as read_config
    from askance.core.errors import AskanceError as AskanceError
    from askance.core.errors import InputError as InputError
    from askance.core.knobs import Knobs as Knobs
    from askance.core.knobs import knob as knob
    from askance.core.ports import Encoder as Encoder
    from askance.core.ports import Entailment as Entailment
    from askance.core.ports import Method as Method
    from askance.core.ports import Model as Model
    from askance.core.ports import Needs as Needs
    from askance.core.ports import Reranker as Reranker
    from askance.core.ports import Retriever as Retriever
    from askance.core.ports import Run as Run
    from askance.core.trace import Trace as Trace
    from askance.core.types import Answer as Answer
    from askance.core.types import Attention as Attention
    from askance.core.types import Chat as Chat
    from askance.core.types import Citation as Citation
    from askance.core.types import Demo as Demo
    from askance.core.types import GenerateRequest as GenerateRequest
    from askance.core.types import Generation as Generation
    from askance.core.types import Hit as Hit
    from askance.core.types import Passage as Passage
    from askance.core.types import Question as Question
    from askance.core.types import Raw as Raw
    from askance.core.types import Sampling as Sampling
    from askance.core.types import Scored as Scored
    from askance.core.types import Span as Span
    from askance.core.types import Token as Token
    from askance.core.types import Turn as Turn
    from askance.core.types import Usage as Usage
    from askance.core.types import Want as Want
    from askance.eval.datasets import Example as Example
    from askance.runtime.session import Budget as Budget

__version__ = VERSION
_NAMES = {
    "ask": "Engine Result",
    "config": "EngineConfig open_engine",
    "config_sources": "read_config",
    "core.errors": "AskanceError InputError",
    "core.knobs": "Knobs knob",
    "core.ports": "Encoder Entailment Method Model Needs Reranker Retriever Run",
    "core.trace": "Trace",
    "core.types": "Answer Attention Chat Citation Demo GenerateRequest Generation Hit Passage Question Raw "
    "Sampling Scored Span Token Turn Usage Want",
    "eval.datasets": "Example",
    "runtime.session": "Budget",
}
"""What is public, by the module that has it."""
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(("__version__", *_HOMES))


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'askance' has no attribute {name!r}")
    return getattr(import_module(f"askance.{_HOMES[name]}"), name)
