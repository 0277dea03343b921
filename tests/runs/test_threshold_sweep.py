"""DRAGIN against its threshold, on the scripted model."""

from runs.threshold_sweep import main, paper_table

from askance.eval.recorded_run import read_run
from askance.eval.summaries import summarise


def test_a_higher_threshold_searches_less(options, tmp_path, capsys):
    main([*options, "--thresholds", "0", "1000", "--sample", "1"])
    runs = tmp_path / "out" / "runs" / "jsonl" / "scripted"
    low, high = (summarise(read_run(runs / f"threshold={each}")) for each in (0.0, 1000.0))
    assert low.costs.searches > high.costs.searches == 1
    assert (low.title, high.title) == (
        "dragin (default, threshold=0.0)",
        "dragin (default, threshold=1000.0)",
    )
    printed = capsys.readouterr().out
    assert "run minus dragin (default, threshold=0.0)**" in printed
    assert printed.endswith(paper_table() + "\n")
    assert "| 0.6 | 0.304 | 0.3931 |" in printed
    assert (tmp_path / "out" / "report.html").exists()
