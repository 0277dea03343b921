"""Wait for changes of the files of an index."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from askance.retrieval.index.documents import file_states

SECONDS_BETWEEN_LOOKS = 2.0
States = dict[str, tuple[int, int, int]]


def wait_for_change(
    sources: Sequence[Path],
    before: States,
    *,
    leave_out: Path | None = None,
    missing: Callable[[str], None],
    wait: Callable[[float], None] = time.sleep,
) -> States:
    """Wait until files differ from what they were, and then until no file changes any more.

    While a source is missing, such as the folder of a removed disk, nothing counts as a change.

    Args:
        before: The states of the files before the last build (see `file_states`). A change during the build
            therefore counts.
        leave_out: The index, if it is in one of the folders.
        missing: Called once whenever a source disappears, with its path.

    Returns:
        The new states of the files.
    """
    changed: States | None = None
    is_missing = False
    while True:
        try:
            now = file_states(sources, leave_out)
        except FileNotFoundError as error:
            if not is_missing:
                missing(str(error))
            is_missing, changed = True, None
        else:
            is_missing = False
            if now != before and now == changed:
                return now
            changed = now
        wait(SECONDS_BETWEEN_LOOKS)
