"""Presets: what ships, what a file may hold, and what is filled."""

import dataclasses

import pytest

from askance.configuration.build import read_settings, with_preset
from askance.configuration.methods import make_method
from askance.configuration.presets import OF_MODELS, open_preset, preset_text, shipped
from askance.configuration.prompts import open_prompts
from askance.configuration.settings import open_engine
from askance.core.errors import AskanceError, ParameterError, PresetError, UnknownName
from askance.methods.flare import Flare
from tests.models.tiny import save_adapter

EFFORT = ("effort/low", "effort/medium", "effort/high", "effort/auto")
AIRRAG = {
    "paper": (1, 1, 0.0, 0, 8192),
    "paper/table3": (32, 3, 1.0, 3, None),
    "paper/table5": (1, 1, 0.0, 5, None),
}
"""R, n, q_div, k and L_max of the AirRAG paper's tables: 1 and 4, 3 (with 2), 5."""
HOTPOT = "llama2-13b-chat/hotpotqa"


def filled(method, preset, **settings):
    return make_method(method, with_preset(method, settings, "scripted", preset))


@pytest.mark.parametrize("name", shipped())
def test_everything_that_ships_fits_its_method(name):
    preset = shipped()[name]
    for (method, profile), parameters in preset.entries.items():
        settings = {"profile": profile} if profile else {}
        assert preset.parameters(type(make_method(method, settings)), settings) == parameters


def test_the_paper_s_table_is_whole():
    names = {f"{model}/{data}" for model in ("llama2-13b-chat", "llama2-7b-chat", "vicuna-13b-v1.5")
             for data in ("2wikimultihopqa", "hotpotqa", "iirc", "strategyqa")}  # fmt: skip
    assert set(shipped()) == {*names, *OF_MODELS, *AIRRAG, *EFFORT}
    for name in names:
        known = {*shipped()[name].entries}
        assert known == {("dragin", "paper"), ("dragin", "code"), ("flare_token", "code")}


@pytest.mark.parametrize(
    ("name", "profile", "threshold", "query_top", "max_tokens"),
    [
        ("llama2-13b-chat/2wikimultihopqa", "paper", 0.6, 25, 64),
        ("llama2-13b-chat/2wikimultihopqa", "code", 0.8, 25, 64),
        (HOTPOT, "code", 1.2, 35, 100),
        ("llama2-7b-chat/iirc", "paper", 1.3, 35, 128),
        ("llama2-7b-chat/iirc", "code", 0.6, 35, 128),
        ("vicuna-13b-v1.5/strategyqa", "code", 1.5, 25, 100),
    ],
)
def test_the_profile_decides_between_the_table_and_the_configurations(
    name, profile, threshold, query_top, max_tokens
):
    dragin = filled("dragin", name, profile=profile)
    assert (dragin.threshold, dragin.query_top, dragin.max_tokens) == (threshold, query_top, max_tokens)


@pytest.mark.parametrize("name", AIRRAG)
def test_the_settings_of_the_airrag_paper(name):
    rollouts, samples, q_div, passages, l_max = AIRRAG[name]
    for method in ("airrag", "airrag_lite"):
        airrag = filled(method, name)
        assert (airrag.rollouts, airrag.samples, airrag.answer_samples) == (rollouts, samples, 1)
        assert (airrag.q_div, airrag.passages, airrag.l_max) == (q_div, passages, l_max)
        assert (airrag.temperature, airrag.top_p, airrag.top_k, airrag.most_iterations) == (0.7, 0.8, 50, 4)
    assert filled("airrag", name).has_direct_candidate, "a direct answer runs together with the analysis"
    for baseline in ("single", "iterdrag"):
        assert (filled(baseline, name).passages, filled(baseline, name).l_max) == (passages, l_max)
    blender = filled("blender", name)
    assert blender.l_max == l_max
    assert {member: method.passages for member, method in blender.methods.named} == dict.fromkeys(
        ("single", "iterdrag", "airrag_lite", "airrag"), passages
    )
    assert filled("airrag", name, l_max=32768).l_max == 32768
    assert all(method.l_max is None for _, method in filled("blender", name, l_max=32768).methods.named)


def test_the_variant_of_flare_in_the_same_configurations():
    assert filled("flare_token", "vicuna-13b-v1.5/iirc").threshold == 0.4


def test_what_is_set_explicitly_stays():
    dragin = filled("dragin", HOTPOT, profile="paper", threshold="0.7", max_tokens=20)
    assert (dragin.threshold, dragin.query_top, dragin.max_tokens) == (0.7, 35, 20)


