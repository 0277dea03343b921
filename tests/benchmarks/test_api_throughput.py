"""The throughput over a server, on a few questions."""

import json

import pytest
from benchmarks.api_throughput import main

from tests.tolerances import near


def test_a_measurement(tmp_path, capsys):
    main(
        ["--out", str(tmp_path), "--questions", "6", "--in-flight", "3", "--tokens", "4",
         "--latency", "0.02", "--token-seconds", "0.005", "--repeats", "1"]
    )  # fmt: skip
    shown = capsys.readouterr().out
    record = json.loads((tmp_path / "throughput.json").read_text())
    assert [line["signals"] for line in record["lines"]] == ["text alone", "all signals", "a bare client"]
    for line in record["lines"]:
        assert line["ideal"] == near(6 / (2 * (0.02 + 5 * 0.005)))
        assert 0 < line["share"] <= 1
        assert line["client_ms"] > 0
        assert line["server_ms"] > 0
        assert f"{line['share']:.2f}" in shown


def test_nothing_to_measure(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--out", str(tmp_path), "--questions", "0"])
    assert stopped.value.code == 2
    assert "give 1 or more" in capsys.readouterr().err
