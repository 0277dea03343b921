"""The commands that serve an engine, over HTTP and by the Model Context Protocol."""

import os
from dataclasses import replace
from typing import Annotated

import typer

from askance.cli.options import OF_ONE_QUESTION, OtelFlag, recording, with_settings
from askance.configuration.sources import SourcedConfig
from askance.core.errors import MissingExtra
from askance.terminal.console import out, print_plain

QUESTION_SECONDS = 600.0


@with_settings()
def serve(
    sourced: SourcedConfig,
    host: str = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8080,
    api_key_env: Annotated[list[str] | None, typer.Option(metavar="NAME")] = None,
    allow_host: Annotated[list[str] | None, typer.Option(metavar="NAME")] = None,
    waiting: Annotated[int, typer.Option(min=0, metavar="N")] = 32,
    strict_parameters: bool = False,
    otel: OtelFlag = False,
) -> None:
    """Serve the engine over HTTP, with an API compatible with OpenAI's. The viewer is at /.

    A question may take ten minutes, unless --budget seconds=N says otherwise.

    Args:
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

    Examples:
        askance serve --index sample-index
        askance serve --index my-index --host 0.0.0.0 --api-key-env KEY
    """
    try:
        from askance.serve.app import create_app
        from askance.serve.limits import Limits, with_open_files
        from askance.serve.security import Keys, read_keys
        from askance.serve.server import allowed_hosts, check_address, make_server, open_socket
    except ImportError as error:
        raise MissingExtra(error.name or "fastapi", "serve", "askance serve") from error
    keys = read_keys(api_key_env, os.environ) if api_key_env else Keys()
    check_address(host, keys)
    config = sourced.for_method()
    if config.budget.seconds is None:
        config = config.changed(budget=replace(config.budget, seconds=QUESTION_SECONDS))
    limits = Limits(in_flight=config.questions_in_flight, waiting=waiting)
    hosts = allowed_hosts(host, allow_host or ())
    with open_socket(host, port) as listening, recording(otel) as on_end:
        app = create_app(
            config, keys, hosts=hosts, limits=limits, on_end=on_end, strict_parameters=strict_parameters
        )
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
        serve(replace(sourced.for_method().open(), on_end=on_end), port)
