"""Calls of GGUF models with prompts of token ids, and the comparison of what they write."""

from tests.contracts.model_contract import computed, run
from tests.tolerances import assert_near, near

from askance.core.types import GenerateRequest, Raw, Sampling, Want

BOUND = "keys and values", "float16"
ALL = Want(logprob=True, top_logprobs=3, entropy=True, attention="heads")
ENTROPY = Want(entropy=True)


def ids_of(number, length=100):
    """Return another prompt for each number."""
    return tuple(10 + (number * 31 + at * 7) % 200 for at in range(length))


async def write(model, ids, max_tokens=8, want=ALL, until=None):
    request = GenerateRequest(Raw((tuple(ids),)), Sampling(max_tokens), want, until, key=("tiny",))
    (generation,) = await model.generate(request)
    return generation


def written(model, *call, **options):
    return run(write(model, *call, **options))


def check_same(found, expected, bound=BOUND):
    """Compare generations: the same tokens, with signals within the bound.

    In a batch, sums over float32 weights are added in another order.
    """
    for ours, theirs in zip(map(computed, found), map(computed, expected), strict=True):
        assert [token.id for token in ours] == [token.id for token in theirs]
        for one, other in zip(ours, theirs, strict=True):
            assert one.entropy == near(other.entropy, *bound)
            assert [p for _, p in one.top] == near([p for _, p in other.top], *bound)
            assert (one.logprob is None) == (other.logprob is None)
            if one.logprob is not None:
                assert one.logprob == near(other.logprob, *bound)
            assert (one.attention is None) == (other.attention is None)
            if one.attention is not None:
                assert_near(one.attention, other.attention, *bound)
