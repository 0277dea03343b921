"""The fixtures that the tests of the laboratory share with those of the product."""

from tests.conftest import *  # noqa: F403
from tests.models.llama.conftest import gguf_files as gguf_files
