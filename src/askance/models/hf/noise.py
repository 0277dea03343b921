"""What libraries say while they load: kept from the screen, and cut to one line in an error."""

import functools
import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from huggingface_hub.utils.tqdm import are_progress_bars_disabled, enable_progress_bars
from transformers.utils import logging as transformers_logging

_SLOW = ("GGUFReader", "get_tensor_name_map")
"""The parts of `gguf` that transformers asks for again and again."""
_lock = threading.Lock()


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the warnings and progress bars of transformers and the hub, except for bars of downloads."""
    hub_logger = logging.getLogger("huggingface_hub")
    hub_level = hub_logger.level
    verbosity, has_bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    has_download_bars = not are_progress_bars_disabled()
    hub_logger.setLevel(logging.CRITICAL)
    transformers_logging.set_verbosity(logging.CRITICAL)
    transformers_logging.disable_progress_bar()
    if has_download_bars:
        enable_progress_bars()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        hub_logger.setLevel(hub_level)
        transformers_logging.set_verbosity(verbosity)
        if has_bars:
            transformers_logging.enable_progress_bar()


@contextmanager
def reading_gguf() -> Iterator[None]:
    """Read GGUF files without a progress bar, and in less than half of the time: what transformers asks of
    the package `gguf` more than once is made only once.

    Its reader draws a bar with tqdm directly, which no setting turns off. It opens a file for the tokenizer,
    for the settings and for the weights, and makes the table of all names of weights anew for each module of
    a network. Other threads that read a file wait: the packages are everyone's.
    """
    import gguf
    from transformers import modeling_gguf_pytorch_utils as reader

    with _lock:
        before = [(gguf, name, getattr(gguf, name)) for name in _SLOW]
        changed: list[Any] = [(gguf, name, functools.cache(make)) for _, name, make in before]
        if hasattr(reader, "tqdm"):
            before.append((reader, "tqdm", reader.tqdm))
            changed.append((reader, "tqdm", lambda items, **_: items))
        try:
            for each in changed:
                setattr(*each)
            yield
        finally:
            for each in before:
                setattr(*each)


def first_line(error: Exception) -> str:
    """The first line of a message that says something, as a sentence."""
    lines = [line.strip() for line in str(error).strip().splitlines()] or ["no message"]
    line = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return line if line.endswith((".", "!", "?")) else line + "."
