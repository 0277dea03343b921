"""The commands that serve an engine, over HTTP and by the Model Context Protocol."""

import os
from dataclasses import replace
from typing import Annotated

import typer

from askance.cli.options import OF_ONE_QUESTION, OtelFlag, recording, with_settings
from askance.configuration.server import ServerConfig
from askance.configuration.sources import SourcedConfig
from askance.core.errors import MissingExtra
from askance.terminal.console import out, print_plain

QUESTION_SECONDS = 600.0


@with_settings(kind=ServerConfig)
def serve(sourced: SourcedConfig, otel: OtelFlag = False) -> None:
    """Serve the engine over HTTP, with an API compatible with OpenAI's. The viewer is at /.

    A question may take ten minutes, unless --budget seconds=N says otherwise.

    Examples:
        askance serve --index sample-index
        askance serve --index my-index --host 0.0.0.0 --api-key-env KEY
    """
    try:
        from askance.serve.app import create_app
        from askance.serve.limits import Limits, with_open_files
        from askance.serve.security import read_keys
        from askance.serve.server import allowed_hosts, check_address, make_server, open_socket
    except ImportError as error:
        raise MissingExtra(error.name or "fastapi", "serve", "askance serve") from error
    config = sourced.for_method()
    assert isinstance(config, ServerConfig)
    keys = read_keys(config.api_key_env, os.environ)
    check_address(config.host, keys)
    if config.budget.seconds is None:
        config = replace(config, budget=replace(config.budget, seconds=QUESTION_SECONDS))
    limits = Limits(config.questions_in_flight, config.waiting)
    hosts = allowed_hosts(config.host, config.allow_host)
    with open_socket(config.host, config.port) as listening, recording(otel) as on_end:
        app = create_app(config, keys, hosts=hosts, limits=limits, on_end=on_end)
        address, port = listening.getsockname()[:2]
        shown = f"[{address}]" if ":" in address else address
        print_plain(out, f"askance serves http://{shown}:{port}")
        make_server(app, with_open_files(limits)).run(sockets=[listening])


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
        serve(replace(sourced.for_method().open_to_answer(), on_end=on_end), port)
