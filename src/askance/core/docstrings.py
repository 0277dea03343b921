"""What docstrings say of arguments and attributes, which help texts are made of."""

import inspect
import re


def described(docstring: str | None, section: str) -> dict[str, str]:
    """The entries of a section of a docstring, such as "Args", by name; each as one line."""
    told = inspect.cleandoc(docstring or "").partition(f"\n\n{section}:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^    (\w+): (.*(?:\n     .*)*)", told, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}
