"""Chat templates: the same prompts as in transformers, and limits that hold for any template."""

import pytest
from jinja2 import TemplateError
from tests.models.tiny import (
    CHATML_TEMPLATE,
    INSTRUCT_TEMPLATE,
    byte_level_tokenizer,
    sentencepiece_tokenizer,
)

from askance.core.errors import InputError
from askance.core.types import Chat, Span, Turn
from askance.inference.vocabulary import Vocabulary
from askance.models.local import chat_template
from askance.models.local.chat_template import ChatTemplate
from askance.models.local.encoding import Encoding

MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": ' Who <lives> "there" & why?\n'},
    {"role": "assistant", "content": "I."},
    {"role": "user", "content": "Why?"},
]
EVERYTHING = """
{%- set ns = namespace(last=0, seen=[]) -%}
{%- macro head(role, n=2) -%}
<{{ role | upper }}>{{ "=" * n }}{{ '%-6s|' % role }}{{ "{:>4}".format(n) }}
{%- endmacro -%}
{%- for message in messages if message['role'] != 'tool' -%}
    {%- set ns.last = loop.index0 -%}
    {%- if loop.first %}{{ bos_token | default('') }}{% endif -%}
    {{ head(message.role, n=loop.index) ~ ':' ~ (message['content'] | trim) }}
    ({{ loop.index }}/{{ loop.length }})
    {% if not loop.last %}, {{ loop.nextitem.role }}{% endif %}
    {% if message.role == 'assistant' %}{% generation %}{{ message.content }}{% endgeneration %}{% endif %}
    {{- message | tojson }}{{ messages[loop.index0:][0].content.split(' ') | join('_') }}
    {%- for letter in message.content %}
{% if loop.index > 3 %}{% break %}{% endif %}{{ letter }}.{% endfor -%}
{% endfor %}
{% set block %}{{ messages | map(attribute='role') | list | tojson(indent=2) }}{% endset %}
{{ block | replace('\\n', '') }}
{% for tree in [[1, [2, [3]]]] recursive %}
{{ tree if tree is number else '(' ~ loop(tree) ~ ')' }}{% endfor %}
{{ tools is none }} {{ documents is defined }} {{ nothing is defined }} {{ 7 // 2 }} {{ 2 ** 5 }}
{{ "a" + "b" }}
{{ {'a': 1}.items() | list }} {{ dict(a=2) }} {{ range(3) | sum }} {{ 'x' in 'xy' }} {{ "%s" | format("y") }}
{% for nobody in [] %}no{% else %}empty{% endfor %}{{ ns.last }}
{% if add_generation_prompt %}<ASSISTANT>{% endif %}
"""


@pytest.mark.parametrize("source", [CHATML_TEMPLATE, EVERYTHING])
@pytest.mark.parametrize("make", [byte_level_tokenizer, sentencepiece_tokenizer])
def test_a_chat_is_laid_out_as_by_transformers(source, make):
    tokenizer = make()
    tokenizer.chat_template = source
    expected = tokenizer.apply_chat_template(MESSAGES, tokenize=False, add_generation_prompt=True)
    assert ChatTemplate(source, tokenizer.special_tokens_map).render(MESSAGES) == expected


def test_of_several_templates_the_default_is_taken():
    tokenizer = byte_level_tokenizer()
    vocabulary = Vocabulary(tokenizer, "several", end_ids=frozenset(), size=len(tokenizer))
    chat = Chat((Turn("user", (Span("Who?"),)),))
    expected = Encoding(vocabulary).encode(chat)
    tokenizer.chat_template = {"tool_use": "{{ 1 }}", "default": CHATML_TEMPLATE}
    assert Encoding(vocabulary).encode(chat) == expected


