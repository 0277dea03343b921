"""Presets: what ships, what a file may hold, and what is filled."""

import dataclasses

import pytest

from askance.configuration.methods import make_method
from askance.configuration.presets import OF_MODELS, open_preset, preset_text, shipped
from askance.configuration.prompts import open_prompts
from askance.configuration.settings import open_engine
from askance.core.errors import AskanceError, PresetError, UnknownName
from askance.core.parameters import changed_parameters
from askance.methods.flare import Flare
from tests.laboratory import usable

EFFORT = ("effort/low", "effort/medium", "effort/high", "effort/auto")
AIRRAG = {
    "paper": (1, 1, 0.0, 0, 8192),
    "paper/table3": (32, 3, 1.0, 3, None),
    "paper/table5": (1, 1, 0.0, 5, None),
}
"""R, n, q_div, k and L_max of the AirRAG paper's tables: 1 and 4, 3 (with 2), 5."""
HOTPOT = "llama2-13b-chat/hotpotqa"


def filled(method, preset, **settings):
    return make_method(method, settings, model="scripted", preset=preset)


def changed(method, settings, model, preset):
    """The parameters of a method that a preset, a reader's prompts or the settings change."""
    return changed_parameters(make_method(method, settings, model=model, preset=preset))


@pytest.mark.parametrize("name", shipped())
def test_everything_that_ships_fits_its_method(name):
    preset = shipped()[name]
    for method in usable(*preset.entries):
        assert preset.parameters(type(make_method(method)), {}) == preset.entries[method]


def test_the_paper_s_table_is_whole():
    names = {f"{model}/{data}" for model in ("llama2-13b-chat", "llama2-7b-chat", "vicuna-13b-v1.5")
             for data in ("2wikimultihopqa", "hotpotqa", "iirc", "strategyqa")}  # fmt: skip
    assert set(shipped()) == {*names, *OF_MODELS, *AIRRAG, *EFFORT}
    for name in names:
        assert {*shipped()[name].entries} == {"dragin_paper", "dragin_authors", "flare_token"}


@pytest.mark.parametrize(
    ("name", "method", "threshold", "query_top", "max_tokens"),
    [
        ("llama2-13b-chat/2wikimultihopqa", "dragin_paper", 0.6, 25, 64),
        ("llama2-7b-chat/iirc", "dragin_paper", 1.3, 35, 128),
    ],
)
def test_the_values_of_the_table(name, method, threshold, query_top, max_tokens):
    dragin = filled(method, name)
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


def test_what_is_set_explicitly_stays():
    dragin = filled("dragin_paper", HOTPOT, threshold="0.7", max_tokens=20)
    assert (dragin.threshold, dragin.query_top, dragin.max_tokens) == (0.7, 35, 20)


def test_a_threshold_is_left_out_where_the_words_beside_it_are_others():
    dragin = filled("dragin_paper", HOTPOT, trigger="every_sentence")
    assert (dragin.threshold, dragin.query_top) == (make_method("dragin_paper").threshold, 35)
    assert filled("dragin_paper", HOTPOT, trigger="rind").threshold == 1.2


@pytest.mark.parametrize("method", usable("dragin", "dragin_paper", "dragin_authors"))
def test_a_threshold_without_words_beside_it_is_the_default_trigger_s(tmp_path, method):
    path = tmp_path / "p.toml"
    path.write_text(f"[{method}]\nthreshold = 0.6\nquery_top = 30\n")
    other = filled(method, path, trigger="token_probability")
    assert (other.threshold, other.query_top) == (None, 30)
    assert other.theta < 0.6
    assert filled(method, path).threshold == filled(method, path, trigger="rind").threshold == 0.6


