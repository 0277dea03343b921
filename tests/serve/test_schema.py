"""Requests that schemathesis makes up from the server's own OpenAPI description."""

import subprocess
import sys

from tests.serve.served import bearer, serving

KEY = "a-key-of-the-tests"
WHAT_NO_SCHEMA_SAYS = "positive_data_acceptance"
"""Valid requests may be refused: a filter that can't be read, an id given twice."""


def test_responses_are_as_described(own_index, tmp_path):
    with serving(own_index, keys=[KEY]) as server:
        words = ["--exclude-checks", WHAT_NO_SCHEMA_SAYS, "--max-examples", "10", "--seed", "1", "--no-color"]
        words += [f"--header={name}: {value}" for name, value in bearer(KEY).items()]
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json", *words]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
