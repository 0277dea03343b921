"""Collecting replies of AirRAG's analysis and transformation, on the scripted model."""

import json

from runs.airrag_outputs import chosen, main


def test_replies_are_kept_as_they_were_written(questions, sample_index, tmp_path, capsys):
    file = tmp_path / "replies.jsonl"
    main(["--dataset", questions, "--index", str(sample_index), "--model", "scripted",
          "--sample", "3", "--most", "2", "--out", str(file)])  # fmt: skip
    replies = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert {tuple(reply) for reply in replies} == {("kind", "question", "model", "output")}
    kinds = [reply["kind"] for reply in replies]
    assert kinds == ["say", "say", "qt", "qt"] * 2, "two of each kind, at either temperature"
    assert any(reply["output"] for reply in replies)
    told = capsys.readouterr().out.splitlines()
    assert told == [f"{number} replies are in {file}" for number in (4, 8)], "after each temperature"


def test_equal_replies_are_one():
    reply = {"kind": "say", "question": "Who?", "model": "m", "output": "None"}
    other = reply | {"kind": "qt"}
    assert chosen([other, reply, dict(reply)], most=2) == [reply, other]


def test_questions_take_turns():
    replies = [{"kind": "qt", "question": question, "model": "m", "output": f"{question}{number}"}
               for question in ("A", "B", "C") for number in range(2)]  # fmt: skip
    assert [each["output"] for each in chosen(replies, most=4)] == ["A0", "B0", "C0", "A1"]
