"""Files that users have from earlier versions, whose keys had other names, still open."""

import json

import pytest

import askance
from askance.config_sources import read_config
from askance.evaluation.run.recorded_run import read_run
from askance.storage.durable_files import unsealed
from tests.evaluation.hand_made import record, written


def test_a_configuration_that_calls_parameters_knobs(tmp_path):
    path = tmp_path / "askance.toml"
    path.write_text("method = 'single'\n[knobs]\npassages = 2\n", encoding="utf-8")
    assert read_config(file=path).config.parameters == {"passages": 2}


def test_the_former_name_is_not_suggested(tmp_path):
    path = tmp_path / "askance.toml"
    path.write_text("parametres = 1\n", encoding="utf-8")
    with pytest.raises(askance.InputError, match="did you mean 'parameters'") as caught:
        read_config(file=path)
    assert "knobs" not in str(caught.value)


def test_an_engine_that_is_given_knobs(sample_index):
    with pytest.raises(askance.InputError, match="passages"):
        askance.open_engine(index=sample_index, method="single", model="scripted", knobs={"passages": -1})


def test_a_run_folder_that_calls_parameters_knobs(tmp_path):
    path = tmp_path / "run" / "settings.json"
    wanted = written(tmp_path / "run", [record(1)]).settings
    assert wanted.parameters
    content = json.loads(unsealed(path.read_bytes(), old=b"{\n"))
    content["knobs"] = content.pop("parameters")
    path.write_bytes(json.dumps(content, indent=1).encode())
    assert read_run(tmp_path / "run").settings == wanted
