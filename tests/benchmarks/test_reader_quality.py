"""The reading quality of the scripted model: the runs, and the table."""

import json

from benchmarks.reader_quality import is_well_formed, main

from askance.evaluation.run.recorded_run import read_run
from askance.models.scripted import read_replies


def test_each_model_reads_gold_passages_and_searches_for_its_own(hotpot, sample_index, tmp_path, capsys):
    out = tmp_path / "out"
    given = ["--dataset", hotpot, "--index", str(sample_index), "--model", "scripted", "--out", str(out)]
    main(given)
    cells = {folder.name for folder in (out / "runs" / "hotpotqa" / "scripted").iterdir()}
    assert cells == {"gold", "closed_book", "single", "dragin"}
    gold = read_run(out / "runs/hotpotqa/scripted/gold")
    assert [record.scores["supporting_recall"] for record in gold.records] == [1, 1, 1]
    assert gold.settings.index == "@gold"
    lines = json.loads((out / "reading.json").read_text())
    assert [line["what"] for line in lines if line["what"].endswith("f1")] == [
        "gold: f1", "closed_book: f1", "single: f1", "single − closed_book: f1",
        "dragin: f1", "dragin − single: f1",
    ]  # fmt: skip
    assert {line["num_questions"] for line in lines} == {3}
    printed = capsys.readouterr().out
    assert printed.count("\n") == len(lines) + 2
    main(given)
    assert capsys.readouterr().out == printed, "finished runs are read, not asked again"


def test_well_formed_is_stated_without_being_asked_for(hotpot, tmp_path):
    replies = tmp_path / "replies.jsonl"
    replies.write_text(
        "\n".join(
            json.dumps({"text": text}) for text in (" So the answer is Arno.", " It is wide.", " Danube.")
        )
        + "\n"
    )
    assert read_replies(replies)
    main(["--gold-only", hotpot, "--model", f"scripted:{replies}", "--out", str(tmp_path / "out")])
    (run,) = (tmp_path / "out" / "runs" / "hotpotqa").iterdir()
    records = read_run(run / "gold").records
    assert any(map(is_well_formed, records))
    assert not all(map(is_well_formed, records))
