"""The values of presets for the reproductions, and a preset file that is written for one."""

import pytest

from askance.configuration.methods import make_method
from askance.configuration.presets import preset_text
from askance.core.parameters import changed_parameters
from tests.configuration.test_presets import HOTPOT, filled


@pytest.mark.parametrize(
    ("name", "threshold", "query_top", "max_tokens"),
    [
        ("llama2-13b-chat/2wikimultihopqa", 0.8, 25, 64),
        (HOTPOT, 1.2, 35, 100),
        ("llama2-7b-chat/iirc", 0.6, 35, 128),
        ("vicuna-13b-v1.5/strategyqa", 1.5, 25, 100),
    ],
)
def test_the_values_of_the_authors_configurations(name, threshold, query_top, max_tokens):
    dragin = filled("dragin_authors", name)
    assert (dragin.threshold, dragin.query_top, dragin.max_tokens) == (threshold, query_top, max_tokens)
    assert filled("flare_token", "vicuna-13b-v1.5/iirc").threshold == 0.4


def test_what_is_written_can_be_read_again(tmp_path):
    path = tmp_path / "p"
    settings = {"threshold": 0.25, "space_marker": '"▁\\', "real_words_only": "no"}
    method = make_method("dragin_authors", settings)
    path.write_text(preset_text(type(method), changed_parameters(method), ["two\nlines"]), encoding="utf-8")
    assert path.read_text(encoding="utf-8").startswith("# two lines\n[dragin_authors]\n")
    assert filled("dragin_authors", path) == method
