"""Products take the form that was quickest when it was tried."""

import pytest
import torch

from askance.models.hf import products
from askance.models.hf.products import FORMS, FORMS_OF_ONE, TRIED_TOKENS, Product, form_for
from askance.models.hf.threads import no_team

LARGE = torch.randn(300, 400, generator=torch.Generator().manual_seed(1))


@pytest.fixture(autouse=True)
def none_tried(monkeypatch):
    monkeypatch.setattr(products, "_quickest", {})


@pytest.mark.parametrize("num_tokens", [1, 2, 4, 5, 64, 65, 100])
@pytest.mark.parametrize("bias", [None, torch.arange(300.0)])
def test_a_product_is_that_of_a_linear_layer(num_tokens, bias):
    x = torch.randn(num_tokens, 400, generator=torch.Generator().manual_seed(2))
    expected = torch.nn.functional.linear(x, LARGE, bias)
    torch.testing.assert_close(Product(LARGE, bias)(x), expected, atol=1e-3, rtol=1e-5)


@pytest.mark.parametrize("num_tokens", [7, 8, 9, 13, 16, 71])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same(form, num_tokens):
    x = torch.randn(num_tokens, 400, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(form(x, LARGE), x @ LARGE.T, atol=1e-3, rtol=1e-5)


@pytest.mark.parametrize("form", FORMS_OF_ONE)
def test_every_form_of_one_token_gives_the_same(form):
    x = torch.randn(1, 400, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(form(x, LARGE), x @ LARGE.T, atol=1e-3, rtol=1e-5)


def test_each_number_of_tokens_takes_the_form_that_was_quickest_for_it(monkeypatch):
    forms = (FORMS_OF_ONE[1], FORMS[2], FORMS[0], FORMS[1], FORMS[2])
    quickest = dict(zip(TRIED_TOKENS, forms, strict=True))

    def seconds(work, others):
        num_tokens = len(work.args[0])
        return 1.0 if work.func is quickest[num_tokens] else 2.0

    monkeypatch.setattr(products, "_seconds", seconds)
    first_last = {1: (1, 1), 4: (2, 4), 8: (5, 8), 16: (9, 16), 64: (17, 1000)}
    for tried, (first, last) in first_last.items():
        assert form_for(first, LARGE) is form_for(last, LARGE) is quickest[tried]


def test_a_shape_is_tried_once_and_small_ones_and_loading_never(monkeypatch):
    tried = []

    def seconds(work, others):
        tried.append(work.args[1].shape)
        return 1.0

    monkeypatch.setattr(products, "_seconds", seconds)
    form_for(9, torch.ones(20, 30))
    with no_team():
        form_for(9, LARGE)
    assert not tried
    form_for(9, LARGE)
    form_for(16, LARGE + 1)
    assert tried == [LARGE.shape] * len(FORMS) * products._TRIALS
    form_for(30, LARGE)
    assert len(tried) == 2 * len(FORMS) * products._TRIALS


def test_a_product_too_large_to_try_takes_the_form_of_fewer_tokens(monkeypatch):
    monkeypatch.setattr(products, "_MOST_OPERATIONS", LARGE.numel() * 16)
    monkeypatch.setattr(products, "_seconds", lambda work, others: 0.0 if work.func is FORMS[1] else 1.0)
    assert form_for(64, LARGE) is form_for(16, LARGE) is FORMS[1]
    monkeypatch.setattr(products, "_MOST_OPERATIONS", 1)
    assert form_for(64, LARGE + 1) is FORMS[1], "not that of one token"
    monkeypatch.setattr(products, "_MOST_OPERATIONS", LARGE.numel() * 16)
    monkeypatch.setattr(products, "_quickest", {})
    tried = []

    def seconds(work, others):
        tried.append(len(work.args[0]))
        return 1.0

    monkeypatch.setattr(products, "_seconds", seconds)
    form_for(64, LARGE)
    assert set(tried) == {16}