def test_a_threshold_of_another_trigger_is_kept_for_it(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text('[dragin_paper]\ntrigger = "token_probability"\nthreshold = 0.6\n')
    assert filled("dragin_paper", path).theta == 0.6
    assert filled("dragin_paper", path, trigger="rind").theta == 1.0


def test_a_preset_that_does_not_know_the_method_says_which_it_knows():
    with pytest.raises(PresetError, match="nothing for method flare: it knows dragin_paper, dragin_authors"):
        open_engine(method="flare", model="scripted", preset=HOTPOT)


def test_unknown_names_offer_the_nearest():
    with pytest.raises(UnknownName, match=f"did you mean '{HOTPOT}'"):
        open_preset("llama2-13b-chat/hotpot")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[flare\n", "p.toml is not TOML"),
        ("[flare]\npassages = 1" + "0" * 5000, "p.toml is not TOML"),
        ("search_below = 0.3\n", "belongs to no method"),
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
    path.write_text(preset_text(Flare, {"search_below": 0.3}, ["two\nlines"]), encoding="utf-8")
    assert path.read_text(encoding="utf-8").startswith("# two lines\n[flare]\n")
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
        measured = shipped()[name].entries["flare"]
        assert measured["search_below"] != Flare().search_below
        for spec in (name, f"{name}?dtype=float32"):
            made = make_method("flare", model=spec)
            assert made == make_method("flare", {**measured, **reader_prompts[name]})
    assert changed("flare", {"search_below": 0.5}, "bundled", None)["search_below"] == 0.5
    assert "search_below" not in changed("flare", {"search_first": "no"}, "bundled", None)
    assert changed("closed_book", {}, "bundled", None) == reader_prompts["bundled"]
    for spec in ("scripted", "hf:bundled", "bundled:base?dtype=float32&adapter=mine"):
        assert changed("flare", {}, spec, None) == {}


def test_a_preset_named_takes_the_place_of_the_bundled_one(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text("[flare]\npassages = 5\n")
    assert changed("flare", {}, "bundled", path) == {"passages": 5, "prompts": open_prompts("plain")}


def test_a_trained_reader_is_asked_as_it_was_trained(tmp_path, qwen_folder):
    from tests.models.tiny import save_adapter

    folder = save_adapter(tmp_path / "reader", str(qwen_folder), base_spec=f"hf:{qwen_folder}")
    plain, own = open_prompts("plain"), open_prompts("own")
    for spec in (f"hf:{folder}", f"hf:{qwen_folder}?adapter={folder}", f"bundled:base?adapter={folder}"):
        assert changed("single", {}, spec, None) == {"prompts": plain}
        assert make_method("single", {"prompts": "own"}, model=spec).prompts == own
        assert changed("dragin_paper", {}, spec, HOTPOT)["prompts"] == plain
    for spec in ("", "scripted", f"hf:{qwen_folder}", "hf:owner/name", "hf:file.gguf"):
        assert changed("single", {}, spec, None) == {}


def test_a_reader_with_prompts_that_are_not_known(tmp_path, qwen_folder):
    from tests.models.tiny import save_adapter

    folder = save_adapter(tmp_path / "reader", str(qwen_folder), base_spec=f"hf:{qwen_folder}")
    note = folder / "reader.json"
    note.write_text(note.read_text().replace("plain", "plains"))
    with pytest.raises(UnknownName, match=r"unknown prompt set 'plains'.*did you mean 'plain'"):
        changed("single", {}, f"hf:{folder}", None)


def test_the_trace_shows_the_value_used(bundled_by_name, sample_index):
    engine = open_engine(method="flare", index=sample_index)
    measured = shipped()["bundled"].entries["flare"]["search_below"]
    result = engine.ask("Where was Ingmar Bergman born?")
    assert f"search_below={measured}" in result.trace.events[0].method


def test_preset_errors_are_ours():
    assert issubclass(PresetError, AskanceError)
    assert PresetError.exit_code == 2


@pytest.mark.parametrize("method", ["airrag", "airrag_lite"])
def test_effort_rises_from_low_to_high_and_auto_may_stop_earlier(method):
    low, medium, high, auto = (
        make_method(method, preset=f"effort/{level}") for level in ("low", "medium", "high", "auto")
    )
    assert low.rollouts < medium.rollouts < high.rollouts
    assert dataclasses.replace(auto, stop_lead=high.stop_lead, wave=high.wave) == high
    assert 0 < auto.stop_lead < high.stop_lead == high.rollouts * high.answer_samples
    assert make_method(method, {"stop_lead": 3.0}, preset="effort/auto").stop_lead == 3.0
