"""The command that serves an engine to assistants by the Model Context Protocol."""

from dataclasses import replace
from typing import Annotated

import typer

from askance.cli.options import OF_ONE_QUESTION, OtelFlag, recording, with_settings
from askance.configuration.sources import SourcedConfig


@with_settings(*OF_ONE_QUESTION)
def mcp(
    sourced: SourcedConfig,
    port: Annotated[int | None, typer.Option(min=1, max=65535)] = None,
    otel: OtelFlag = False,
) -> None:
    """Serve the tools ask, search and why by MCP, the protocol by which assistants call tools.

    Without --port, the server speaks over standard input and output, as assistants expect that start it.

    Args:
        port: Serve streamable HTTP at http://127.0.0.1:PORT/mcp instead. Only this machine can connect.

    Examples:
        askance mcp --index my-index
        askance mcp --index my-index --method single --port 8090
    """
    from askance.integrations.mcp import serve  # needs the extra

    with recording(otel) as on_end:
        serve(replace(sourced.for_method().open(), on_end=on_end), port)
