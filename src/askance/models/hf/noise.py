"""What libraries say while they load: kept from the screen, and cut to one line in an error."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub.utils.tqdm import are_progress_bars_disabled, enable_progress_bars
from transformers.utils import logging as transformers_logging


@contextmanager
def quiet() -> Iterator[None]:
    """Without warnings of transformers and the hub; of the progress bars, only those of downloads stay."""
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
def no_gguf_bar() -> Iterator[None]:
    """The GGUF reader of transformers draws its bar with tqdm directly, which no setting turns off."""
    from transformers import modeling_gguf_pytorch_utils as gguf_reader

    bar = getattr(gguf_reader, "tqdm", None)
    if bar is None:
        yield
        return
    gguf_reader.tqdm = lambda items, **_: items
    try:
        yield
    finally:
        gguf_reader.tqdm = bar


def first_line(error: Exception) -> str:
    """The first line of a message that says something, as a sentence."""
    lines = [line.strip() for line in str(error).strip().splitlines()] or ["no message"]
    line = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return line if line.endswith((".", "!", "?")) else line + "."