def test_a_threshold_is_left_out_where_the_words_beside_it_are_others():
    plain = make_method("dragin", {"profile": "paper"}).threshold
    dragin = filled("dragin", HOTPOT, profile="paper", trigger="every_sentence")
    assert (dragin.threshold, dragin.query_top) == (plain, 35)
    assert filled("dragin", HOTPOT, profile="paper", trigger="rind").threshold == 1.2


@pytest.mark.parametrize("profile", ["default", "paper", "code"])
def test_a_threshold_without_words_beside_it_is_the_default_trigger_s(tmp_path, profile):
    path = tmp_path / "p.toml"
    path.write_text(f"[dragin.{profile}]\nthreshold = 0.6\nquery_top = 30\n")
    other = filled("dragin", path, profile=profile, trigger="token_probability")
    assert (other.threshold, other.query_top) == (None, 30)
    assert other.theta < 0.6
    if profile == "code":
        assert filled("dragin", path, profile=profile, doubt="surprise").threshold is None
    assert filled("dragin", path, profile=profile).threshold == 0.6
    assert filled("dragin", path, profile=profile, trigger="rind").threshold == 0.6


def test_a_threshold_of_another_trigger_is_kept_for_it(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text('[dragin.paper]\ntrigger = "token_probability"\nthreshold = 0.6\n')
    assert filled("dragin", path, profile="paper").theta == 0.6
    assert filled("dragin", path, profile="paper", trigger="rind").theta == 1.0


@pytest.mark.parametrize(
    ("method", "settings", "error", "expected"),
    [
        ("flare", {}, PresetError, "nothing for method flare: it knows dragin, flare_token"),
        ("dragin", {"profile": "papr"}, ParameterError, "one of"),
        ("flare", {"profile": "paper"}, UnknownName, "unknown parameter 'profile'"),
    ],
)
def test_a_preset_that_does_not_know(method, settings, error, expected):
    with pytest.raises(error, match=expected):
        open_engine(method=method, model="scripted", parameters=settings, preset=HOTPOT)


def test_a_profile_without_threshold_says_what_to_do(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text("[dragin.code]\nthreshold = 0.5\n")
    with pytest.raises(PresetError, match=r"profile 'paper' of dragin, only for code.*askance calibrate"):
        filled("dragin", path, profile="paper")


def test_unknown_names_offer_the_nearest():
    with pytest.raises(UnknownName, match=f"did you mean '{HOTPOT}'"):
        open_preset("llama2-13b-chat/hotpot")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[flare\n", "p.toml is not TOML"),
        ("[flare]\npassages = 1" + "0" * 5000, "p.toml is not TOML"),
        ("search_below = 0.3\n", "belongs to no method"),
        ("[flare.paper]\nsearch_below = 0.3\n", r"belong under \[METHOD\], as it has no profiles"),
        ("[flare]\nsearch_belo = 0.3\n", "did you mean 'search_below'"),
        ("[flare]\nsearch_below = 3\n", "from 0 to 1"),
        ('[flare]\nsearch_below = "often"\n', "expected float"),
        ("[flare]\nsearch_below = [0.3]\n", "expected float"),
        ("about = 3\n[flare]\nsearch_below = 0.3\n", "is no text"),
        ("[flair]\nsearch_below = 0.3\n", "it knows flair"),
        ("", "it knows no method"),
    ],
)
def test_malformed_files(tmp_path, text, expected):
    path = tmp_path / "p.toml"
    path.write_text(text)
    with pytest.raises(PresetError, match=expected):
        filled("flare", path)


def test_a_method_with_profiles_whose_parameters_stand_under_none(tmp_path):
    path = tmp_path / "p.toml"
    loose = "[dragin]\nthreshold = 0.3\n"
    for text in (loose, loose + "[dragin.paper]\nthreshold = 0.3\n", "[dragin]\npaper = 0.3\n"):
        path.write_text(text)
        with pytest.raises(PresetError, match=r"belong under \[METHOD\.PROFILE\]"):
            filled("dragin", path, profile="paper")


def test_no_parameter_leads_out_of_the_profile_of_its_heading(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text('[dragin.default]\nprofile = "paper"\nthreshold = 0.3\n')
    with pytest.raises(PresetError, match=r"profile='paper' stands under \[dragin\.default\]: leave it out"):
        filled("dragin", path)


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text("[flare]\nsearch_below = 0.3\n", encoding="utf-8-sig")
    assert filled("flare", path).search_below == 0.3


def test_files_that_can_not_be_read(tmp_path):
    with pytest.raises(PresetError, match=r"can't read the preset .*absent\.toml"):
        open_preset(tmp_path / "absent.toml")
    (tmp_path / "latin").write_bytes(b"\xe9")
    with pytest.raises(PresetError, match="latin"):
        open_preset(tmp_path / "latin")


def test_what_is_written_can_be_read_again(tmp_path):
    path = tmp_path / "p"
    settings = {"profile": "code", "threshold": 0.25, "space_marker": '"▁\\', "real_words_only": "no"}
    typed = read_settings("dragin", settings)
    cls = type(make_method("dragin", settings))
    path.write_text(preset_text(cls, typed, ["two\nlines"]), encoding="utf-8")
    assert path.read_text(encoding="utf-8").startswith("# two lines\n[dragin.code]\n")
    assert filled("dragin", path, profile="code") == make_method("dragin", settings)
    path.write_text(preset_text(Flare, {"search_below": 0.3}, []))
    assert filled("flare", path) == Flare(search_below=0.3)


def test_a_record_is_named_in_a_comment():
    text = preset_text(Flare, {"prompts": Flare().prompts, "search_below": 0.3}, ["measured"])
    assert text.startswith("# measured\n# with prompts=")
    assert text.endswith(", to be set again\n[flare]\nsearch_first = true\nsearch_below = 0.3\n")


def test_the_bundled_model_gets_what_was_measured_for_it():
    plain, read = (shipped()[name].entries for name in ("bundled:base", "bundled"))
    assert plain.keys() == read.keys()
    assert all(plain[key] != read[key] for key in plain)
    assert shipped()["bundled"].about != shipped()["bundled:base"].about
    reader_prompts = {"bundled": {"prompts": open_prompts("plain")}, "bundled:base": {}}
    for name in OF_MODELS:
        measured = shipped()[name].entries["flare", ""]
        assert measured["search_below"] != Flare().search_below
        for spec in (name, f"{name}?dtype=float32"):
            assert with_preset("flare", {}, spec, None) == {**measured, **reader_prompts[name]}
    assert with_preset("flare", {"search_below": 0.5}, "bundled", None)["search_below"] == 0.5
    assert "search_below" not in with_preset("flare", {"search_first": "no"}, "bundled", None)
    assert with_preset("closed_book", {}, "bundled", None) == reader_prompts["bundled"]
    for spec in ("scripted", "hf:bundled", "bundled:base?dtype=float32&adapter=mine"):
        assert with_preset("flare", {}, spec, None) == {}


def test_a_preset_named_takes_the_place_of_the_bundled_one(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text("[flare]\npassages = 5\n")
    assert with_preset("flare", {}, "bundled", path) == {"passages": 5, "prompts": open_prompts("plain")}


def test_a_trained_reader_is_asked_as_it_was_trained(tmp_path, qwen_folder):
    folder = save_adapter(tmp_path / "reader", str(qwen_folder), base_spec=f"hf:{qwen_folder}")
    plain, own = open_prompts("plain"), open_prompts("own")
    for spec in (f"hf:{folder}", f"hf:{qwen_folder}?adapter={folder}", f"bundled:base?adapter={folder}"):
        assert with_preset("single", {}, spec, None) == {"prompts": plain}
        assert with_preset("single", {"prompts": "own"}, spec, None)["prompts"] == own
        assert with_preset("dragin", {"profile": "paper"}, spec, HOTPOT)["prompts"] == plain
    for spec in ("", "scripted", f"hf:{qwen_folder}", "hf:owner/name", "hf:file.gguf"):
        assert with_preset("single", {}, spec, None) == {}


def test_a_reader_with_prompts_that_are_not_known(tmp_path, qwen_folder):
    folder = save_adapter(tmp_path / "reader", str(qwen_folder), base_spec=f"hf:{qwen_folder}")
    note = folder / "reader.json"
    note.write_text(note.read_text().replace("plain", "plains"))
    with pytest.raises(UnknownName, match=r"unknown prompt set 'plains'.*did you mean 'plain'"):
        with_preset("single", {}, f"hf:{folder}", None)


def test_the_trace_shows_the_value_used(bundled_by_name, sample_index):
    engine = open_engine(method="flare", index=sample_index)
    measured = shipped()["bundled"].entries["flare", ""]["search_below"]
    result = engine.ask("Where was Ingmar Bergman born?")
    assert f"search_below={measured}" in result.trace.events[0].method


def test_preset_errors_are_ours():
    assert issubclass(PresetError, AskanceError)
    assert PresetError.exit_code == 2


@pytest.mark.parametrize("method", ["airrag", "airrag_lite"])
def test_effort_rises_from_low_to_high_and_auto_may_stop_earlier(method):
    low, medium, high, auto = (
        make_method(method, with_preset(method, {}, "", f"effort/{level}"))
        for level in ("low", "medium", "high", "auto")
    )
    assert low.rollouts < medium.rollouts < high.rollouts
    assert dataclasses.replace(auto, stop_lead=0.0, wave=high.wave) == high
    assert auto.stop_lead > 0
    assert make_method(method, with_preset(method, {"stop_lead": 3.0}, "", "effort/auto")).stop_lead == 3.0
