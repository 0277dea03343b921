"""Listening: the check of the address, the socket, and the run of uvicorn."""

import socket
from asyncio import Protocol
from collections.abc import Iterable
from functools import partial
from typing import cast

import uvicorn

from askance.core.errors import InputError
from askance.serve.limits import BACKLOG, LimitedConnection, Limits
from askance.serve.security import Guard, Keys, is_loopback

_SHUTDOWN_SECONDS = 5
_LOCAL_NAMES = frozenset(("localhost", "127.0.0.1", "[::1]"))


def check_address(host: str, keys: Keys) -> None:
    """Raise `InputError` for a host that other machines reach, unless the server has a key."""
    if not keys and not is_loopback(host):
        raise InputError(
            f"--host {host} lets other machines in, and no API key protects the server: name an environment "
            "variable that holds one with --api-key-env NAME, or listen on 127.0.0.1."
        )


def allowed_hosts(host: str, named: Iterable[str]) -> frozenset[str] | None:
    """Return the names that requests may have in their Host header (see `Guard`).

    They are the names of loopback, by which the machine checks its own server, those in `named` and, on
    loopback, that of the host. A server that other machines reach accepts every name if none is named: its
    key protects it.
    """
    names = frozenset(name.lower() for name in named)
    if is_loopback(host):
        return names | _LOCAL_NAMES | {f"[{host}]" if ":" in host else host.lower()}
    return names | _LOCAL_NAMES if names else None


def open_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address.

    Raises:
        InputError: The address can't be used, for example because another program uses the port.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
        # Accepted connections inherit it. Without it, the end of a short response waits 40 ms for an
        # acknowledgement, because asyncio only sets it for sockets whose protocol is given as a number.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except (OSError, UnicodeError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"can't listen on {host}, port {port}: {reason}. Choose another --port or --host."
        ) from error


def make_server(app: Guard, limits: Limits) -> uvicorn.Server:
    """Return the HTTP server for an application. At a signal to end, questions get five seconds to end."""
    config = uvicorn.Config(
        app,
        http=cast(type[Protocol], partial(LimitedConnection, limits, set())),
        log_level="warning",
        access_log=False,  # addresses of passages contain signatures
        server_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        ws="none",
        lifespan="off",
    )
    return uvicorn.Server(config)
