"""Products take the form that was quickest when it was tried."""

import pytest
import torch

from askance.models.hf import products
from askance.models.hf.products import FORMS, FORMS_OF_ONE, TRIED_TOKENS, Product, form_for
from askance.models.hf.threads import no_team

WEIGHT = torch.randn(300, 400, generator=torch.Generator().manual_seed(1))
LARGE = Product(WEIGHT, None)


@pytest.fixture(autouse=True)
def none_tried(monkeypatch):
    monkeypatch.setattr(products, "_quickest", {})


@pytest.mark.parametrize("num_tokens", [1, 2, 4, 5, 64, 65, 100])
@pytest.mark.parametrize("bias", [None, torch.arange(300.0)])
@pytest.mark.parametrize("packs", [True, False])
def test_a_product_is_that_of_a_linear_layer(num_tokens, bias, packs):
    x = torch.randn(num_tokens, 400, generator=torch.Generator().manual_seed(2))
    expected = torch.nn.functional.linear(x, WEIGHT, bias)
    found = Product(WEIGHT, bias, packs=packs)(x)
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-5)


@pytest.mark.parametrize("num_tokens", [7, 8, 9, 13, 16, 71])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same(form, num_tokens):
    x = torch.randn(num_tokens, 400, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(form(x, WEIGHT), x @ WEIGHT.T, atol=1e-3, rtol=1e-5)


@pytest.mark.parametrize("form", FORMS_OF_ONE)
def test_every_form_of_one_token_gives_the_same(form):
    x = torch.randn(1, 400, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(form(x, WEIGHT), x @ WEIGHT.T, atol=1e-3, rtol=1e-5)


def test_each_number_of_tokens_takes_the_form_that_was_quickest_for_it(monkeypatch):
    forms = (FORMS_OF_ONE[1], FORMS[2], FORMS[0], FORMS[1], FORMS[2])
    quickest = dict(zip(TRIED_TOKENS, forms, strict=True))

    def seconds(work, others):
        form, x = work.args
        return 1.0 if form is quickest[len(x)] else 2.0

    monkeypatch.setattr(products, "_seconds", seconds)
    first_last = {1: (1, 1), 4: (2, 4), 8: (5, 8), 16: (9, 16), 64: (17, 1000)}
    for tried, (first, last) in first_last.items():
        assert form_for(first, LARGE) is form_for(last, LARGE) is quickest[tried]


def test_a_shape_is_tried_once_and_small_ones_and_loading_never(monkeypatch):
    tried = []

    def seconds(work, others):
        tried.append(work.args[0])
        return 1.0

    monkeypatch.setattr(products, "_seconds", seconds)
    form_for(9, Product(torch.ones(20, 30), None))
    with no_team():
        form_for(9, LARGE)
    assert not tried
    form_for(9, LARGE)
    form_for(16, Product(WEIGHT + 1, None))
    assert tried == [*FORMS] * products._TRIALS
    form_for(30, LARGE)
    assert len(tried) == 2 * len(FORMS) * products._TRIALS


def test_a_product_too_large_to_try_takes_the_form_of_fewer_tokens(monkeypatch):
    monkeypatch.setattr(products, "_MOST_OPERATIONS", WEIGHT.numel() * 16)
    monkeypatch.setattr(products, "_seconds", lambda work, others: 0.0 if work.args[0] is FORMS[1] else 1.0)
    assert form_for(64, LARGE) is form_for(16, LARGE) is FORMS[1]
    monkeypatch.setattr(products, "_MOST_OPERATIONS", 1)
    assert form_for(64, Product(WEIGHT + 1, None)) is FORMS[1], "not that of one token"
    monkeypatch.setattr(products, "_MOST_OPERATIONS", WEIGHT.numel() * 16)
    monkeypatch.setattr(products, "_quickest", {})
    tried = []

    def seconds(work, others):
        tried.append(len(work.args[1]))
        return 1.0

    monkeypatch.setattr(products, "_seconds", seconds)
    form_for(64, LARGE)
    assert set(tried) == {16}


@pytest.fixture
def packed_is_quickest(monkeypatch):
    def seconds(work, others):
        return 0.0 if work.args[0] is products._weights_packed else 1.0

    monkeypatch.setattr(products, "_seconds", seconds)


def test_packed_weights_are_one_more_form_where_there_is_memory(packed_is_quickest):
    has_library = torch.backends.mkldnn.is_available()
    for num_tokens in (1, 3, 100):
        form = form_for(num_tokens, Product(WEIGHT, None, packs=True))
        assert (form is products._weights_packed) == has_library
        assert form_for(num_tokens, LARGE) is not products._weights_packed
    assert LARGE.packed is None


@pytest.mark.parametrize(("seconds", "is_packed"), [(1.2, True), (1.3, False)])
def test_packed_weights_may_be_a_little_slower_in_a_trial(monkeypatch, seconds, is_packed):
    def taken(work, others):
        return seconds if work.args[0] is products._weights_packed else 1.0

    monkeypatch.setattr(products, "_seconds", taken)
    form = form_for(9, Product(WEIGHT, None, packs=True))
    assert (form is products._weights_packed) == (is_packed and torch.backends.mkldnn.is_available())


@pytest.mark.parametrize("breaks", ["packing", "computing", "numbers"])
def test_packed_weights_that_come_to_nothing_are_never_used(packed_is_quickest, monkeypatch, breaks):
    def broken(*given):
        raise RuntimeError("no such thing here")

    def other(x, weight, *more):
        return x @ WEIGHT.T + 1

    names = {"packing": ("_reorder_linear_weight", broken), "computing": ("_linear_pointwise", broken)}
    name, function = names.get(breaks, ("_linear_pointwise", other))
    monkeypatch.setattr(torch.ops.mkldnn, name, function)
    product, x = Product(WEIGHT, None, packs=True), torch.ones(5, 400)
    torch.testing.assert_close(product(x), x @ WEIGHT.T, atol=1e-3, rtol=1e-5)
    assert form_for(5, product) is not products._weights_packed


def test_a_product_that_finds_no_memory_to_pack_is_computed_all_the_same(packed_is_quickest, monkeypatch):
    x = torch.ones(5, 400)
    Product(WEIGHT, None, packs=True)(x)

    def full(*given):
        raise RuntimeError("can't allocate memory")

    monkeypatch.setattr(torch.ops.mkldnn, "_reorder_linear_weight", full)
    found = Product(WEIGHT, None, packs=True)(x)
    torch.testing.assert_close(found, x @ WEIGHT.T, atol=1e-3, rtol=1e-5)
