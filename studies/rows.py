"""Files of documents and questions that recipes make."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from askance.storage.durable_files import write_atomically


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as a file of JSON Lines, in one step."""
    write_atomically(path, "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))
