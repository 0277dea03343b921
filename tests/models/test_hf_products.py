"""Products are those of a linear layer, in a form that weights and number of tokens alone decide on."""

import time

import pytest
import torch
from tests.tolerances import assert_near

from askance.models.hf import products
from askance.models.hf.products import Product, weights_in_front
from askance.models.hf.threads import no_team

WEIGHT = torch.randn(300, 400, generator=torch.Generator().manual_seed(1))
HAS_LIBRARY = torch.backends.mkldnn.is_available()


def some(num_tokens, inputs=400):
    return torch.randn(num_tokens, inputs, generator=torch.Generator().manual_seed(2))


@pytest.fixture
def forms(monkeypatch):
    """Names of the forms that are taken."""
    taken = []
    for name in ("linear", "weights_in_front", "_by_packed"):

        def counted(*given, name=name, form=getattr(products, name)):
            taken.append(name)
            return form(*given)

        monkeypatch.setattr(products, name, counted)
    return taken


@pytest.mark.parametrize("num_tokens", [1, 2, 7, 8, 9, 64, 65, 100])
@pytest.mark.parametrize("bias", [None, torch.arange(300.0)])
@pytest.mark.parametrize("packs", [True, False])
def test_a_product_is_that_of_a_linear_layer(num_tokens, bias, packs):
    x = some(num_tokens)
    expected = torch.nn.functional.linear(x, WEIGHT, bias)
    assert_near(Product(WEIGHT, bias, packs=packs)(x), expected, "sum of 400")


@pytest.mark.parametrize("num_tokens", [7, 8, 9, 13, 16, 71])
def test_weights_in_front_give_the_same(num_tokens):
    x = some(num_tokens)
    assert_near(weights_in_front(x, WEIGHT), x @ WEIGHT.T, "sum of 400")


def test_weights_and_number_of_tokens_decide_on_the_form_and_no_clock(forms, monkeypatch):
    monkeypatch.setattr(time, "perf_counter", None)
    product = Product(WEIGHT, None)
    for num_tokens in (1, 7, 8, 200, 7):
        product(some(num_tokens))
    with no_team():
        product(some(8))
    small = Product(WEIGHT[:, :200], None)
    small(some(8, 200))
    assert forms == [
        "linear", "linear", "weights_in_front", "weights_in_front", "linear", "weights_in_front", "linear"
    ]  # fmt: skip
    assert product.packed is None


@pytest.mark.skipif(not HAS_LIBRARY, reason="torch is built without oneDNN")
def test_packed_weights_are_taken_for_any_number_of_tokens(forms):
    product = Product(WEIGHT, None, packs=True)
    assert product.packed is not None
    forms.clear()
    for num_tokens in (1, 8, 200):
        product(some(num_tokens))
    assert forms == ["_by_packed"] * 3


@pytest.mark.parametrize("weight", [WEIGHT.double(), WEIGHT.bfloat16(), WEIGHT[:, :200]])
def test_what_only_some_processors_pack_and_what_is_small_is_left_as_it_is(weight):
    product = Product(weight, None, packs=True)
    x = torch.ones(9, weight.shape[1], dtype=weight.dtype)
    assert product(x).dtype == weight.dtype
    assert product.packed is None


@pytest.mark.parametrize("breaks", ["packing", "computing", "numbers"])
def test_packed_weights_that_come_to_nothing_are_never_used(monkeypatch, breaks):
    def broken(*given):
        raise RuntimeError("no such thing here")

    def other(x, weight, *more):
        return x @ WEIGHT.T + 1

    names = {"packing": ("_reorder_linear_weight", broken), "computing": ("_linear_pointwise", broken)}
    name, function = names.get(breaks, ("_linear_pointwise", other))
    monkeypatch.setattr(torch.ops.mkldnn, name, function)
    product, x = Product(WEIGHT, None, packs=True), torch.ones(5, 400)
    assert_near(product(x), x @ WEIGHT.T, "sum of 400")
    assert product.packed is None
