"""Test that weights are converted once on a machine, completely or not at all."""

import errno
import os
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from filelock import FileLock

from askance.core.errors import ModelSpecError
from askance.core.notes import shown_by
from askance.models import bundled
from askance.models.bundled import convert_once


def write(folder: Path) -> None:
    (folder / "weights").write_text("whole")


def write_again(folder: Path) -> None:
    pytest.fail("converted again")


def begun(code, *arguments, **options):
    code = "import os, sys, time\nfrom pathlib import Path\nfrom askance.models.bundled import *\n" + code
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)


def folders(path):
    return [each.name for each in path.iterdir() if each.is_dir()]


TWICE = """
def write(folder):
    with open(sys.argv[2], "a") as log:
        log.write("began\\n")
    (folder / "weights").write_text("ha")
    time.sleep(0.5)
    (folder / "weights").write_text("whole")

print((convert_once(Path(sys.argv[1]), write) / "weights").read_text())
"""


def test_two_processes_convert_once(tmp_path):
    target = tmp_path / "models" / "tiny"
    both = [begun(TWICE, target, tmp_path / "log") for _ in range(2)]
    assert [process.communicate(timeout=60)[0].strip() for process in both] == ["whole", "whole"]
    assert (tmp_path / "log").read_text() == "began\n"
    assert convert_once(target, write_again) == target


KILLED = """
def write(folder):
    (folder / "weights").write_text("ha")
    (folder / "left over").write_text("ha")
    os.kill(os.getpid(), 9)

convert_once(Path(sys.argv[1]), write)
"""


def test_an_interrupted_or_killed_conversion_is_begun_anew(tmp_path):
    target = tmp_path / "tiny"

    def interrupted(folder: Path) -> None:
        (folder / "weights").write_text("ha")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert_once(target, interrupted)
    assert folders(tmp_path) == []
    begun(KILLED, target).communicate()
    assert not target.exists()
    convert_once(target, write)
    assert [path.name for path in target.iterdir()] == ["weights"]
    assert (target / "weights").read_text() == "whole"


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


def test_the_fingerprint_depends_on_the_content(tmp_path):
    path, fingerprints = tmp_path / "file", set()
    for content in (b"", b"a", b"b" * 200_000, b"b" * 199_999 + b"c"):
        path.write_bytes(content)
        fingerprints.add(bundled._fingerprint(path))
    assert len(fingerprints) == 4


NO_ROOM = OSError(errno.ENOSPC, "No space left on device")
A_PART = OSError("4608 requested and 12 written")
TAKES = r"\. The weights take 145 MB, and 12 MB are free"


@pytest.mark.parametrize(
    ("parent", "error", "told"),
    [
        ("file/models", None, r"can't be written: Not a directory.* ASKANCE_CACHE"),
        ("", NO_ROOM, "can't be written: No space left on device" + TAKES),
        ("", A_PART, r"written: only a part was written \(4608 requested and 12 written\)" + TAKES),
    ],
)
def test_a_cache_that_can_not_be_written(tmp_path, monkeypatch, parent, error, told):
    def until_full(folder: Path) -> None:
        (folder / "weights").write_text("ha")
        raise error

    (tmp_path / "file").write_text("")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=12_345_678))
    with pytest.raises(ModelSpecError, match=told):
        convert_once(tmp_path / parent / "tiny", until_full, megabytes=145)
    assert folders(tmp_path) == []


READ_ONLY = """
import tempfile
from askance.core.notes import noted
from askance.models import bundled

os.access = lambda path, mode: False
target = Path(sys.argv[1])
with noted(lambda name, text: print(name, text)):
    made = {convert_once(target, lambda folder: (folder / "a").touch()) for _ in range(2)}
print(*made)
bundled._temporary_folder.cache_clear()
tempfile.tempdir = str(target / "nowhere")
try:
    convert_once(target.with_name("other"), lambda folder: None)
except Exception as error:
    print(type(error).__name__, error)
"""


def test_a_read_only_cache_is_replaced_for_this_process(tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    process = begun(READ_ONLY, tmp_path / "cache" / "tiny", env={**os.environ, "TMPDIR": str(temporary)})
    note, made, refused = process.communicate()[0].splitlines()
    assert f"folder {str(tmp_path / 'cache')!r} can't be written: the weights are converted into" in note
    assert "name another folder in the environment variable ASKANCE_CACHE" in note
    assert Path(made).is_relative_to(temporary)
    assert folders(temporary) == [], "it goes with the process"
    assert refused.startswith("ModelSpecError ")
    assert "can't be written: No such file or directory" in refused
    assert "ASKANCE_CACHE" in refused
