"""What was found out about servers, in the user's cache: a small file for each server, version and model."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from askance.core.errors import InputError
from askance.models.bundled import cache_folder
from askance.models.openai.identity import Identity
from askance.models.openai.options import OPTION_NAMES
from askance.runtime.durable import write_atomically

_FORMAT = 1
"""Raised when what is found out changes; older files are then not used any more."""
_MOST_BYTES = 1 << 16
_LEAST_CONTEXT = 2
"""Tokens: fewer are no window."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Where the options of one model behind one server are kept. A cache that can't be used keeps nothing."""

    model: str
    url: str
    identity: Identity

    def read(self) -> dict[str, str] | None:
        """The options, or None where none are kept that can be used. The window is what the server tells now,
        where it does: it may have been started with another one.
        """
        try:
            path = self._path()
            if path.stat().st_size > _MOST_BYTES:
                return None
            told = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError, InputError):
            return None
        found = told.get("options") if isinstance(told, Mapping) and told.get("of") == self._of() else None
        if not isinstance(found, Mapping) or not found.keys() <= set(OPTION_NAMES):
            return None
        options = {name: str(value) for name, value in found.items()}
        told = str(self.identity.context)
        if self.identity.context < _LEAST_CONTEXT or options.get("context") == told:
            return options
        options["context"] = told
        self.write(options)
        return options

    def write(self, options: Mapping[str, str]) -> bool:
        """Keep the options; whether that was possible."""
        try:
            path = self._path()
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps({"of": self._of(), "options": dict(options)}, indent=1))
        except (OSError, InputError):
            return False
        return True

    def _of(self) -> list[object]:
        return [_FORMAT, self.url, self.model, self.identity.server, self.identity.version]

    def _path(self) -> Path:
        digest = blake2b(repr(self._of()).encode(), digest_size=8).hexdigest()
        return cache_folder() / "servers" / f"{digest}.json"
