"""The fixtures that these tests share with those of the product. Without the laboratory there are none."""

from importlib.util import find_spec

from tests.conftest import *  # noqa: F403

if find_spec("askance_lab") is None:
    collect_ignore_glob = ["test_*.py"]
