"""The table of tolerances, that no other test has a bound, and choices that rounding could change."""

import ast
import asyncio
from pathlib import Path

import numpy as np
import pytest

from askance.core.types import GenerateRequest, Raw, Sampling, Span
from askance.inference.decoding import TokenSampler
from tests.choices import watched_choices
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


def test_every_row_is_used_and_has_a_reason():
    folders = (TESTS, TESTS.parent / "lab" / "tests")
    files = [path for folder in folders for path in folder.rglob("*.py") if path.name != "tolerances.py"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    for (number_format, operation), bound in TABLE.items():
        assert number_format in UNIT_ROUNDOFF, operation
        assert (bound.length > 0, bound.factor > 0, bool(bound.reason)) == (True, True, True)
        assert f'"{operation}"' in text or operation == "formula"


def test_numbers_are_compared_relative_to_their_size_or_one():
    bound = TABLE["float32", "two layers"]
    most = tolerance("float32", "two layers")
    assert most == bound.length * bound.factor * 2**-24
    assert [1000 + 900 * most, 0.5 * most] == near([1000, 0], "two layers", "float32")
    assert 1000 + 1100 * most != near(1000, "two layers", "float32")
    assert 2 * most != near(0, "two layers", "float32")
    assert_near(np.array([1000, 900 * most]), np.array([1000.0, 0]), "two layers")
    for wrong in ([1000, 1100 * most], [float("nan"), 0], [1000], [[1000], [0]]):
        with pytest.raises(AssertionError):
            assert_near(np.array(wrong), np.array([1000.0, 0]), "two layers")
    with pytest.raises(AssertionError):
        assert_near(np.ones(2, np.float32), np.ones(2, np.float64), "two layers")
    assert_clear([2.1 * most, 1], "two layers")
    with pytest.raises(AssertionError, match="too close"):
        assert_clear([1, 1.9 * most], "two layers")


def test_choices_are_clear_if_no_rounding_can_change_them(llama):
    """A greedy choice: if the gap is larger than both numbers may be off. A sampled one: away from edges."""
    torch = pytest.importorskip("torch")
    from askance.models.hf.logits import rows_of

    def chosen(logits, **sampling):
        sampler = TokenSampler(Sampling(1, **sampling), ("k",), 0, "m")
        return sampler.sample(rows_of(torch.tensor([logits]))[0])

    most = tolerance("float32", "thirty layers")
    for gap, is_clear in ((1.9, False), (2.1, True)):
        with watched_choices() as choices:
            chosen([1.0, 1.0 + gap * most])
        assert choices.are_clear("thirty layers") == is_clear
    with watched_choices() as choices:
        first, second = (chosen([0.0, 0.0, 0.0], temperature=1.0) for _ in range(2))
    assert (first == second, choices.are_clear("thirty layers")) == (True, True), "watching draws no number"
    assert len(choices.margins) == 2
    assert 0 < choices.margins[0] < 1
    request = GenerateRequest(Raw((Span("The cat"),)), Sampling(8), key=("k",))
    (alone,) = asyncio.run(llama.generate(request))
    with watched_choices() as choices:
        (watched,) = asyncio.run(llama.generate(request))
    assert watched.text == alone.text or not choices.are_clear("two layers")
    asyncio.run(llama.generate(request))
    assert len(choices.margins) == watched.generated_tokens, "only choices within the block count"
