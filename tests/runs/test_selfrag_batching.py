"""Calls together and one by one, on the scripted model."""

import asyncio
import json
from dataclasses import replace

import pytest
from runs.one_by_one import OneByOne
from runs.selfrag_batching import line_of, main, outcome, table

from askance.ask import Result
from askance.core.trace import Trace
from askance.core.types import Answer, GenerateRequest, Raw, Sampling, Span, Usage
from askance.models.scripted import ScriptedModel


class Remembering(ScriptedModel):
    """Counts how many of its calls run at once, and how often it has to forget."""

    running = most = forgotten = 0

    async def forget(self):
        assert self.running == 0, "it forgets between calls"
        self.forgotten += 1

    async def generate(self, request):
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        written = await super().generate(request)
        self.running -= 1
        return written


@pytest.mark.parametrize(("wrapped", "most", "forgotten"), [(True, 1, 4), (False, 3, 0)])
def test_one_by_one_is_a_call_at_a_time_and_nothing_kept(wrapped, most, forgotten):
    model = Remembering()
    prompt = Raw((Span("Rivers:"),))

    async def work():
        used = OneByOne(model) if wrapped else model
        calls = [
            used.generate(GenerateRequest(prompt, Sampling(3), key=("a", number))) for number in range(3)
        ]
        return await asyncio.gather(*calls, used.score(prompt, [" Rhine"]))

    *written, scored = asyncio.run(work())
    assert (model.most, model.forgotten) == (most, forgotten)
    assert [each.text for (each,) in written] == [written[0][0].text] * 3
    assert len(scored) == 1


def test_each_sample_of_a_local_model_is_computed_from_nothing(qwen):
    prompt, sampling = (
        Raw((Span("Rivers of Italy and what flows into them. " * 4),)),
        Sampling(4, temperature=1),
    )

    def written(model):
        before = qwen.computed_tokens
        found = asyncio.run(model.generate(GenerateRequest(prompt, sampling, n=3, key=("a",))))
        return [each.text for each in found], found, qwen.computed_tokens - before

    alone, found, computed_alone = written(OneByOne(qwen))
    assert [each.reused_tokens for each in found] == [0, 0, 0]
    together, _, computed = written(qwen)
    assert alone == together
    assert computed_alone - computed >= 2 * qwen.count(prompt) - 8, (
        "read once for all three, but for the last"
    )


def test_both_ways_are_timed_and_the_measurement_goes_on(options, tmp_path, capsys):
    given = [*options, "--set", "max_tokens=8", "passages=2", "--repeats", "2"]
    main([*given, "--sample", "1"])
    capsys.readouterr()
    main([*given, "--sample", "2"])
    printed, told = capsys.readouterr()
    assert told.count("times as long one by one") == 1, "the first is kept"
    assert printed.splitlines()[-1].startswith("| median of 2 |")
    rows = [json.loads(line) for line in (tmp_path / "out" / "questions.jsonl").read_text().splitlines()[1:]]
    assert [len(row["seconds"]["one by one"]) for row in rows] == [2, 2]
    assert all(row["is_same"] and row["segments"] >= 2 for row in rows)
    lines = json.loads((tmp_path / "out" / "batching.json").read_text())["lines"]
    assert {line["question"] for line in lines} == {*(row["id"] for row in rows), "median of 2"}


def row(id, together, alone, is_same=True):
    return {
        "id": id, "seconds": {"together": together, "one by one": alone},
        "calls": 9, "segments": 3, "is_same": is_same,
    }  # fmt: skip


def test_ratios_are_those_of_medians():
    rows = [row("a", [1.0, 2.0, 9.0], [4.0, 6.0, 5.0]), row("b", [4.0], [8.0], is_same=False)]
    assert line_of(rows[:1]).ratio == 2.5
    both = line_of(rows)
    assert (both.seconds_together, both.seconds_one_by_one, both.is_same) == (3.0, 6.5, False)
    assert table([both]).splitlines()[-1] == "| median of 2 | 3.00 | 6.50 | 2.17 | 9 | 3 | no |"


def test_an_outcome_is_the_answer_and_the_segments_in_any_order():
    usage = Usage()
    traces = [Trace(), Trace()]
    for trace, nodes in zip(traces, (("0.1", "0.2"), ("0.2", "0.1")), strict=True):
        for node in nodes:
            trace.expand(node, "retrieve", f"text of {node}", numbers={"score": len(trace.events)})
    one, other = (Result(Answer("Rhine"), usage, trace) for trace in traces)
    assert outcome(one) == outcome(other)
    assert outcome(one) != outcome(replace(other, answer=Answer("Elbe")))
    traces[1].expand("0.3", "none", "")
    assert outcome(one) != outcome(other)
