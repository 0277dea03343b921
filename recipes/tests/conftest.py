"""The recipes train by the laboratory, so their tests need it."""

from importlib.util import find_spec

if find_spec("askance_lab") is None:
    collect_ignore_glob = ["test_*.py"]
