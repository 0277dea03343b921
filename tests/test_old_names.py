"""Files that users have from earlier versions, whose keys had other names, still open."""

import json

import pytest

import askance
from askance.config_sources import read_config
from askance.evaluation.run.recorded_run import read_run
from askance.registry import make_method, with_preset
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


FORMER = {"elicit": "no", "elicit_tokens": "7", "wording": "plain"}
CURRENT = {"ask_short_answer": "no", "short_answer_tokens": "7", "prompts": "plain"}


@pytest.mark.parametrize("method", ["single", "dragin", "selfrag", "flare"])
def test_parameters_under_their_former_names(method):
    assert make_method(method, FORMER) == make_method(method, CURRENT) != make_method(method)


def test_former_parameters_of_a_member():
    settings = {"methods": "single", "single.wording": "plain"}
    assert make_method("blender", settings) == make_method(
        "blender", {"methods": "single", "single.prompts": "plain"}
    )


def test_former_parameters_of_another_profile():
    with pytest.raises(askance.InputError, match="layout of method dragin: its profile code has none"):
        make_method("dragin", {"profile": "code", "layout": "chat", "elicit": "no"})


@pytest.mark.parametrize(("former", "current"), list(zip(FORMER, CURRENT, strict=True)))
def test_a_parameter_under_both_names(former, current):
    both = {former: FORMER[former], current: CURRENT[current]}
    with pytest.raises(
        askance.InputError, match=f"parameter {former} of method single: it is called {current} now"
    ):
        make_method("single", both)


def test_prompts_beside_their_former_parameter(sample_index):
    with pytest.raises(askance.InputError, match="both name the prompts"):
        askance.open_engine(
            index=sample_index,
            method="single",
            model="scripted",
            prompts="plain",
            parameters={"wording": "own"},
        )


def test_a_method_without_such_a_parameter_does_not_know_the_former_name():
    with pytest.raises(askance.InputError, match="unknown parameter 'wording'"):
        make_method("iterdrag", {"wording": "plain"})


def test_a_preset_with_former_names(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("about = 'Mine.'\n[flare]\nsearch_below = 0.3\nelicit_tokens = 7\n", encoding="utf-8")
    assert with_preset("flare", {}, "", path) == {"search_below": 0.3, "short_answer_tokens": 7}


def test_a_run_folder_with_former_parameters(tmp_path):
    path = tmp_path / "run" / "settings.json"
    written(tmp_path / "run", [record(1)])
    content = json.loads(unsealed(path.read_bytes(), old=b"{\n"))
    content["parameters"] = {"elicit": "False", "passages": "3"}
    content["title"] = "single (elicit=False, passages=3)"
    path.write_bytes(json.dumps(content, indent=1).encode())
    settings = read_run(tmp_path / "run").settings
    assert settings.parameters == {"ask_short_answer": "False", "passages": "3"}
    assert settings.title == "single (ask_short_answer=False, passages=3)"


def test_a_former_name_in_a_file_is_overridden_by_the_current_one_in_a_flag_and_the_other_way_round(tmp_path):
    path = tmp_path / "askance.toml"
    for former, current in zip(FORMER, CURRENT, strict=True):
        for in_file, in_flag in ((former, current), (current, former)):
            path.write_text(f"method = 'single'\n[set]\n{in_file} = '{FORMER[former]}'\n", encoding="utf-8")
            value = {"wording": "musique", "elicit": "yes", "elicit_tokens": "9"}[former]
            config = read_config({"parameters": {in_flag: value}}, file=path).config
            assert config.parameters == {in_flag: value}
            expected = getattr(make_method("single", {current: value}), current)
            assert getattr(config.make(), current) == expected


def test_a_wrong_value_under_a_former_name_is_named_with_its_file_and_line(tmp_path):
    path = tmp_path / "askance.toml"
    path.write_text("method = 'single'\nset.wording = 'nope'\n", encoding="utf-8")
    sourced = read_config(file=path)
    assert ("parameters.wording", "nope", f"{path}, line 2") in [*sourced.lines()]
    with pytest.raises(askance.InputError, match=r"askance\.toml, line 2: unknown prompt set 'nope'"):  # noqa: SIM117
        with sourced.naming_origins(("parameters",)):
            sourced.config.make()


def test_both_names_in_one_file_are_an_error(tmp_path):
    path = tmp_path / "askance.toml"
    path.write_text("method = 'single'\n[set]\nwording = 'own'\nprompts = 'plain'\n", encoding="utf-8")
    with pytest.raises(askance.InputError, match="it is called prompts now, and both are given"):
        read_config(file=path).config.make()


def test_a_run_with_a_prompt_file_of_an_earlier_version(tmp_path):
    path = tmp_path / "run" / "settings.json"
    written(tmp_path / "run", [record(1)])
    content = json.loads(unsealed(path.read_bytes(), old=b"{\n"))
    content["parameters"] = {"wording": "wording-0123abcd", "note": "wording-less"}
    content["title"] = "single (wording=wording-0123abcd)"
    path.write_bytes(json.dumps(content, indent=1).encode())
    settings = read_run(tmp_path / "run").settings
    assert settings.parameters == {"prompts": "prompts-0123abcd", "note": "wording-less"}
    assert settings.title == "single (prompts=prompts-0123abcd)"
