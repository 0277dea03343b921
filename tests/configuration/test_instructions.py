"""Self-RAG's instructions from a file."""

import pytest

from askance.configuration.methods import make_method
from askance.configuration.prompts import open_prompts
from askance.core.errors import PromptsError, UnknownName
from askance.methods.selfrag.prompts import OWN_INSTRUCTIONS, Instructions


def written(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_replaces_what_it_names(tmp_path):
    path = written(tmp_path, 'claim = "Is this true?"\nbiography = "Tell it.\\n"\n')
    found = open_prompts(path, Instructions)
    assert found == Instructions(claim="Is this true?", biography="Tell it.\n")
    assert found.choice == OWN_INSTRUCTIONS.choice
    assert make_method("selfrag", {"instructions": str(path)}).instructions == found
    assert make_method("selfrag", {"instructions": "own"}).instructions == OWN_INSTRUCTIONS
    assert open_prompts(written(tmp_path, ""), Instructions) == OWN_INSTRUCTIONS


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ('clame = "Is it?"', UnknownName, "clame.*claim"),
        ("claim = 1", PromptsError, r"mine\.toml, claim: 1 is not a text"),
        ("claim =", PromptsError, r"mine\.toml is not TOML"),
    ],
)
def test_errors_name_the_file_the_key_and_the_remedy(text, error, says, tmp_path):
    with pytest.raises(error, match=says):
        open_prompts(written(tmp_path, text), Instructions)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(PromptsError, match=r"can't read the prompts .*nowhere.* to change: question, claim"):
        open_prompts(tmp_path / "nowhere.toml", Instructions)
    with pytest.raises(UnknownName, match=r"unknown prompt set 'nowhere' of selfrag.*Known: own"):
        open_prompts("nowhere", Instructions)
