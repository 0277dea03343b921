"""askance: retrieval-augmented generation that decides when to search, what to ask and what to believe.

    import askance

    engine = askance.open_engine(index="my-index", method="flare")
    result = engine.ask("Which river flows through the city where the composer was born?")
    print(result)
    print(result.trace.decisions)

To make an engine: `open_engine`, `EngineConfig`, `read_config`, `Budget`. To ask: `Engine`, `Conversation`,
`Question`, `QuestionRewriter`. What comes back: `Result`, `Answer`, `Citation`, `Passage`, `Usage`, `Trace`.
To write parts: `implements`, `Method` with `Parameters`, `Retriever`, `Reranker`, `Encoder`, `Model`,
`PairScorer`, `Entailment`, and the records that they take and return. Errors: `AskanceError`, `InputError`.

The public names are declared in `__init__.pyi`. Each name is loaded on first use, so importing the package
is cheap.
"""

import re
from importlib import import_module
from typing import Any

from askance.core.version import VERSION

__version__ = VERSION
with open(f"{__file__}i", encoding="utf-8") as _stub:  # noqa: PTH123 - importing pathlib takes longer than all of this
    _DECLARED = _stub.read()
_HOMES = {name: home for home, name in re.findall(r"^from (\S+) import (\w+) as", _DECLARED, re.MULTILINE)}
__all__ = sorted(("__version__", *_HOMES))


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'askance' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
