"""Presets: the packaged ones, the files of users, and what they add to a method."""

import dataclasses

import pytest

from askance.configuration.methods import make_method
from askance.configuration.presets import OF_MODELS, open_preset, preset_text, shipped
from askance.configuration.prompts import open_prompts
from askance.core.errors import InputError, PresetError, UnknownName
from askance.core.parameters import changed_parameters, parse_parameters
from askance.methods.flare import Flare
from tests.laboratory import usable

EFFORT = ("effort/low", "effort/medium", "effort/high", "effort/auto")
AIRRAG = {
    "airrag/table1": (1, 1, 0.0, 0, 8192),
    "airrag/table3": (32, 3, 1.0, 3, None),
    "airrag/table5": (1, 1, 0.0, 5, None),
}
"""R, n, q_div, k and L_max of the AirRAG paper's tables: 1 and 4, 3 (with 2), 5."""
SELFRAG = {
    "selfrag/7b/popqa": ("short", 0.2, 10, 100),
    "selfrag/7b/triviaqa": ("short", 0.2, 10, 100),
    "selfrag/7b/pubhealth": ("short", 0.2, 5, 50),
    "selfrag/7b/arc": ("short", 0.2, 5, 50),
    "selfrag/7b/biographies": ("long", 0.2, 5, 200),
    "selfrag/7b/asqa": ("long", 0.0, 5, 300),
}
"""The form, the threshold and the numbers of passages and tokens of the Self-RAG paper."""
HOTPOT = "dragin/llama2-13b-chat/hotpotqa"


def filled(method, preset, **settings):
    return make_method(method, settings, model="scripted", preset=preset)


def changed(method, settings, model, preset):
    """Return the parameters of a method that a preset, a reader's prompts or the settings change."""
    return changed_parameters(make_method(method, settings, model=model, preset=preset))


def test_every_packaged_preset_fits_its_method():
    models, datasets = (
        "dragin/llama2-13b-chat dragin/llama2-7b-chat dragin/vicuna-13b-v1.5",
        "2wikimultihopqa hotpotqa iirc strategyqa",
    )
    table = {f"{model}/{data}" for model in models.split() for data in datasets.split()}
    assert set(shipped()) == {*table, *OF_MODELS, *AIRRAG, *SELFRAG, *EFFORT}
    for name, preset in shipped().items():
        for method in usable(*preset.entries):
            found = preset.parameters(type(make_method(method)), {}, parse_parameters)
            assert found.items() >= preset.entries[method].items()
            shared = preset.entries.get("any", {})
            assert found.keys() - preset.entries[method].keys() <= shared.keys()
        names = {"any", "dragin_paper", "dragin_authors", "flare_token"}
        assert name not in table or {*preset.entries} == names


@pytest.mark.parametrize(
    "method", ["closed_book", "single", "fixed_length", "fixed_sentence", "flare", "dragin"]
)
def test_a_preset_of_a_paper_has_the_length_of_the_answers_of_every_method(method):
    made = filled(method, HOTPOT)
    assert made.max_tokens == 100
    assert getattr(made, "passages", 3) == 3
    assert filled(method, HOTPOT, max_tokens=7).max_tokens == 7


