"""A timeline: what a seed decides, what has happened, and what must hold."""

import asyncio
from collections import defaultdict
from itertools import count
from random import Random

from tests.simulation.virtual_time import WallClock, run


class Broken(AssertionError):
    """Something that must hold does not. The message has the timeline and the command that replays it."""


class Timeline:
    """What happens in one simulation. All that is random comes from `random`, in the order of the events.
    `errors` has those that models and searches raised, by who called them. `ticks` orders what happens, also
    at one time.
    """

    def __init__(self, seed, part):
        self.random, self.lines, self.wall = Random(f"{part} {seed}"), [], WallClock()
        self.errors, self.ticks = defaultdict(list), count()

    def log(self, text):
        self.lines.append(f"{asyncio.get_running_loop().time() - self.start:12.3f} s  {text}")

    def check(self, holds, text):
        """Something that must hold, with a sentence that says what is wrong otherwise."""
        if not holds:
            self.log(f"WRONG: {text}")
            raise AssertionError(text)

    def chance(self, probability):
        return self.random.random() < probability

    def moment(self, most):
        """A time that is often 0 or whole, since then things happen together."""
        drawn = self.random.choice((0.0, float(self.random.randint(0, 3)), self.random.random() * most))
        return min(drawn, most)

    async def later(self, most):
        """Wait for a moment, and then for up to ten turns of the loop."""
        await asyncio.sleep(self.moment(most))
        for _ in range(self.random.randrange(10)):
            await asyncio.sleep(0)

    async def jumps(self):
        """Let the wall clock jump, for ever."""
        while True:
            await asyncio.sleep(self.random.expovariate(1 / 100))
            self.wall.ahead = self.random.uniform(-1e9, 1e9)
            self.log(f"the wall clock jumps to {self.wall.now():%Y-%m-%d}")

    def check_tasks(self):
        """No task is left but this one (and sse-starlette's, which looks for the end of the process)."""
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        names = [task.get_coro().__qualname__ for task in left]
        self.check(set(names) <= {"Timeline.jumps", "_shutdown_watcher"}, f"tasks are left: {names}")


def simulate(part, seed, scenario):
    """Run a scenario with the timeline of a seed, and return what has happened as lines."""
    timeline = Timeline(seed, part)
    timeline.start = timeline.random.choice((0.0, 1e6 * timeline.random.random()))

    async def main():
        jumping = asyncio.create_task(timeline.jumps())
        try:
            async with asyncio.timeout(50_000):
                await scenario(timeline)
        finally:
            jumping.cancel()

    try:
        with timeline.wall.set_up():
            run(main(), timeline.start)
        # What is wrong inside of a call may have become a failure of the call.
        wrong = [line.partition("WRONG: ")[2] for line in timeline.lines if "WRONG: " in line]
        assert not wrong, wrong[0]
    except Exception as error:
        happened = "\n".join(timeline.lines)
        raise Broken(
            f"{part}, seed {seed}: {type(error).__name__}: {error}\n{happened}\n"
            f"To replay it: python -m tests.simulation {seed}"
        ) from error
    return timeline.lines