TWICE = "{% set x = x ~ x %}"
ENDLESS = {
    "loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}"
    "{% endfor %}{% endfor %}{% endfor %}",
    "a filtered loop": "{% for a in range(99999) %}{% for b in range(99999) if b < 0 %}"
    "{% endfor %}{% endfor %}",
    "macros": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "a recursive loop": "{% for n in [40] recursive %}{% if n %}{{ loop([n - 1, n - 1]) }}{% endif %}"
    "{% endfor %}",
    "itself": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "doubling": "{% set x = 'x' %}" + TWICE * 60,
    "adding": "{% set x = 'x' %}" + "{% set x = x + x %}" * 60,
    "replacing": "{% set x = 'x' * 1000 %}{{ x.replace('x', x).replace('x', x).replace('x', x) }}",
    "a filter": "{% set x = 'x' * 1000 %}{{ x | replace('x', x) | replace('x', x) | replace('x', x) }}",
    "a filter of lists": "{% for i in range(99999) %}{% set x = range(99999) | map('string') | list %}"
    "{% endfor %}",
    "showing": "{% set x = 'x' * 99999 %}{% set y %}{% for i in range(99999) %}{{ x }}{% endfor %}"
    "{% endset %}",
    "joining": "{% set x = 'x' * 9999 %}{{ ([x] * 99999) | join }}",
    "times": "{{ 'x' * 10 ** 12 }}",
    "times a list": "{{ ([1] * 10 ** 12) | length }}",
    "a power": "{{ 9 ** (9 ** 9) }}",
    "a product": "{% set ns = namespace(x=9) %}{% for i in range(99) %}{% set ns.x = ns.x * ns.x %}"
    "{% endfor %}",
    "a sum": "{% set ns = namespace(x=9) %}{% for i in range(90000) %}{% set ns.x = ns.x + ns.x %}"
    "{% endfor %}",
    "a difference": "{% set n = namespace(x=9) %}{% for i in range(90000) %}{% set n.x = n.x - (0 - n.x) %}"
    "{% endfor %}",
    "a width": "{{ '%0999999999d' % 5 }}",
    "a width as an argument": "{{ '%0*d' % (999999999, 5) }}",
    "a width of format": "{{ '{:999999999}'.format(5) }}",
    "a width of the filter": "{{ '%0999999999d' | format(5) }}",
    "padding": "{{ 'x'.ljust(999999999) }}",
    "the middle": "{{ 'x' | center(999999999) }}",
    "an indent": "{{ messages | tojson(indent=999999999) }}",
    "words": "{{ lipsum(n=999999999) }}",
}


@pytest.mark.parametrize("source", ENDLESS.values(), ids=ENDLESS)
def test_a_template_without_end_is_refused(source):
    with pytest.raises(TemplateError):
        ChatTemplate(source, {}).render(MESSAGES)


FORBIDDEN = [
    "{{ messages.__class__.__mro__ }}",
    "{{ messages.append({}) }}",
    "{{ cycler.__init__.__globals__ }}",
    "{{ namespace(__x=1) }}",
    "{% set ns = namespace() %}{% set ns.__class__ = 1 %}{{ ns }}",
    "{% include 'x' %}",
    "{{ 1 / 0 }}",
    "{{ messages + 1 }}",
    "{% for %}",
]


@pytest.mark.parametrize("source", FORBIDDEN)
def test_what_a_template_may_not_or_can_not(source):
    with pytest.raises(TemplateError):
        ChatTemplate(source, {}).render(MESSAGES)


def test_the_steps_of_one_rendering_are_not_those_of_another(monkeypatch):
    monkeypatch.setattr(chat_template, "MAX_STEPS", 100)
    template = ChatTemplate(INSTRUCT_TEMPLATE, {"bos_token": "<s>", "eos_token": "</s>"})
    assert {template.render(MESSAGES[1:]) for _ in range(50)} == {
        '<s>[INST] Who <lives> "there" & why? [/INST] I. </s>[INST] Why? [/INST]'
    }


def test_a_model_whose_template_has_no_end_is_refused_with_its_name():
    tokenizer = byte_level_tokenizer()
    tokenizer.chat_template = ENDLESS["loops"]
    vocabulary = Vocabulary(tokenizer, "endless", end_ids=frozenset(), size=len(tokenizer))
    with pytest.raises(InputError, match=r"template of model 'endless' refuses .*more than 300,000 steps"):
        Encoding(vocabulary).encode(Chat((Turn("user", (Span("Who?"),)),)))
