"""How names, parameters, members and prompts become methods, and specifications models."""

import asyncio
import re
from contextlib import suppress

import pytest

from askance.configuration.build import load_model, load_models
from askance.configuration.methods import make_method
from askance.configuration.prompts import open_prompts
from askance.configuration.settings import EngineConfig, open_engine
from askance.core.errors import BadIndex, InputError, ModelSpecError, ParameterError, UnknownName
from askance.core.ports import Method
from askance.methods.baselines import Single
from askance.methods.common.prompts import PromptTemplate
from askance.methods.flare import Flare
from askance.models.scripted import ScriptedModel
from tests.laboratory import EVERY_METHOD


@pytest.mark.parametrize("name", EVERY_METHOD)
def test_every_method_can_be_made_and_says_what_it_is(name):
    method = make_method(name)
    assert isinstance(method, Method)
    assert type(method).__doc__
    assert type(method).paper
    assert type(method).searches
    assert method.needs is not None


@pytest.mark.parametrize("name", EVERY_METHOD)
def test_a_method_is_printed_as_a_specification_that_makes_it_again(name):
    assert repr(make_method(name)) == name
    for settings in ({"l_max": 999}, {"prompts": "hotpotqa"}, {"summary_tokens": 9, "passages": 2}):
        with suppress(InputError):  # the method has no such parameter
            method = make_method(name, settings)
            assert (
                make_method(repr(method).replace(repr(getattr(method, "prompts", "")), "hotpotqa")) == method
            )


def test_members_are_methods_within_a_method():
    spec = "blender(a=dragin(threshold=0.4), b=single(passages=5), summary_tokens=9)"
    blender = make_method(spec)
    assert blender.methods.named == (("a", make_method("dragin(threshold=0.4)")), ("b", Single(passages=5)))
    assert make_method(repr(blender)) == blender
    assert make_method(spec, {"b.passages": "7"}).methods.named[1][1].passages == 7
    assert make_method('blender(methods="single,more=single")', {"more": {"passages": 2}}) == make_method(
        "blender(single=single(), more=single(passages=2))"
    )
    airrag = make_method('airrag(actions="say,da,ra,qt,sa", dragin=dragin())')
    assert airrag == make_method("airrag", {"actions": "say,da,ra,qt,sa,dragin"})
    assert make_method(repr(airrag)) == airrag
    stored = EngineConfig(method=blender).stored()
    assert stored["method"] == "blender(a=dragin(threshold=0.4), b=single(passages=5))"
    again = EngineConfig(method=stored["method"], parameters=stored["parameters"], models="scripted")
    assert again.make() == blender
    deep = make_method("blender(a=blender(b=single(passages=1)))")
    assert make_method(repr(deep)) == deep


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("dragin(threshold=0.4", r"at character 21: expected ','\n  dragin\(threshold=0.4\n {22}\^"),
        ("dragin(threshold)", "expected '='"),
        ("dragin(threshold=)", "write a value"),
        ("dragin(threshold=1, threshold=2)", "threshold is given twice"),
        ("dragin(threshold=1))", "nothing may follow"),
        (
            "blender(a=dragin(thresold=1))",
            "unknown parameter 'thresold' of method dragin: did you",
        ),
        ("blender(a=dragn())", "unknown method 'dragn': did you mean 'dragin'"),
        ("dragin(a=single())", "unknown parameter 'a' of method dragin"),
        ("dragin(threshold=high)", "parameter threshold='high' of method dragin: expected float or none"),
        ("single(passages=-1)", "parameter passages=-1 of method single: expected 0 or more"),
        ("a(" * 9 + ")" * 9, "expected '='"),
        ("".join(f"a(a{n}=" for n in range(10)) + "1" + ")" * 10, "nested 8 deep"),
        ("x" * 30_000, "has 30,000 characters"),
    ],
)
def test_specifications_that_can_not_be_read(spec, told):
    with pytest.raises(InputError, match=told):
        make_method(spec)


def test_a_wrong_value_has_one_message_with_its_origin(tmp_path, run, monkeypatch):
    told = "parameter passages='many' of method single: expected int."
    words = ("ask", "Who?", "--model", "scripted", "--method", "single", "--index", tmp_path)
    assert told in run(*words, "--set", "passages=many", columns=300)[2]
    monkeypatch.setenv("ASKANCE_SET__PASSAGES", "many")
    assert f"ASKANCE_SET__PASSAGES: {told}" in run(*words, columns=300)[2]
    monkeypatch.delenv("ASKANCE_SET__PASSAGES")
    file = tmp_path / "mine.toml"
    file.write_text('set = { passages = "many" }\n')
    assert f"mine.toml: {told}" in run(*words, "--config", file, columns=300)[2]
    with pytest.raises(ParameterError, match=re.escape(told)):
        open_engine(method="single", model="scripted", index=tmp_path, parameters={"passages": "many"})


def test_parameters_from_strings():
    assert make_method("flare", {"passages": "4", "search_first": "false"}) == Flare(
        passages=4, search_first=False
    )


OWN_PROMPTS = {"airrag", "airrag_lite", "iterdrag", "blender", "selfrag_authors"}


@pytest.mark.parametrize("name", [name for name in EVERY_METHOD if name not in OWN_PROMPTS])
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
    with pytest.raises(ModelSpecError, match="can't read the script"):
        load_model(f"scripted:{tmp_path / 'absent'}")
    pytest.importorskip("torch")
    with pytest.raises(ModelSpecError):
        load_model(f"hf:{tmp_path / 'absent'}")


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
