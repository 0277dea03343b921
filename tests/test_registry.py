import asyncio
from typing import get_args, get_type_hints

import pytest

from askance.configuration.build import READINGS, load_model, load_models, profiles_of
from askance.configuration.catalogue import METHODS
from askance.configuration.methods import make_method, method_class
from askance.configuration.prompts import open_prompts
from askance.configuration.settings import open_engine
from askance.core.errors import BadIndex, InputError, ModelSpecError, ParameterError, UnknownName
from askance.core.parameters import short_repr
from askance.core.ports import Method
from askance.methods.common.prompts import PromptTemplate
from askance.methods.flare import Flare
from askance.models.scripted import ScriptedModel


@pytest.mark.parametrize("name", METHODS)
def test_every_method_can_be_made_and_says_what_it_is(name):
    method = make_method(name)
    assert isinstance(method, Method)
    assert type(method).__doc__
    assert type(method).paper
    assert type(method).searches
    assert method.needs is not None


@pytest.mark.parametrize("name", METHODS)
def test_a_title_tells_whose_reading_of_a_method_it_is(name):
    hint = get_type_hints(method_class(name)).get("profile")
    for profile in profiles_of(name) or get_args(hint) or [""]:
        told = short_repr(make_method(name, {"profile": profile} if profile else {}))
        assert told == (f"{name} ({profile})" if profile else name)


@pytest.mark.parametrize("own_name", READINGS)
def test_a_reading_is_reached_by_its_profile_and_by_its_name(own_name):
    name, _, ending = own_name.rpartition("_")
    profile = {"authors": "code", "paper": "paper"}[ending]
    by_profile = make_method(name, {"profile": profile, "max_tokens": 7})
    assert by_profile == make_method(own_name, {"max_tokens": 7})
    assert short_repr(by_profile) == f"{name} ({profile}, max_tokens=7)"
    (member,) = make_method("blender", {"methods": name, f"{name}.profile": profile}).methods.named
    assert member == (name, make_method(own_name))
    assert f"{name}[profile={profile}]" in str(make_method("blender", {"methods": own_name}).methods)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"profile": "cod"}, "profile='cod' of method dragin: expected one of default, paper, code"),
        ({"doubt": "surprise"}, r"its profile default has none. .*\(profile=code\)"),
        ({"profile": "code", "heads": "max"}, r"profile code has none.*\(profile=default or profile=paper\)"),
        ({"profile": "paper", "threshhold": 1}, "did you mean 'threshold'"),
    ],
)
def test_a_parameter_that_a_reading_does_not_have(settings, expected):
    with pytest.raises(InputError, match=expected):
        make_method("dragin", settings)


def test_parameters_from_strings():
    assert make_method("flare", {"passages": "4", "search_first": "false"}) == Flare(
        passages=4, search_first=False
    )


OWN_PROMPTS = {"airrag", "airrag_lite", "iterdrag", "blender"}


