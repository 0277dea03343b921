"""How names, parameters, members and prompts become methods, and specifications models."""

import asyncio
import re
from contextlib import suppress

import pytest

from askance.configuration.build import load_model, load_models
from askance.configuration.methods import make_method
from askance.configuration.prompts import open_prompts
from askance.configuration.settings import EngineConfig, open_engine
from askance.core.errors import BadIndex, InputError, ParameterError, UnknownName
from askance.core.ports import Method
from askance.methods.baselines import Single
from askance.methods.common.prompts import PromptTemplate
from askance.models.scripted import ScriptedModel
from tests.laboratory import EVERY_METHOD

OWN_PROMPTS = {"auto_rag", "airrag", "airrag_lite", "iterdrag", "blender", "selfrag_authors"}


@pytest.mark.parametrize("name", EVERY_METHOD)
def test_a_method_is_printed_as_a_specification_that_makes_it_again(name):
    method = make_method(name)
    assert (isinstance(method, Method), repr(method)) == (True, name)
    assert all((type(method).__doc__, type(method).paper, type(method).searches, method.needs))
    for settings in ({"l_max": 999}, {"prompts": "hotpotqa"}, {"summary_tokens": 9, "passages": 2}):
        with suppress(InputError):  # the method has no such parameter
            made = make_method(name, settings)
            shown = repr(made).replace(repr(getattr(made, "prompts", "")), "hotpotqa")
            assert make_method(shown) == made


def test_members_are_methods_within_a_method():
    spec = "blender(a=dragin(threshold=0.4), b=single(passages=5), summary_tokens=9)"
    blender = make_method(spec)
    assert blender.methods.named == (("a", make_method("dragin(threshold=0.4)")), ("b", Single(passages=5)))
    assert make_method(spec, {"b.passages": "7"}).methods.named[1][1].passages == 7
    named = make_method('blender(methods="single,more=single")', {"more": {"passages": 2}})
    assert named == make_method("blender(single=single(), more=single(passages=2))")
    airrag = make_method('airrag(actions="say,da,ra,qt,sa", dragin=dragin())')
    assert airrag == make_method("airrag", {"actions": "say,da,ra,qt,sa,dragin"})
    for method in (blender, airrag, make_method("blender(a=blender(b=single(passages=1)))")):
        assert make_method(repr(method)) == method
    stored = EngineConfig(method=blender).stored()
    assert stored["method"] == "blender(a=dragin(threshold=0.4), b=single(passages=5))"
    again = EngineConfig(method=stored["method"], parameters=stored["parameters"], models="scripted")
    assert again.make() == blender


BAD_METHODS = [
    ("dragin(threshold=0.4", {}, r"at character 21: expected ','\n  dragin\(threshold=0.4\n {22}\^"),
    ("dragin(threshold)", {}, "expected '='"),
    ("dragin(threshold=)", {}, "write a value"),
    ("dragin(threshold=1, threshold=2)", {}, "threshold is given twice"),
    ("dragin(threshold=1))", {}, "nothing may follow"),
    ("blender(a=dragin(thresold=1))", {}, "unknown parameter 'thresold' of method dragin: did you"),
    ("blender(a=dragn())", {}, "unknown method 'dragn': did you mean 'dragin'"),
    ("dragin(a=single())", {}, "unknown parameter 'a' of method dragin"),
    ("dragin(threshold=high)", {}, "parameter threshold='high' of method dragin: expected float or none"),
    ("single(passages=-1)", {}, "parameter passages=-1 of method single: expected 0 or more"),
    ("a(" * 9 + ")" * 9, {}, "expected '='"),
    ("".join(f"a(a{n}=" for n in range(10)) + "1" + ")" * 10, {}, "nested 8 deep"),
    ("x" * 30_000, {}, "has 30,000 characters"),
    ("flare", {"passage": "3"}, "did you mean 'passages'"),
    ("flare", {"passages": "0"}, "passages"),
]


@pytest.mark.parametrize(("spec", "parameters", "told"), BAD_METHODS, ids=range(len(BAD_METHODS)))
def test_methods_that_can_not_be_made(spec, parameters, told):
    with pytest.raises(InputError, match=told):
        make_method(spec, parameters)


