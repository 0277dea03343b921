"""The configuration of a server: that of its engine, and where and for whom it listens."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

from askance.configuration.settings import SETTINGS, STRICT, EngineConfig, setting, settings_of

TABLE = "serve"
"""The table, in files and the environment, of the settings that `ServerConfig` adds to `EngineConfig`."""


def _names(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_names), Field(strict=False)]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ServerConfig(EngineConfig):
    """The configuration of a server.

    Attributes:
        host: The address to listen on. Any but this machine's own needs --api-key-env.
        port: The port to listen on; 0 chooses a free one.
        api_key_env: The environment variable that holds the API key, or several keys separated by commas.
            Traces and documents belong to the key that made them. 'NAME where FILTER' limits these keys to
            the documents that pass the filter. May be repeated.
        allow_host: A host name by which clients reach the server, for example through a proxy; may be
            repeated.
        waiting: The number of questions that may wait for their turn; further ones are refused (429).
        strict_parameters: Refuse requests with fields that change nothing, such as a temperature that the
            method fixes. By default, the response lists them under askance.ignored.
        searches_per_question: Move the threshold of the method so that a question has so many searches on
            average, over the last 100 questions. Requests that set the threshold, or what it depends on, do
            not count.
    """

    host: str = setting("127.0.0.1", "HOST")
    port: Annotated[int, Field(ge=0, le=65535, strict=False)] = setting(8080, "PORT")
    api_key_env: Names = setting((), "NAME")
    allow_host: Names = setting((), "NAME")
    waiting: Annotated[int, Field(ge=0, strict=False)] = setting(32, "N")
    strict_parameters: Annotated[bool, Field(strict=False)] = setting(False, "")
    searches_per_question: Annotated[float, Field(ge=0, allow_inf_nan=False, strict=False)] | None = setting(
        None, "N"
    )


SERVER_SETTINGS = tuple(name for name in settings_of(ServerConfig) if name not in SETTINGS)
EXPOSING = ("host", "api_key_env", "allow_host")
"""The settings that decide who reaches the server."""