@pytest.mark.parametrize("name", [name for name in METHODS if name not in OWN_PROMPTS])
def test_every_other_method_takes_prompts_by_name_or_file(name, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('heading = "Found:"')
    assert make_method(name, {"prompts": "strategyqa"}).prompts == open_prompts("strategyqa")
    assert make_method(name, {"prompts": str(path)}).prompts == PromptTemplate(heading="Found:")
    assert "prompts=hotpotqa-" in repr(make_method(name, {"prompts": "hotpotqa"}))


def test_the_prompts_of_an_engine(tmp_path):
    def template(**named):
        return open_engine(method="closed_book", model="scripted", **named).method.prompts

    (tmp_path / "iirc").write_text('base = "musique"')
    assert template() == PromptTemplate()
    assert template(prompts="iirc") == open_prompts("iirc")
    assert template(prompts=tmp_path / "iirc") == open_prompts("musique")
    with pytest.raises(InputError, match="both name the prompts: give one"):
        template(prompts="iirc", parameters={"prompts": "iirc"})
    with pytest.raises(UnknownName, match="did you mean 'hotpotqa'"):
        open_engine(prompts="hotpot", model=f"hf:{tmp_path / 'absent'}")


def test_unknown_names_offer_the_nearest():
    with pytest.raises(UnknownName, match="did you mean 'flare'"):
        make_method("flair")
    with pytest.raises(UnknownName, match="did you mean 'passages'"):
        make_method("flare", {"passage": "3"})
    with pytest.raises(UnknownName, match="did you mean 'bundled'"):
        load_model("bundeled")
    with pytest.raises(UnknownName, match="did you mean 'answer'"):
        load_models({"anwser": "scripted"})
    with pytest.raises(UnknownName, match="did you mean 'dtype'"):
        load_model("hf:x?dtyp=float32")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("bundled:7b", "unknown model 'bundled:7b': did you mean 'bundled'"),
        ("bundled:bas", "did you mean 'bundled:base'"),
        ("bundled:", "did you mean 'bundled'"),
        ("bundled?adapter=mine", "has an adapter already: write bundled:base[?]adapter=mine"),
        ("bundled:base?adapter", "one value"),
        ("bundled?dtype", "one value"),
        ("bundled?dtype=float32&dtype=float16", "one value"),
        ("scripted?device=cpu", "unknown model option 'device'"),
    ],
)
def test_no_part_of_a_specification_is_ignored(spec, expected):
    with pytest.raises(InputError, match=expected):
        load_model(spec)


def test_wrong_parameter():
    with pytest.raises(ParameterError, match="passages"):
        make_method("flare", {"passages": "0"})


def test_models_that_are_not_there(tmp_path):
    with pytest.raises(ModelSpecError, match="names no model"):
        load_model("hf:")
    with pytest.raises(ModelSpecError):
        load_model(f"hf:{tmp_path / 'absent'}")
    with pytest.raises(ModelSpecError, match="can't read the script"):
        load_model(f"scripted:{tmp_path / 'absent'}")


def test_scripted_replies_from_a_file(tmp_path):
    path = tmp_path / "replies.jsonl"
    for row in ('{"txt": "x"}', '{"text": 5}', '{"text": "a", "doubts": {"a": 0}}', '["a"]', "{", ""):
        path.write_text('{"text": " It is Bonn."}\n' + row + "\n")
        with pytest.raises(ModelSpecError, match="line 2"):
            load_model(f"scripted:{path}")
    path.write_bytes(b"\xff")
    with pytest.raises(ModelSpecError, match="can't read the script"):
        load_model(f"scripted:{path}")
    path.write_text('{"text": "\\ud83d"}')
    with pytest.raises(ModelSpecError, match="line 1: Invalid JSON"):
        load_model(f"scripted:{path}")
    path.write_text("")
    with pytest.raises(ModelSpecError, match="line 1"):
        load_model(f"scripted:{path}")
    path.write_text('{"text": " It is Bonn."}\n')
    engine = open_engine(
        method="closed_book", model=f"scripted:{path}", parameters={"ask_short_answer": False}
    )
    assert engine.ask("Where?").answer.text == "It is Bonn."


def test_one_specification_for_two_roles_is_loaded_once():
    models = load_models({"answer": "scripted", "attend": "scripted"})
    assert models["answer"] is models["attend"]
    assert isinstance(models["answer"], ScriptedModel)


def test_the_cheap_checks_come_before_the_model_is_loaded(tmp_path):
    with pytest.raises(BadIndex):
        open_engine(index=tmp_path / "absent", model=f"hf:{tmp_path / 'absent'}")


def test_sync_inside_a_loop_says_what_to_write():
    async def inside():
        return open_engine(method="closed_book", model="scripted").ask("Where?")

    with pytest.raises(InputError, match=r"await engine\.answer"):
        asyncio.run(inside())
