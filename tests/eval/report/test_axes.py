import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from askance.eval.report.axes import scale_of, tick_texts
from tests.tolerances import near, tolerance

ROUNDING = tolerance("float64", "place on an axis")


def test_an_even_scale():
    scale = scale_of([10.0, 20.0], 0, 100)
    assert not scale.is_log
    assert (scale.low, scale.high) == near((9.2, 20.8))
    assert scale.at(15.0) == near(50)
    assert scale.ticks == [10, 12.5, 15, 17.5, 20]


def test_numbers_far_apart_are_on_a_logarithmic_scale():
    scale = scale_of([100.0, 10_000.0], 0, 100, may_be_log=True)
    assert scale.is_log
    assert scale.at(1000.0) == near(50)
    assert scale.ticks == [100, 200, 500, 1000, 2000, 5000, 10_000]
    assert not scale_of([100.0, 10_000.0], 0, 100).is_log
    assert not scale_of([0.0, 10_000.0], 0, 100, may_be_log=True).is_log


def test_the_scale_of_shares_does_not_go_below_zero():
    assert scale_of([0.0, 0.5], 0, 100).low == 0
    assert scale_of([-0.5, 0.5], 0, 100).low == near(-0.58)


@pytest.mark.parametrize(
    ("ticks", "texts"),
    [
        ([0.3, 0.35, 0.4], ["0.30", "0.35", "0.40"]),
        ([0.1 + 0.2, 0.4], ["0.3", "0.4"]),
        ([500.0, 2000.0], ["500", "2,000"]),
        ([0.0, 2.5], ["0.0", "2.5"]),
    ],
)
def test_ticks_as_text(ticks, texts):
    assert tick_texts(ticks) == texts


@example([1.0, 1.0000000000000002], False)
@example([1e7, 1e7 + 1e-6], False)
@example([1e7, 1e7 + 20.0], False)
@given(st.lists(st.just(0.0) | st.floats(1, 1e7), min_size=1, max_size=9), st.booleans())
def test_every_value_is_on_the_line_and_ticks_are_few(values, may_be_log):
    scale = scale_of(values, 58, 620, may_be_log=may_be_log)
    assert all(58 - ROUNDING <= scale.at(value) <= 620 + ROUNDING for value in values)
    assert len(scale.ticks) <= 12
    assert all(58 - ROUNDING <= scale.at(tick) <= 620 + ROUNDING for tick in scale.ticks)
