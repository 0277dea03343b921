"""The table of tolerances, and that there is no bound beside it."""

import ast
from pathlib import Path

import numpy as np
import pytest

from tests.tolerances import TABLE, UNIT_ROUNDOFF, assert_clear, assert_near, near, tolerance

TESTS = Path(__file__).parent
CLOSENESS = {"approx", "allclose", "assert_allclose", "assert_close", "isclose", "assert_almost_equal"}
BOUNDS = {"atol", "rtol", "abs", "rel", "abs_tol", "rel_tol"}


def bounds_in(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in CLOSENESS or BOUNDS & {keyword.arg for keyword in node.keywords}:
                yield f"{path.relative_to(TESTS)}:{node.lineno}"
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Lt | ast.LtE):
            left, right = node.left, node.comparators[0]
            if "abs(" in ast.unparse(left) and isinstance(right, ast.Constant | ast.BinOp):
                yield f"{path.relative_to(TESTS)}:{node.lineno}"


def test_there_is_no_numeric_bound_beside_the_table():
    files = [path for path in TESTS.rglob("*.py") if path.name != "tolerances.py"]
    assert len(files) > 100
    assert [found for path in files for found in bounds_in(path)] == []


@pytest.mark.parametrize(
    "text",
    ["near(1, rel=1)", "pytest.approx(x)", "assert (a - b).abs().max() < 1e-5", "assert abs(x) <= 0.1"],
)
def test_bounds_are_found(tmp_path, monkeypatch, text):
    monkeypatch.setitem(globals(), "TESTS", tmp_path)
    (tmp_path / "some.py").write_text(text)
    assert [*bounds_in(tmp_path / "some.py")] == ["some.py:1"]


def test_every_row_is_of_a_known_format_and_has_a_reason():
    for (number_format, operation), bound in TABLE.items():
        assert number_format in UNIT_ROUNDOFF, operation
        assert bound.length > 0
        assert bound.factor > 0
        assert bound.reason


def test_every_row_is_used():
    text = "\n".join(
        path.read_text(encoding="utf-8")
        for folder in (TESTS, TESTS.parent / "lab" / "tests")
        for path in folder.rglob("*.py")
        if path.name != "tolerances.py"
    )
    assert [
        operation for _, operation in TABLE if f'"{operation}"' not in text and operation != "formula"
    ] == []


def test_a_bound_is_length_times_roundoff_times_factor():
    bound = TABLE["float32", "two layers"]
    assert tolerance("float32", "two layers") == bound.length * bound.factor * 2**-24
    with pytest.raises(KeyError):
        tolerance("float32", "nothing")


def test_numbers_are_held_against_their_size_or_one():
    most = tolerance("float32", "two layers")
    assert [1000 + 900 * most, 0.5 * most] == near([1000, 0], "two layers", "float32")
    assert 1000 + 1100 * most != near(1000, "two layers", "float32")
    assert 2 * most != near(0, "two layers", "float32")
    assert_near(np.array([1000, 900 * most]), np.array([1000.0, 0]), "two layers")
    for found in ([1000, 1100 * most], [float("nan"), 0], [1000], [[1000], [0]]):
        with pytest.raises(AssertionError):
            assert_near(np.array(found), np.array([1000.0, 0]), "two layers")
    with pytest.raises(AssertionError):
        assert_near(np.ones(2, np.float32), np.ones(2, np.float64), "two layers")


def test_gaps_as_small_as_what_two_numbers_may_be_off_are_not_clear():
    most = tolerance("float32", "two layers")
    assert_clear([2.1 * most, 1], "two layers")
    with pytest.raises(AssertionError, match="too close"):
        assert_clear([1, 1.9 * most], "two layers")
