"""Names in data: a file that somebody else may have written can only name what is built into askance.

A trace, the settings of a run, a preset, the manifest of an index, the note of a trained reader and an
`askance.toml` in the working folder are data. Plug-ins and ``module:Class`` run code, so only the user names
them: by an option, in the environment, in Python, in a file given with ``--config``, in the user's own
`askance.toml`, or by trusting a file with ``--trust-config``.
"""

from typing import Any

from askance.configuration.catalogue import MODEL_KINDS
from askance.configuration.prompts import AIRRAG_PROMPT_SETS, PROMPT_SETS
from askance.core.errors import ConfigError, InputError
from askance.core.extensions import names_code
from askance.retrieval.reranking import RERANKERS, split_reranker

KINDS = ("bm25", "dense", "hybrid")


def runs_code(setting: str, spec: str) -> bool:
    """Return whether a specification names a plug-in, ``module:Class``, or code of another library.

    Nothing is imported.

    Args:
        setting: The name of the setting or, for a parameter, the parameter's name.
    """
    name = spec.partition("?")[0]
    kind, _, _place = name.partition(":")
    match setting:
        case "models" | "encoder":
            group = "encoders" if setting == "encoder" else setting
            return kind == "langchain" or (kind not in MODEL_KINDS and names_code(group, name))
        case "method":
            return names_code("methods", spec)
        case "retriever":
            own, reranker = split_reranker(spec)
            kind = own.partition(":")[0]
            is_foreign = kind == "langchain" or (
                kind not in KINDS and names_code("retrievers", own.partition("?")[0])
            )
            return is_foreign or runs_code("rerank", reranker)
        case "rerank":
            if kind == "model":
                return runs_code("models", spec.removeprefix("model:"))
            return kind not in RERANKERS and names_code("rerankers", name)
        case "prompts":
            return spec not in PROMPT_SETS | AIRRAG_PROMPT_SETS and names_code("prompts", spec)
        case "linguistics":
            return kind == "spacy"  # a pipeline is a package, which is imported
        case _:
            return False


def check_runs_no_code(setting: str, spec: Any, remedy: str, error: type[InputError] = ConfigError) -> None:
    """Raise `error` if a value in data names code (see `runs_code`).

    Args:
        remedy: The end of the message, which says what to type if this code is meant to run.
    """
    if isinstance(spec, str) and runs_code(setting, spec):
        raise error(
            f"{setting}={spec!r} names code that is not part of askance, and a file that others may have "
            f"written can't make it run. {remedy}"
        )
