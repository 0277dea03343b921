"""Seeds of the simulation, also those that found a fault. `python -m tests.simulation SEED` replays one."""

import asyncio

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx2")

from tests.simulation.__main__ import run_seed
from tests.simulation.virtual_time import Stalled, run

FOUND = {
    9: "a failed search was an unexpected error",
    13: "a cancelled call had no answer",
    15: "a client that read nothing held its place for 45 s instead of 30 s",
    17: "a stream that broke off went on with another text",
    63: "a client that read all but the last message held its place for ever",
    101: "a refused request waited for its body and forgot Retry-After",
    1776: "a prompt that could not be counted was asked again after its answer had been shown",
}
"""Seeds that find a fault if it comes back, and the fault."""


@pytest.mark.parametrize("seed", range(30))
def test_what_must_hold_holds_in_every_timeline(seed):
    run_seed(seed)


@pytest.mark.parametrize("seed", FOUND, ids=FOUND.values())
def test_a_fault_that_a_seed_found_stays_mended(seed):
    run_seed(seed)


def test_a_seed_always_has_the_same_timeline():
    assert run_seed(7) == run_seed(7)


def test_waiting_takes_no_time_and_all_that_waits_for_ever_is_an_error():
    async def wait():
        loop = asyncio.get_running_loop()
        began = loop.time()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1e6):
                await asyncio.sleep(1e7)
        assert await asyncio.to_thread(int, "3") == 3
        return loop.time() - began

    assert run(wait(), 5.0) == 1e6
    with pytest.raises(Stalled, match="every task waits"):
        run(asyncio.Event().wait())
