"""Silence the libraries that load models, and shorten their error messages to one line."""

import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache

from huggingface_hub.utils.tqdm import are_progress_bars_disabled, enable_progress_bars
from transformers.utils import logging as transformers_logging

_lock = threading.Lock()


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the warnings and progress bars of transformers and the hub, but keep the bars of downloads."""
    hub = logging.getLogger("huggingface_hub")
    with ExitStack() as restoring, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        restoring.callback(hub.setLevel, hub.level)
        restoring.callback(transformers_logging.set_verbosity, transformers_logging.get_verbosity())
        if transformers_logging.is_progress_bar_enabled():
            restoring.callback(transformers_logging.enable_progress_bar)
        has_download_bars = not are_progress_bars_disabled()
        hub.setLevel(logging.CRITICAL)
        transformers_logging.set_verbosity(logging.CRITICAL)
        transformers_logging.disable_progress_bar()
        if has_download_bars:
            enable_progress_bars()
        yield


@contextmanager
def reading_gguf() -> Iterator[None]:
    """Let transformers read GGUF files without a progress bar, and in less than half the time.

    No setting turns off the progress bar of transformers' reader. The reader also opens a file three times
    (for the tokenizer, the settings and the weights), and builds a table of tensor names for each module.
    Inside the block, a file is opened once and a table is built once. Other threads wait before they enter
    such a block, since the patches affect the whole process.
    """
    import gguf
    from transformers import modeling_gguf_pytorch_utils as reader

    with _lock, ExitStack() as restoring:
        for package, name, replacement in (
            (gguf, "GGUFReader", cache(gguf.GGUFReader)),
            (gguf, "get_tensor_name_map", cache(gguf.get_tensor_name_map)),
            (reader, "tqdm", lambda items, **_: items),
        ):
            restoring.callback(setattr, package, name, getattr(package, name, None))
            setattr(package, name, replacement)
        yield


def first_line(error: Exception) -> str:
    """Return the first line of an error's message as a sentence.

    If the first line ends in a colon, the second line is added.
    """
    lines = [line.strip() for line in str(error).strip().splitlines()] or ["no message"]
    line = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return line if line.endswith((".", "!", "?")) else line + "."
