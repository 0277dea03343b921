"""Scenarios: one question, all that model and retriever say, and the outcome. A row is one line of JSON.

Each FILE.jsonl begins with ``{"defaults": {...}}``: the fields of every row that does not replace them
(those of `set` and `model` are merged). To add a row, copy one, change it, and print what happens:

    python -m tests.scenarios.test_scenarios FILE ID

The fields of a row, of which only `id`, `method` and `expect` are needed:

    id         what the row shows
    method     a specification, such as "flare(search_first=false)", or a list of them with the same outcome
    set        further parameters by name
    question   a text, which comes without worked examples in the prompt, or the fields of a `Question`
    replies    null: random words. A list: a reply for each call. An object: replies by name, of which the
               longest that fits is played. "line 0" fits the call whose key ends so, "…cat?" prompts that end
               so, "…cat…" prompts that contain it, and "" all calls.
               A reply is a text, the fields of a `Reply` (`doubts` has probabilities, `entropies` nats), or
               replies by name in their turn.
    attention  {piece: {piece: weight}}, what a piece of text looks at; "" stands for all other pieces
    scores     {option: log-probability}
    found      the passages of every search, or {query: passages}; "Title: text", or the fields of a `Passage`
    model      further arguments of `ScriptedModel`, such as {"context_tokens": 400}
    roles      {role: arguments}, such as {"attend": {}}: further models with the same attention and scores

`expect` has any of these, each compared as a whole; without `error`, there must be none. A text that ends
with "…" gives only the beginning.

    answer, short, queries
    decisions  "name outcome: reason", followed by the words above the threshold: " [word value, word value]"
    nodes      "node action: text" of a tree search, followed by the reason to reject it: " (reason)"
    prompts    for each call, a fragment or several: "!x" must be absent, <start> and <end> are the ends
    citations  {cited text: title of the passage}
    uncited    {text: reason}
    error      "Class: fragment of the message"
"""

import asyncio
import json
import sys
from itertools import zip_longest
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from askance.configuration.methods import make_method
from askance.core.errors import AskanceError
from askance.core.trace import Decided, Expanded, Generated, Trace, Uncited
from askance.core.types import Passage, Question
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.asking import ask
from tests.laboratory import usable

ASKED = "Which river flows through Pisa?"


def read_rows(path):
    """Return the rows of a file, each with the defaults of the file."""
    first, *rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    defaults = first["defaults"]
    merged = [{name: defaults.get(name, {}) | row.get(name, {}) for name in ("set", "model")} for row in rows]
    return [defaults | row | more for row, more in zip(rows, merged, strict=True)]


def usable_methods(row):
    """Return the methods of a row that are built in or installed."""
    methods = row["method"] if isinstance(row["method"], list) else [row["method"]]
    return [method for method in methods if usable(method.partition("(")[0])]


ROWS = [(path.stem, row) for path in sorted(Path(__file__).parent.glob("*.jsonl")) for row in read_rows(path)]


@pytest.mark.parametrize(
    ("row", "method"),
    [
        pytest.param(row, method, id=f"{file}: {row['id']}: {method}")
        for file, row in ROWS
        for method in usable_methods(row)
    ],
)
def test_scenario(row, method):
    expected, outcome = {"error": ""} | row["expect"], outcome_of(row, method)
    actual = {name: outcome[name] for name in expected}
    assert actual == with_whole_texts(expected, actual)


def outcome_of(row, method):
    """Answer the question of a row, and return what `expect` may have."""
    question, found, trace = row.get("question", ASKED), row.get("found", []), Trace()
    question = {"demos": []} | ({"text": question} if isinstance(question, str) else question)
    asked = TypeAdapter(Question).validate_python({"id": "q"} | question)
    if isinstance(found, dict):
        found = {query: [passage(each) for each in passages] for query, passages in found.items()}
    else:
        found = [passage(each) for each in found]
    retriever = ScriptedRetriever(found)
    try:
        made = make_method(method, row["set"])
        asyncio.run(ask(asked, made, models(row), retriever, trace=trace))
        error = ""
    except AskanceError as failure:
        error = f"{type(failure).__name__}: {failure}"
    return outcome_of_trace(trace, retriever.queries, error)