def test_a_preset_passes_over_methods_that_it_does_not_know(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text("[any]\npassages = 9\nw_use = 1.0\n[flare]\npassages = 4\n")
    assert filled("flare", path).passages == 4
    assert filled("single", path).passages == 9
    assert filled("closed_book", path) == make_method("closed_book", model="scripted")


@pytest.mark.parametrize("name", SELFRAG)
def test_the_settings_of_the_self_rag_paper(name):
    for method in usable("selfrag", "selfrag_authors"):
        made = filled(method, name)
        assert (made.form, made.threshold, made.passages, made.max_tokens) == SELFRAG[name]
        assert (made.w_rel, made.w_sup, made.w_use) == (1.0, 1.0, 0.5)
    assert filled("single", name).passages == SELFRAG[name][2]


def test_the_values_of_the_papers():
    for name, values in (("13b-chat/2wikimultihopqa", (0.6, 25, 64)), ("7b-chat/iirc", (1.3, 35, 128))):
        dragin = filled("dragin_paper", f"dragin/llama2-{name}")
        assert (dragin.threshold, dragin.query_top, dragin.max_tokens) == values
    dragin = filled("dragin_paper", HOTPOT, threshold="0.7", max_tokens=20)
    assert (dragin.threshold, dragin.query_top, dragin.max_tokens) == (0.7, 35, 20)


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
    members = dict.fromkeys(("single", "iterdrag", "airrag_lite", "airrag"), passages)
    assert blender.l_max == l_max
    assert {member: method.passages for member, method in blender.methods.named} == members
    assert filled("airrag", name, l_max=32768).l_max == 32768
    assert all(method.l_max is None for _, method in filled("blender", name, l_max=32768).methods.named)


@pytest.mark.parametrize("method", ["airrag", "airrag_lite"])
def test_effort_rises_from_low_to_high_and_auto_may_stop_earlier(method):
    low, medium, high, auto = (make_method(method, preset=level) for level in EFFORT)
    assert low.rollouts < medium.rollouts < high.rollouts
    assert dataclasses.replace(auto, stop_lead=high.stop_lead, wave=high.wave) == high
    assert 0 < auto.stop_lead < high.stop_lead == high.rollouts * high.answer_samples
    assert make_method(method, {"stop_lead": 3.0}, preset="effort/auto").stop_lead == 3.0


@pytest.mark.parametrize("method", usable("dragin", "dragin_paper", "dragin_authors"))
def test_a_threshold_is_used_only_with_its_trigger(tmp_path, method):
    path = tmp_path / "p.toml"
    path.write_text(f"[{method}]\nthreshold = 0.6\nquery_top = 30\n")
    other = filled(method, path, trigger="token_probability")
    assert (other.threshold, other.query_top, other.theta < 0.6) == (None, 30, True)
    assert filled(method, path).threshold == filled(method, path, trigger="rind").threshold == 0.6
    path.write_text(f'[{method}]\ntrigger = "token_probability"\nthreshold = 0.6\n')
    assert filled(method, path).theta == 0.6
    assert filled(method, path, trigger="rind").theta == make_method(method).theta
    dragin = filled("dragin_paper", HOTPOT, trigger="every_sentence")
    assert (dragin.threshold, dragin.query_top) == (make_method("dragin_paper").threshold, 35)
    assert filled("dragin_paper", HOTPOT, trigger="rind").threshold == 1.2


BAD_PRESETS = [
    ("[flare\n", "p.toml is not TOML"),
    ("[flare]\npassages = 1" + "0" * 5000, "p.toml is not TOML"),
    ("search_below = 0.3\n", "belongs to no method"),
    ("[flare]\nsearch_belo = 0.3\n", "did you mean 'search_below'"),
    ("[flare]\nsearch_below = 3\n", "from 0 to 1"),
    ('[flare]\nsearch_below = "often"\n', "expected float"),
    ("[flare]\nsearch_below = [0.3]\n", "expected float"),
    ("about = 3\n[flare]\nsearch_below = 0.3\n", "is no text"),
    ("", "is empty"),
]


@pytest.mark.parametrize(("text", "expected"), BAD_PRESETS, ids=range(len(BAD_PRESETS)))
def test_malformed_presets(tmp_path, text, expected):
    path = tmp_path / "p.toml"
    path.write_text(text)
    with pytest.raises(PresetError, match=expected):
        filled("flare", path)


def test_presets_that_do_not_exist_or_do_not_fit(tmp_path):
    (tmp_path / "latin").write_bytes(b"\xe9")
    (tmp_path / "flair.toml").write_text("[flair]\nsearch_below = 0.3\n")
    (tmp_path / "any.toml").write_text("[any]\nmax_tokenz = 3\n")
    for call, told in (
        (lambda: open_preset(tmp_path / "absent.toml"), r"can't read the preset .*absent\.toml"),
        (lambda: open_preset(tmp_path / "latin"), "latin"),
        (lambda: open_preset(tmp_path / "flair.toml"), "unknown method 'flair' in the preset .*'flare'"),
        (
            lambda: open_preset(tmp_path / "any.toml"),
            r"'max_tokenz' in \[any\] of .*any.toml: did",
        ),
        (lambda: open_preset("dragin/llama2-13b-chat/hotpot"), f"did you mean '{HOTPOT}'"),
        (lambda: open_preset("llama2-13b-chat/hotpotqa"), f"did you mean '{HOTPOT}'"),
        (lambda: open_preset("paper/table3"), "did you mean 'airrag/table3'"),
        (lambda: open_preset("paper"), "Known: airrag/table1, airrag/table3"),
    ):
        with pytest.raises(InputError, match=told) as error:
            call()
        assert error.value.exit_code == 2


def test_a_preset_that_is_written_can_be_read_again(tmp_path):
    text = preset_text(Flare, {"search_below": 0.3}, ["two\nlines"])
    assert text.startswith("# two lines\n[flare]\n")
    for encoding in ("utf-8", "utf-8-sig"):
        (tmp_path / "p").write_text(text, encoding=encoding)
        assert filled("flare", tmp_path / "p") == Flare(search_below=0.3)
    text = preset_text(Flare, {"prompts": Flare().prompts, "search_below": 0.3}, ["measured"])
    assert text.startswith("# measured\n# with prompts=")
    assert text.endswith("\n[flare]\nsearch_first = true\nas_published = false\nsearch_below = 0.3\n")
    assert ", to be set again\n[flare]" in text


def test_the_bundled_model_gets_what_was_measured_for_it(tmp_path):
    plain, read = (shipped()[name] for name in ("bundled:base", "bundled"))
    assert plain.about != read.about
    assert {key: plain.entries[key] != read.entries[key] for key in read.entries} == dict.fromkeys(
        plain.entries, True
    )
    prompts = {"bundled": {"prompts": open_prompts("plain")}, "bundled:base": {}}
    for name in OF_MODELS:
        measured = shipped()[name].entries["flare"]
        assert measured["search_below"] != Flare().search_below
        for spec in (name, f"{name}?dtype=float32"):
            assert make_method("flare", model=spec) == make_method("flare", {**measured, **prompts[name]})
    assert changed("flare", {"search_below": 0.5}, "bundled", None)["search_below"] == 0.5
    assert "search_below" not in changed("flare", {"search_first": "no"}, "bundled", None)
    assert "search_below" not in changed("flare", {"search_first": "auto"}, "bundled", None)
    assert changed("closed_book", {}, "bundled", None) == prompts["bundled"]
    for spec in ("scripted", "hf:bundled", "bundled:base?dtype=float32&adapter=mine"):
        assert changed("flare", {}, spec, None) == {}
    (tmp_path / "p.toml").write_text("[flare]\npassages = 5\n")
    expected = {"passages": 5, "prompts": open_prompts("plain")}
    assert changed("flare", {}, "bundled", tmp_path / "p.toml") == expected


def test_a_trained_reader_gets_the_prompts_it_was_trained_with(tmp_path, qwen_folder):
    from tests.models.tiny import save_adapter

    folder = save_adapter(tmp_path / "reader", str(qwen_folder), base_spec=f"hf:{qwen_folder}")
    plain, own = open_prompts("plain"), open_prompts("own")
    for spec in (f"hf:{folder}", f"hf:{qwen_folder}?adapter={folder}", f"bundled:base?adapter={folder}"):
        assert changed("single", {}, spec, None) == {"prompts": plain}
        assert make_method("single", {"prompts": "own"}, model=spec).prompts == own
        assert changed("dragin_paper", {}, spec, HOTPOT)["prompts"] == plain
    for spec in ("", "scripted", f"hf:{qwen_folder}", "hf:owner/name", "hf:file.gguf"):
        assert changed("single", {}, spec, None) == {}
    note = folder / "reader.json"
    note.write_text(note.read_text().replace("plain", "plains"))
    with pytest.raises(UnknownName, match=r"unknown prompt set 'plains'.*did you mean 'plain'"):
        changed("single", {}, f"hf:{folder}", None)
