"""Test that weights are converted once on a machine, completely or not at all."""

import errno
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from filelock import FileLock

from askance.core.errors import ModelSpecError
from askance.core.notes import noted, shown_by
from askance.models import bundled
from askance.models.bundled import convert_once


def write(folder: Path) -> None:
    (folder / "weights").write_text("whole")


def test_conversion_happens_once(tmp_path):
    target = tmp_path / "models" / "tiny"
    assert convert_once(target, write) == target
    assert (target / "weights").read_text() == "whole"
    assert convert_once(target, lambda folder: pytest.fail("converted again")) == target


def test_an_interrupted_conversion_leaves_nothing_that_looks_whole(tmp_path):
    target = tmp_path / "tiny"

    def interrupted(folder: Path) -> None:
        (folder / "weights").write_text("ha")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert_once(target, interrupted)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
    convert_once(target, write)
    assert (target / "weights").read_text() == "whole"
    assert sorted(path.name for path in target.iterdir()) == ["weights"]


def test_two_processes_convert_once(tmp_path):
    code = f"""
import time
from pathlib import Path
from askance.models.bundled import convert_once

def write(folder):
    with open({str(tmp_path / "log")!r}, "a") as log:
        log.write("began\\n")
    (folder / "weights").write_text("ha")
    time.sleep(0.5)
    (folder / "weights").write_text("whole")

folder = convert_once(Path({str(tmp_path / "tiny")!r}), write)
print((folder / "weights").read_text())
"""
    both = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert [process.communicate(timeout=60)[0].strip() for process in both] == ["whole", "whole"]
    assert (tmp_path / "log").read_text() == "began\n"


def test_a_killed_conversion_is_begun_anew(tmp_path):
    code = f"""
import os, signal
from pathlib import Path
from askance.models.bundled import convert_once

def write(folder):
    (folder / "weights").write_text("ha")
    (folder / "left over").write_text("ha")
    os.kill(os.getpid(), signal.SIGKILL)

convert_once(Path({str(tmp_path / "tiny")!r}), write)
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    assert not (tmp_path / "tiny").exists()
    convert_once(tmp_path / "tiny", write)
    assert [path.name for path in (tmp_path / "tiny").iterdir()] == ["weights"]


def test_who_waits_for_another_process_says_so(tmp_path):
    target, messages, waits = tmp_path / "tiny", [], threading.Event()

    @contextmanager
    def shows(what, total):
        messages.append(what)
        waits.set()
        yield lambda amount: None

    def convert():
        with shown_by(shows):
            convert_once(target, write)

    with FileLock(tmp_path / "tiny.lock"):
        other = threading.Thread(target=convert)
        other.start()
        assert waits.wait(60)
        assert not target.exists()
    other.join(60)
    assert target.is_dir()
    assert messages == ["converting the weights, once on this machine, here or in another process"]


def test_a_cache_that_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelSpecError, match=r"can't be written: Not a directory.* ASKANCE_CACHE"):
        convert_once(tmp_path / "file" / "models" / "tiny", write)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (OSError("4608 requested and 12 written"), "only a part was written (4608 requested and 12 written)"),
    ],
)
def test_a_disk_without_room(tmp_path, monkeypatch, error, reason):
    def until_full(folder: Path) -> None:
        (folder / "weights").write_text("ha")
        raise error

    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=12_345_678))
    with pytest.raises(ModelSpecError) as caught:
        convert_once(tmp_path / "tiny", until_full, megabytes=145)
    assert f"can't be written: {reason}. The weights take 145 MB, and 12 MB are free" in str(caught.value)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


@pytest.fixture
def read_only(tmp_path, monkeypatch):
    """Return a read-only folder, and the folder for temporary files that replaces it."""
    folder, temporary = tmp_path / "cache", tmp_path / "temporary"
    (folder / "models").mkdir(parents=True)
    temporary.mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: not path.is_relative_to(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setattr(bundled, "_temporary_folder", cache(bundled._temporary_folder.__wrapped__))
    return folder, temporary


def test_a_read_only_cache_is_replaced_for_this_process(read_only):
    folder, temporary = read_only
    notes = []
    with noted(lambda name, text: notes.append((name, text))):
        made = convert_once(folder / "models" / "tiny", write)
        again = convert_once(folder / "models" / "tiny", lambda folder: pytest.fail("converted again"))
    assert made == again
    assert made.is_relative_to(temporary)
    assert (made / "weights").read_text() == "whole"
    ((name, text),) = notes
    assert name == "cache"
    assert f"{str(folder / 'models')!r} can't be written: the weights are converted into" in text
    assert "name another folder in the environment variable ASKANCE_CACHE" in text


def test_what_replaced_the_cache_goes_with_the_process(tmp_path):
    code = f"""
import os
from pathlib import Path
from askance.models.bundled import convert_once

os.access = lambda path, mode: False
print(convert_once(Path({str(tmp_path / "cache" / "tiny")!r}), lambda folder: (folder / "a").touch()))
"""
    (tmp_path / "temporary").mkdir()
    finished = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
    )
    assert Path(finished.stdout.strip()).is_relative_to(tmp_path / "temporary")
    assert not list((tmp_path / "temporary").iterdir())


def test_neither_the_cache_nor_the_temporary_folder_can_be_written(read_only, monkeypatch):
    def nowhere(**_):
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "mkdtemp", nowhere)
    with pytest.raises(ModelSpecError, match=r"can't be written: No usable temporary.*ASKANCE_CACHE"):
        convert_once(read_only[0] / "tiny", write)
