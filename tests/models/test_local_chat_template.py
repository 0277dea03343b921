"""Chat templates: the same prompts as in transformers, and limits that hold for any template."""

import pytest
from jinja2 import TemplateError
from tests.models.tiny import (
    CHATML_TEMPLATE,
    INSTRUCT_TEMPLATE,
    byte_level_tokenizer,
    sentencepiece_tokenizer,
)

from askance.models.local import chat_template
from askance.models.local.chat_template import ChatTemplate

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


REPEATS = "{% for i in range(99999) %}"
X = "{% set x = 'x' * 1000 %}"
ENDLESS = {
    "loops": REPEATS * 3 + "{% endfor %}" * 3,
    "a filtered loop": REPEATS + "{% for b in range(99999) if b < 0 %}{% endfor %}{% endfor %}",
    "macros": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "a recursive loop": "{% for n in [40] recursive %}{% if n %}{{ loop([n - 1, n - 1]) }}{% endif %}"
    "{% endfor %}",
    "itself": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "doubling": X + "{% set x = x ~ x %}" * 60,
    "adding": X + "{% set x = x + x %}" * 60,
    "replacing": X + "{{ x.replace('x', x).replace('x', x).replace('x', x) }}",
    "a filter": X + "{{ x | replace('x', x) | replace('x', x) | replace('x', x) }}",
    "a filter of lists": REPEATS + "{% set x = range(99999) | map('string') | list %}{% endfor %}",
    "showing": X + "{% set y %}" + REPEATS + "{{ x }}{% endfor %}{% endset %}",
    "joining": X + "{{ ([x] * 99999) | join }}",
    "times": "{{ 'x' * 10 ** 12 }}",
    "times a list": "{{ ([1] * 10 ** 12) | length }}",
    "a power": "{{ 9 ** (9 ** 9) }}",
    "a product": "{% set n = namespace(x=9) %}" + REPEATS + "{% set n.x = n.x * n.x %}{% endfor %}",
    "a sum": "{% set n = namespace(x=9) %}" + REPEATS + "{% set n.x = n.x + n.x %}{% endfor %}",
    "a difference": "{% set n = namespace(x=9) %}" + REPEATS + "{% set n.x = n.x - (0 - n.x) %}{% endfor %}",
    "a width": "{{ '%0999999999d' % 5 }}",
    "a width as an argument": "{{ '%0*d' % (999999999, 5) }}",
    "a width of format": "{{ '{:999999999}'.format(5) }}",
    "a width of the filter": "{{ '%0999999999d' | format(5) }}",
    "padding": "{{ 'x'.ljust(999999999) }}",
    "the middle": "{{ 'x' | center(999999999) }}",
    "an indent": "{{ messages | tojson(indent=999999999) }}",
    "words": "{{ lipsum(n=999999999) }}",
}
FORBIDDEN = {
    "Python's attributes": "{{ messages.__class__.__mro__ }}",
    "changing a list": "{{ messages.append({}) }}",
    "globals": "{{ cycler.__init__.__globals__ }}",
    "a private name": "{{ namespace(__x=1) }}",
    "setting an attribute": "{% set ns = namespace() %}{% set ns.__class__ = 1 %}{{ ns }}",
    "another file": "{% include 'x' %}",
    "dividing by zero": "{{ 1 / 0 }}",
    "adding kinds": "{{ messages + 1 }}",
    "bad syntax": "{% for %}",
}


@pytest.mark.parametrize("source", (ENDLESS | FORBIDDEN).values(), ids=ENDLESS | FORBIDDEN)
def test_a_template_without_end_or_of_forbidden_parts_is_refused(source, monkeypatch):
    monkeypatch.setattr(chat_template, "MAX_STEPS", 20_000)
    with pytest.raises(TemplateError):
        ChatTemplate(source, {}).render(MESSAGES)


def test_the_steps_of_one_rendering_are_not_those_of_another(monkeypatch):
    monkeypatch.setattr(chat_template, "MAX_STEPS", 100)
    template = ChatTemplate(INSTRUCT_TEMPLATE, {"bos_token": "<s>", "eos_token": "</s>"})
    assert {template.render(MESSAGES[1:]) for _ in range(50)} == {
        '<s>[INST] Who <lives> "there" & why? [/INST] I. </s>[INST] Why? [/INST]'
    }