def models(row):
    """Return the models of a row by role."""
    signals = {"attention": attention(row.get("attention")), "scores": row.get("scores")}
    replies = row.get("replies")
    if isinstance(replies, list):
        replies = [reply(each) for each in replies]
    elif replies is not None:
        by_name = replies
        replies = lambda prompt, key: reply(by_name, prompt, " ".join(map(str, key)))  # noqa: E731
    roles = {"answer": row["model"]} | row.get("roles", {})
    return {
        role: ScriptedModel(replies if role == "answer" else None, **signals, **abilities(arguments))
        for role, arguments in roles.items()
    }


def abilities(arguments):
    return {name: frozenset(value) if isinstance(value, list) else value for name, value in arguments.items()}


def reply(given, prompt="", call=""):
    """Return a reply that is a text, the fields of one, or the name of several, for a prompt and a call."""
    if isinstance(given, str):
        return Reply(given)
    if "text" in given:
        return Reply(**given)
    fitting = [name for name in given if fits(name, prompt, call)]
    assert fitting, f"no reply fits call {call!r} with the prompt …{prompt[-200:]!r}"
    return reply(given[max(fitting, key=len)], prompt, call)


def fits(name, prompt, call):
    """Return whether a named reply belongs to a prompt and a call (see above)."""
    if name.startswith("…"):
        part = name.strip("…")
        return part in prompt if name.endswith("…") else prompt.endswith(part)
    return f" {call}".endswith(f" {name}") or not name


def attention(table):
    """Return the attention of a piece over all pieces so far, or None if it is made up."""

    def weights(pieces):
        looks = table.get(pieces[-1], table.get("", {}))
        return [looks.get(piece, looks.get("", 1.0)) for piece in pieces]

    return table and weights


def passage(given):
    """Return a passage, whose id is its title if it is given as a text."""
    if isinstance(given, str):
        title, _, text = given.rpartition(": ")
        return Passage(title or text, title, text)
    return TypeAdapter(Passage).validate_python(given)


def outcome_of_trace(trace, queries, error):
    """Return what a row may expect, after checking what holds for every answer."""
    events, answer = trace.events, None
    if not error:
        answer, usage = trace.events[-1].answer, trace.usage()
        assert trace.committed.strip() == answer.text.strip()
        assert usage.searches == len(queries)
    return {
        "answer": answer and answer.text,
        "short": answer and answer.short,
        "queries": queries,
        "decisions": [decision_line(each) for each in events if isinstance(each, Decided)],
        "nodes": [node_line(each) for each in events if isinstance(each, Expanded)],
        "prompts": [each.prompt for each in events if isinstance(each, Generated)],
        "citations": {answer.text[c.start : c.end]: c.passage.title for c in answer.citations}
        if answer
        else {},
        "uncited": {each.text: each.why for each in events if isinstance(each, Uncited)},
        "error": error,
    }


def decision_line(event):
    hits = ", ".join(f"{word.text} {word.value:.3g}" for word in event.words if word.is_hit)
    return f"{event.name} {event.outcome}: {event.why}" + (f" [{hits}]" if hits else "")


def node_line(event):
    return f"{event.node} {event.action}: {event.text}" + (f" ({event.rejected})" if event.rejected else "")


def with_whole_texts(expected, outcome):
    """Return what is expected, where what happened takes the place of each part of it that fits."""
    rules = {"prompts": has_fragments, "error": is_error}
    return {
        name: whole(value, outcome[name], rules.get(name, is_beginning)) for name, value in expected.items()
    }


def whole(expected, actual, rule):
    if isinstance(actual, str) and expected is not None and rule(expected, actual):
        return actual
    if isinstance(actual, list) and isinstance(expected, list):
        return [whole(*pair, rule) for pair in zip_longest(expected, actual)]
    if isinstance(actual, dict) and isinstance(expected, dict):
        return {name: whole(value, actual.get(name), rule) for name, value in expected.items()}
    return expected


def is_beginning(expected, actual):
    return expected.endswith("…") and actual.startswith(expected[:-1])


def has_fragments(expected, actual):
    prompt, fragments = f"<start>{actual}<end>", [expected] if isinstance(expected, str) else expected
    return all(each[1:] not in prompt if each.startswith("!") else each in prompt for each in fragments)


def is_error(expected, actual):
    kind, _, fragment = expected.partition(": ")
    return actual.startswith(f"{kind}: ") and fragment in actual


if __name__ == "__main__":
    wanted = [row for file, row in ROWS if [file, row["id"]] == sys.argv[1:]]
    for row in wanted or sys.exit("usage: python -m tests.scenarios.test_scenarios FILE ID"):
        for method in usable_methods(row):
            print(json.dumps({"method": method} | outcome_of(row, method), indent=1, ensure_ascii=False))
