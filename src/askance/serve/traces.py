"""The traces that the server keeps in memory, each of which belongs to the key that asked the question."""

from collections import OrderedDict

from askance.core.trace import Searched, Trace
from askance.core.types import Passage
from askance.serve.limits import Limits


class Traces:
    """The latest traces by id. The oldest are dropped if there are too many traces or events."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._num_events = limits, 0
        self._traces = OrderedDict[str, tuple[str, Trace]]()

    def keep(self, id: str, owner: str, trace: Trace) -> None:
        """Keep the trace of a question that has ended."""
        trace.listener = None  # otherwise the trace would keep its stream alive
        self._traces[id] = owner, trace
        self._num_events += len(trace.events)
        while len(self._traces) > 1 and (
            len(self._traces) > self._limits.traces or self._num_events > self._limits.trace_events
        ):
            _, (_, dropped) = self._traces.popitem(last=False)
            self._num_events -= len(dropped.events)

    def find(self, id: str, owner: str) -> Trace | None:
        """Return a trace of this owner, or None if the owner has none with this id."""
        kept_owner, trace = self._traces.get(id, ("", None))
        return trace if kept_owner == owner else None

    def passage(self, id: str, owner: str) -> Passage | None:
        """Return a passage that a question of this owner has found, as it was last, or None."""
        for kept_owner, trace in reversed(self._traces.values()):
            for event in trace.events if kept_owner == owner else ():
                if isinstance(event, Searched):
                    for hit in event.hits:
                        if hit.passage.id == id:
                            return hit.passage
        return None
