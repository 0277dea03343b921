"""What every adapter asks of sampling values."""

import math

from askance.core.errors import KnobError
from askance.core.types import Sampling


def check_sampling(sampling: Sampling, n: int) -> None:
    """Raises KnobError for a value out of range."""
    if n < 1:
        raise KnobError(f"n={n}: ask for at least one sample.")
    if sampling.max_tokens < 1:
        raise KnobError(f"max_tokens={sampling.max_tokens}: ask for at least one new token.")
    if not 0 <= sampling.temperature < math.inf:
        raise KnobError(f"temperature={sampling.temperature:g}: expected 0 (greedy) or more.")
    if not 0 < sampling.top_p <= 1:
        raise KnobError(f"top_p={sampling.top_p:g}: expected more than 0 and at most 1.")
    if sampling.top_k < 0:
        raise KnobError(f"top_k={sampling.top_k}: expected 0 (the whole vocabulary) or more.")
    if "" in sampling.stop:
        raise KnobError("stop=('',): an empty stop string would end every text before it begins.")