def test_a_wrong_value_has_one_message_with_its_origin(tmp_path, run, monkeypatch):
    told = "parameter passages='many' of method single: expected int."
    words = ("ask", "Who?", "--model", "scripted", "--method", "single", "--index", tmp_path)
    assert told in run(*words, "--set", "passages=many", columns=300)[2]
    (tmp_path / "mine.toml").write_text('set = { passages = "many" }\n')
    assert f"mine.toml: {told}" in run(*words, "--config", tmp_path / "mine.toml", columns=300)[2]
    monkeypatch.setenv("ASKANCE_SET__PASSAGES", "many")
    assert f"ASKANCE_SET__PASSAGES: {told}" in run(*words, columns=300)[2]
    monkeypatch.delenv("ASKANCE_SET__PASSAGES")
    with pytest.raises(ParameterError, match=re.escape(told)):
        open_engine(method="single", model="scripted", index=tmp_path, parameters={"passages": "many"})


@pytest.mark.parametrize("name", [name for name in EVERY_METHOD if name not in OWN_PROMPTS])
def test_every_other_method_takes_prompts_by_name_or_file(name, tmp_path):
    (tmp_path / "mine.toml").write_text('heading = "Found:"')
    path = str(tmp_path / "mine.toml")
    assert make_method(name, {"prompts": "strategyqa"}).prompts == open_prompts("strategyqa")
    assert make_method(name, {"prompts": path}).prompts == PromptTemplate(heading="Found:")
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
    with pytest.raises(BadIndex):  # the cheap checks come before the model is loaded
        open_engine(index=tmp_path / "absent", model=f"hf:{tmp_path / 'absent'}")


# Models.

BAD_MODELS = [
    ("bundeled", "did you mean 'bundled'"),
    ("hf:x?dtyp=float32", "did you mean 'dtype'"),
    ("hf:", "names no model"),
    ("bundled:7b", "unknown model 'bundled:7b': did you mean 'bundled'"),
    ("bundled:bas", "did you mean 'bundled:base'"),
    ("bundled?adapter=mine", "has an adapter already: write bundled:base[?]adapter=mine"),
    ("bundled:base?adapter", "one value"),
    ("bundled?dtype", "one value"),
    ("bundled?dtype=float32&dtype=float16", "one value"),
    ("scripted?device=cpu", "unknown model option 'device'"),
    ("scripted:absent", "can't read the script"),
]


@pytest.mark.parametrize(("spec", "told"), BAD_MODELS)
def test_models_that_can_not_be_loaded(spec, told):
    with pytest.raises(InputError, match=told):
        load_model(spec)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (b'{"txt": "x"}', "line 2"),
        (b'{"text": 5}', "line 2"),
        (b'{"text": "a", "doubts": {"a": 0}}', "line 2"),
        (b'["a"]', "line 2"),
        (b"{", "line 2"),
        (b"", "line 2"),
        (b"\xff", "can't read the script"),
        (b'{"text": "\\ud83d"}', "line 2: Invalid JSON"),
    ],
)
def test_a_script_of_replies_is_read_from_a_file(tmp_path, row, told):
    path, reply = tmp_path / "replies.jsonl", b'{"text": " It is Bonn."}\n'
    path.write_bytes(reply + row + b"\n")
    with pytest.raises(InputError, match=told):
        load_model(f"scripted:{path}")
    path.write_bytes(reply)
    short = {"ask_short_answer": False}
    engine = open_engine(method="closed_book", model=f"scripted:{path}", parameters=short)
    assert engine.ask("Where?").answer.text == "It is Bonn."


def test_one_specification_for_two_roles_is_loaded_once():
    models = load_models({"answer": "scripted", "attend": "scripted"})
    assert models["answer"] is models["attend"]
    assert isinstance(models["answer"], ScriptedModel)


def test_synchronous_code_inside_a_loop_names_what_to_write():
    async def inside():
        return open_engine(method="closed_book", model="scripted").ask("Where?")

    with pytest.raises(InputError, match=r"await engine\.answer"):
        asyncio.run(inside())
