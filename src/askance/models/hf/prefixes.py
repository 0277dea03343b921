"""The prefixes that an encoder puts before queries, passages and other texts, as in its training.

The prompts in a model's own files come first. Most models of the E5 and BGE families were published without
prompts, so the prefixes of their authors' pages are listed here. Options of the specification replace both.
The name of the encoder has all prefixes that are not in the model's files, so an index stores them.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from askance.core.notes import note

_PROMPTS = {"query": "query", "passage": "document", "text": "text"}
"""The names of the prompts of sentence-transformers by the kind of text."""
_PASSAGE_PROMPTS = ("document", "passage", "corpus")
"""The names that a model's files use for the prompt of passages."""
_INSTRUCTION = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "
_BGE_INSTRUCTION = "Represent this sentence for searching relevant passages: "
_KNOWN = {
    r"e5-(small|base|large)(?!.*instruct)": {"query": "query: ", "passage": "passage: ", "text": "query: "},
    r"e5-(large|mistral-7b)-instruct": {"query": _INSTRUCTION},
    r"bge-(m3|.*noinstruct)": {},
    r"bge-(small|base|large)-en(?!.*icl)": {"query": _BGE_INSTRUCTION},
    r"bge-(small|base|large)-zh": {"query": "为这个句子生成表示以用于检索相关文章："},
}
"""The prefixes by a regular expression for the model's name, of which the first that matches counts (Wang et
al. 2022, arXiv 2212.03533; Xiao et al. 2023, arXiv 2309.07597; the models' pages on the hub)."""
_FAMILIES = re.compile(r"(?<![a-z0-9])(?:e5|bge)-")


def set_prefixes(module: Any, folder: str, chosen: Mapping[str, str]) -> str:
    """Set the prefixes of a model of sentence-transformers.

    Args:
        folder: The folder of the model, or its name on the hub.
        chosen: The prefixes by the kind of text, each of which may be "none"; empty for the defaults.

    Returns:
        The options that set the same prefixes again, such as ``?query=query: ``; empty if all of them are in
        the model's files.
    """
    prompts = module.prompts
    # sentence-transformers prefers its own empty prompt `document` to a `passage` in the files.
    prompts["document"] = next(filter(None, map(prompts.get, _PASSAGE_PROMPTS)), "")
    if not chosen and not prompts["document"] and not prompts.get("query"):
        chosen = _known_prefixes(folder)
    for kind, prefix in chosen.items():
        prompts[_PROMPTS[kind]] = "" if prefix == "none" else prefix
    if "text" in chosen:
        module.default_prompt_name = "text"
    listing = "&".join(f"{kind}={prefix}" for kind, prefix in chosen.items())
    return f"?{listing}" if listing else ""


def _known_prefixes(folder: str) -> dict[str, str]:
    """Return the prefixes of a model's family. If only the family is known, note that the model has none."""
    path = Path(folder)
    # In the cache of the hub, a folder is models--OWNER--NAME/snapshots/HASH.
    names = [path.parent.parent.name if path.parent.name == "snapshots" else path.name]
    config = path / "config.json"
    if config.is_file():
        names.append(str(json.loads(config.read_text(encoding="utf-8")).get("_name_or_path", "")))
    for name in (name.lower().rstrip("/") for name in names):
        for pattern, prefixes in _KNOWN.items():
            if re.search(f"(?<![a-z0-9]){pattern}", name):
                return prefixes
        if _FAMILIES.search(name):
            note(
                "encoder",
                f"the encoder {folder} seems to be of a family that was trained with prefixes, but its files "
                "have none: give those of its page, as in ?query=query: &passage=passage: , or ?query=none.",
            )
            break
    return {}
