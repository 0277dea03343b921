"""The files of other programs: what is read of them, and what happens if a program fails."""

from pathlib import Path
from subprocess import TimeoutExpired

import pytest
from benchmarks.foreign_content import Fact
from benchmarks.foreign_programs import Program, python_email

from askance.core.types import Passage
from benchmarks import foreign_files

MAIL = (Program("Python"), python_email, "eml")


def shown(capsys):
    return " ".join(capsys.readouterr().out.split())


@pytest.fixture
def programs(monkeypatch):
    def use(*programs):
        monkeypatch.setattr(foreign_files, "PROGRAMS", programs)

    return use


def test_the_mail_of_python_is_read_in_full(programs, tmp_path, capsys):
    programs(MAIL)
    assert foreign_files.main(["--out", str(tmp_path / "out")]) == 0
    table = shown(capsys)
    assert "by-Python.eml Python" in table
    assert " 3/3 3/3 3/3 2/2 1 of 1 files read; 1 with all titles, authors and places" in table
    assert (tmp_path / "out" / "files" / "by-Python.eml").exists()


def test_a_program_that_is_missing_or_fails_costs_its_own_files_and_a_line(programs, tmp_path, capsys):
    def fails(path, content):
        path.write_text("half a page")
        raise RuntimeError("no fonts:\n  Sans")

    def hangs(path, content):
        raise TimeoutExpired(["convert"], 120)

    missing = Program("Missing", "askance-has-no-such-package")
    programs((Program("Bad"), fails, "pdf"), (Program("Slow"), hangs, "odt"), (missing, fails, "pdf"), MAIL)
    assert foreign_files.main(["--out", str(tmp_path / "out")]) == 0
    notes = [line for line in capsys.readouterr().out.splitlines() if line.startswith("not made")]
    assert notes == [
        "not made: by-Bad.pdf: RuntimeError: no fonts: Sans",
        "not made: by-Slow.odt: TimeoutExpired: Command '['convert']' timed out after 120 seconds",
        "not made: Missing (pdf): pip install askance-has-no-such-package",
    ]
    assert [path.name for path in (tmp_path / "out" / "files").iterdir()] == ["by-Python.eml"]


def test_a_lost_word_exits_with_1(programs, tmp_path, capsys):
    def forgets(path, content):
        path.write_text("Subject: Nothing\n\nThere is nothing in it.\n")
        content.word()

    programs((Program("Python"), forgets, "eml"))
    assert foreign_files.main(["--out", str(tmp_path / "out")]) == 1
    assert "0 of 1 files read; 0 with all" in shown(capsys)
    with pytest.raises(FileExistsError):
        foreign_files.main(["--out", str(tmp_path / "out")])


@pytest.mark.parametrize(
    ("page", "section", "is_right"),
    [(1, "Payload", True), (10, "Payload", False), (1, "Payloads", False), (0, "Payload", False)],
)
def test_a_place_has_to_be_the_same(page, section, is_right):
    passage = Passage("1", "Handbook", "text", section=section, page=page)
    fact = Fact("word", "Handbook", ("p. 1", "Payload"))
    made = foreign_files.Made(Path("by-Python.eml"), "Python 3", (fact,))
    *_, places, wrong = foreign_files.row(made, {fact: passage})
    assert places == ("1/1" if is_right else "0/1")
    assert ("place" in wrong) is not is_right
