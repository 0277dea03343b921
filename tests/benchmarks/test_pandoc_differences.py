"""The words that only one of two readers has."""

import shutil
import subprocess
import sys

import pytest

from askance.core.errors import InputError
from benchmarks import pandoc_differences


def test_the_words_that_only_one_reader_has_are_listed_by_format(monkeypatch, tmp_path, capsys):
    printed = subprocess.CompletedProcess([], 0, "Quokka CO₂ page wombat".encode())
    monkeypatch.setattr(pandoc_differences.subprocess, "run", lambda *_, **__: printed)
    monkeypatch.setattr(pandoc_differences, "pandoc_path", lambda: "pandoc")
    monkeypatch.setattr(pandoc_differences, "write_files", lambda folder: None)
    (tmp_path / "a.html").write_text("<title>Page</title><p>quokka CO<sub>2</sub> koala")
    assert pandoc_differences.main([str(tmp_path)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "html 1 66.7% 66.7% a.html: pandoc lacks koala; askance lacks wombat" in shown


def test_without_pandoc_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pypandoc", None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(InputError, match="pip install pypandoc_binary"):
        pandoc_differences.main([])
