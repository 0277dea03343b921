"""`askance reproduce` as a user types it: the page, the files, what can't be run, and resuming."""

import csv
import json
import sys
from pathlib import Path

import pytest

from askance.core.errors import ModelFailure
from askance.models.scripted import Reply, ScriptedModel
from tests.evaluation.datasets.test_files import FILES
from tests.laboratory import usable

HOTPOT = f"hotpotqa:{FILES / 'hotpotqa.json'}"
DRAGIN = f"reproduce dragin 2 --dataset {HOTPOT} --scale 2 --model scripted"


@pytest.fixture
def reproduce(run, tmp_path, monkeypatch, sample_index):
    """Run a command in an empty folder with a model that always answers Bonn, and count its calls."""
    calls = []

    def reply(self, shown, key):
        calls.append(key)
        return Reply(" So the answer is Bonn.")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ScriptedModel, "_reply", reply)

    def reproduce(words, index=True):
        del calls[:]
        given = f" --index {sample_index}" if index else ""
        return *run(f"{words}{given}"), len(calls)

    return reproduce


def cells(page, row):
    """The cells of the row of a Markdown page."""
    (line,) = (line for line in page.splitlines() if line.startswith(f"| {row} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_table_has_the_measured_and_the_printed_number_in_every_cell(reproduce, tmp_path):
    code, page, err, calls = reproduce(f"{DRAGIN} --out out")
    assert code == 0, err
    assert calls > 0
    assert page == (tmp_path / "out" / "tables.md").read_text(encoding="utf-8")
    row, model, *values = cells(page, "DRAGIN")
    assert (row, model) == ("DRAGIN", "Llama2-13b-chat")
    assert values[0] == "– / 0.304", "no file of 2WikiMultihopQA is given"
    assert values[3] == "0.000 (0.000 to 0.842) / 0.314"
    assert values[5].endswith(" / 3.505")
    assert cells(page, "wo-RAG")[7] == "0.00 / –"
    for line in (
        "- Model: scripted, beside the paper's model that each row names.",
        "- Questions: hotpotqa 2; the paper's: 2wikimultihopqa 1,000, hotpotqa 1,000,",
        "- Not run: all rows on iirc: no --dataset iirc:FILE is given",
        "21,015,324 passages of 100 words (DPR), BM25.",
    ):
        assert line in page
    rows = list(csv.DictReader((tmp_path / "out" / "tables.csv").read_text(encoding="utf-8").splitlines()))
    (found,) = (
        each
        for each in rows
        if (each["row"], each["dataset"], each["metric"]) == ("SR-RAG", "hotpotqa", "searches")
    )
    assert (found["mean"], found["num_questions"], found["printed"]) == ("1.0", "2", "")
    assert found["paper_model"] == "Llama2-13b-chat"
    assert (tmp_path / found["runs"] / "settings.json").exists(), "an ordinary run folder"


def test_the_same_command_asks_nothing_again_and_tables_share_runs(reproduce):
    first = reproduce(f"{DRAGIN} --out out")
    again = reproduce(f"{DRAGIN} --out out")
    assert (again[1], again[3]) == (first[1], 0)
    code, page, err, calls = reproduce(f"{DRAGIN.replace('dragin 2', 'dragin 6')} --out out")
    assert code == 0, err
    others = calls
    assert cells(page, "FS-RAG")[-1].endswith(" / 0.3685")
    code, page, _, calls = reproduce(f"{DRAGIN.replace('dragin 2', 'dragin 2 6 8 9')} --out out")
    assert (code, calls) == (0, 0)
    assert others > 0
    with Path("out/tables.csv").open(encoding="utf-8") as file:
        cells_of_dragin = [row for row in csv.DictReader(file) if row["row"] == "DRAGIN" and row["runs"]]
    assert {row["table"] for row in cells_of_dragin} == {"Table 2; searches: Table 3", "Table 6"}
    assert len({row["runs"] for row in cells_of_dragin}) == 1, "the same settings, in other words"
    assert "| Vicuna-13b-v1.5, threshold | 1.2 | 1.2 | 1.3 | 1.5 |" in page
    assert "| worked examples | 6 | 8 | 8 |" in page


def test_other_settings_for_a_cell_that_has_a_run_are_refused_with_the_difference(reproduce, tmp_path):
    assert reproduce(f"{DRAGIN} --out out")[0] == 0
    kept = (tmp_path / "out" / "tables.md").read_text(encoding="utf-8")
    code, _, err, calls = reproduce(f"{DRAGIN} --out out --retriever bm25?k1=2")
    assert (code, calls) == (2, 0)
    assert "was started with other settings (" in err
    assert "retriever: bm25, now bm25?k1=2): name another --out, or the same settings." in err
    code, _, err, _ = reproduce(f"{DRAGIN.replace('--scale 2', '--scale 1')} --out out")
    assert code == 2
    assert "is not selected now" in err
    assert (tmp_path / "out" / "tables.md").read_text(encoding="utf-8") == kept


def test_a_model_stands_beside_the_model_that_it_is_said_to_be(reproduce):
    words = f"{DRAGIN.replace('--model', '--model Vicuna-13b-v1.5=')} --out out".replace("= ", "=")
    code, page, err, _ = reproduce(words)
    assert code == 0, err
    assert cells(page, "DRAGIN")[1] == "Vicuna-13b-v1.5"
    assert cells(page, "DRAGIN")[5].endswith(" / 0.288")
    assert "beside the paper's Vicuna-13b-v1.5." in page


def test_a_model_without_attention_leaves_the_other_rows_standing(reproduce, monkeypatch):
    made = ScriptedModel.__init__

    def poor(self, *given, **named):
        made(self, *given, **named)
        self.signals = frozenset({"logprob"})

    monkeypatch.setattr(ScriptedModel, "__init__", poor)
    code, page, err, _ = reproduce(f"{DRAGIN} --out out")
    assert code == 0, err
    assert cells(page, "DRAGIN")[5] == "– / 0.314"
    assert cells(page, "SR-RAG")[5].startswith("0.000 (")
    assert "Not run: DRAGIN on hotpotqa: method dragin_paper" in page


def test_the_authors_code_has_rows_of_its_own(reproduce, monkeypatch):
    """Where the laboratory is not installed, they say how to install it."""
    words = f"{DRAGIN.replace('dragin 2', 'dragin 4').replace('hotpotqa', 'iirc')} --authors --out out"
    code, page, err, _ = reproduce(words)
    assert code == 0, err
    code_cells = cells(page, "FS-RAG, authors' code")
    assert code_cells[2].endswith(" / 0.171")
    if usable("dragin_authors"):
        assert code_cells[2].startswith("0.000 (")
    else:
        assert "Not run: FLARE, authors' code" in page
        assert "askance-lab" in page


def test_an_index_without_vectors_of_the_encoder_is_named(reproduce):
    words = f"{DRAGIN.replace('dragin 2', 'dragin 7')} --out out"
    code, page, err, _ = reproduce(words)
    assert code == 0, err
    assert cells(page, "DRAGIN, SGPT")[5] == "– / 0.264"
    assert "Not run: DRAGIN, SGPT on hotpotqa: the index" in page
    assert "has no vectors: make them with" in page


def test_averages_are_over_the_datasets_that_are_there(reproduce):
    words = "reproduce airrag 3 --scale 1 --model scripted --retriever bm25 --out out"
    words += f" --dataset {HOTPOT} --dataset musique:{FILES / 'musique.jsonl'}"
    code, page, err, _ = reproduce(words)
    assert code == 0, err
    *_, f1, accuracy = cells(page, "Vanilla RAG")
    assert (f1.endswith(" / 47.0"), accuracy.endswith(" / 43.2")) == (True, True)
    assert not f1.startswith("–")
    assert "Averages: over 2 of 3 datasets, which weigh the same" in page


def test_printed_numbers_alone_need_no_model(reproduce):
    code, page, _, calls = reproduce("reproduce selfrag", index=False)
    assert (code, calls) == (0, 0)
    page, _, figures = page.partition("## Figure 3a")
    assert figures, "without a number, all of the paper"
    assert cells(page, "Self-RAG")[2] == "– / 54.9"
    assert "Not measured: nli_citation_recall: after `askance judge RUN --citations SPEC`" in page
    assert "Not measured: mauve" in page
    assert "Cells: measured (95 % interval; MAUVE: range of 5 clusterings) / printed, as percentages." in page
    assert "MAUVE" not in reproduce("reproduce dragin", index=False)[1]


def test_judged_numbers_of_the_runs_are_shown(reproduce, run, tmp_path, sample_index):
    words = f"reproduce selfrag 2 --dataset biographies:{FILES / 'biographies.txt'} --scale 2"
    words += " --retriever bm25 --model scripted --out out"
    code, page, err, _ = reproduce(words)
    assert code == 0, err
    assert cells(page, "no retrieval")[6] == "– / 44.5"
    assert "Not measured: factscore: after `askance judge RUN --facts SPEC`, the same command" in page
    assert "- Questions: biographies 2; the paper's: popqa 1,399, " in page
    (folder,) = (tmp_path / "out" / "biographies" / "scripted").glob("closed_book*")
    assert run("judge", folder, "--facts", "scripted", "--index", sample_index)[0] == 0
    code, page, err, _ = reproduce(words)
    assert code == 0, err
    assert cells(page, "no retrieval")[6].endswith(") / 44.5")
    assert "- Judged: no retrieval on biographies: factscore by scripted\n" in page
    assert "Incomplete" not in page
    assert "Not measured: mauve" in page
    assert "Not measured: factscore" not in page


def test_a_judge_that_stopped_halfway_is_named_with_the_number_of_its_answers(
    reproduce, run, tmp_path, sample_index, monkeypatch
):
    words = f"reproduce selfrag 2 --dataset biographies:{FILES / 'biographies.txt'} --scale 2"
    words += " --retriever bm25 --model scripted --out out"
    assert reproduce(words)[0] == 0
    (folder,) = (tmp_path / "out" / "biographies" / "scripted").glob("closed_book*")
    judge = ("judge", folder, "--facts", "scripted", "--index", sample_index, "--in-flight", "1")
    with monkeypatch.context() as patch:
        answered, ids = ScriptedModel._reply, []

        def reply(self, shown, key):
            ids.append(key[1])
            if key[1] != ids[0]:
                raise ModelFailure("no memory")
            return answered(self, shown, key)

        patch.setattr(ScriptedModel, "_reply", reply)
        assert run(*judge)[0] == 1
    code, page, err, _ = reproduce(words)
    assert code == 0, err
    assert cells(page, "no retrieval")[6] == "– / 44.5"
    assert (
        "- Incomplete: no retrieval on biographies: factscore: scripted has judged 1 of 2 answers: "
        "repeat its `askance judge`\n" in page
    )
    assert run(*judge)[0] == 0
    _, page, _, _ = reproduce(words)
    assert "Incomplete" not in page
    assert "- Judged: no retrieval on biographies: factscore by scripted\n" in page


def failing(monkeypatch, number):
    """Let the first replies of the model fail."""
    answered = ScriptedModel._reply

    def reply(self, shown, key):
        nonlocal number
        number -= 1
        if number >= 0:
            raise ModelFailure("\x1b[31mno\nmemory <b>")
        return answered(self, shown, key)

    monkeypatch.setattr(ScriptedModel, "_reply", reply)


def test_a_cell_whose_questions_all_failed_is_incomplete(reproduce, monkeypatch, tmp_path):
    failing(monkeypatch, 1000)
    code, page, _, _ = reproduce(f"{DRAGIN} --out out")
    assert code == 1
    assert "- Incomplete: all rows on hotpotqa: 2 of 2 questions failed: " in page
    assert "�[31mno memory &lt;b>" in page, "and nothing of the message is read as more than text"
    assert "\x1b" not in page + (tmp_path / "out" / "tables.md").read_text(encoding="utf-8")


def test_the_number_of_failed_questions_is_named(reproduce, monkeypatch):
    failing(monkeypatch, 1)
    code, page, err, _ = reproduce(f"{DRAGIN} --out out")
    assert code == 0, err
    assert "- Incomplete: wo-RAG on hotpotqa: 1 of 2 questions failed: ModelFailure: " in page
    assert page.count("- Incomplete: ") == 1


def test_models_of_similar_names_have_runs_of_their_own(reproduce, tmp_path):
    line = json.dumps({"text": " So the answer is Bonn."}) + "\n"
    (tmp_path / "a").mkdir()
    for name in ("a/b.jsonl", "a-b.jsonl"):
        (tmp_path / name).write_text(line * 2, encoding="utf-8")
    words = DRAGIN.replace("--model scripted", "--model scripted:a/b.jsonl --model scripted:a-b.jsonl")
    code, page, err, _ = reproduce(f"{words} --out out")
    assert code == 0, err
    assert page.count("- Model: scripted:a") == 2
    folders = {path.name for path in (tmp_path / "out" / "hotpotqa").iterdir()}
    assert len(folders) == 2


def test_settings_come_from_files_and_the_environment_too(reproduce, tmp_path, sample_index, monkeypatch):
    (tmp_path / "c.toml").write_text(
        f'index = "{sample_index}"\nretriever = "bm25?k1=2"\nmethod = "single"\n', encoding="utf-8"
    )
    code, page, err, _ = reproduce(f"{DRAGIN} --config c.toml --out out", index=False)
    assert code == 0, err
    assert f"- Corpus: {sample_index}, by bm25?k1=2 unless a row has its own" in page
    assert cells(page, "SR-RAG")[5].startswith("0.000 (")
    monkeypatch.setenv("ASKANCE_INDEX", str(sample_index))
    code, page, err, _ = reproduce(f"{DRAGIN} --out other", index=False)
    assert code == 0, err
    assert f"- Corpus: {sample_index}, by bm25 unless a row has its own" in page


def test_roles_alone_leave_the_answers_to_the_bundled_model(reproduce):
    code, page, err, _ = reproduce("reproduce dragin 6 --model attend=scripted", index=False)
    assert code == 0, err
    assert "- Model: bundled, beside the paper's model that each row names." in page
    _, page, _, _ = reproduce("reproduce dragin 6 --model answer=scripted", index=False)
    assert "- Model: scripted, beside the paper's model that each row names." in page


def test_parameters_of_a_preset_may_name_gates_and_be_many(reproduce, tmp_path):
    (tmp_path / "p.toml").write_text(
        '[single]\nguard = "agreement"\nmax_tokens = 7\n[dragin_paper]\n'
        "threshold = 0.123456789012\ntemperature = 0.123456789012\ntop_p = 0.123456789012\ntop_k = 7\n"
        "passages = 7\nmax_tokens = 71\nquery_top = 31\nevery_tokens = 29\n",
        encoding="utf-8",
    )
    code, page, err, _ = reproduce(f"{DRAGIN} --preset p.toml --out out")
    assert code == 0, err
    assert "Not run: DRAGIN" not in page
    assert cells(page, "SR-RAG")[5].startswith("0.000 (")
    made = list((tmp_path / "out" / "hotpotqa" / "scripted").iterdir())
    assert [path for path in made if "guard=agreement" in path.name]
    assert max(len(path.name) for path in made) <= 150


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (f"{DRAGIN} --dataset iirc:typo.json --out out", "typo.json"),
        (f"{DRAGIN} --dataset hotpotqa:other.json --out out", "give each dataset once"),
        ("reproduce dragin 2 --dataset iirc=jsonl:a.jsonl --out out", "write iirc:FILE"),
        (f"{DRAGIN} --model judge=openai:a --model judge=openai:b", "--model names 'judge' more than once"),
        ("reproduce dragin 2 --preset nope", "unknown preset 'nope'"),
        (f"reproduce dragin 6 --dataset iirc:{FILES / 'iirc.json'} --out out", "no --dataset hotpotqa:FILE"),
    ],
)
def test_what_can_t_be_meant_is_refused_before_any_run(reproduce, words, expected):
    code, page, err, calls = reproduce(words)
    assert (code, page, calls) == (2, "", 0)
    assert expected in " ".join(err.split())


def test_a_model_that_can_t_be_loaded_is_bad_input(reproduce):
    code, page, err, calls = reproduce(f"{DRAGIN} --model scripted:missing.jsonl --out out")
    assert (code, calls > 0) == (2, True), err
    assert "- Incomplete: all rows on hotpotqa: stopped: " in page
    assert "missing.jsonl" in page
    first, _, _ = page.partition("## Table 2; searches: Table 3, scripted:missing.jsonl")
    assert cells(first, "SR-RAG")[5].startswith("0.000 ("), "the other model has its table"


def test_a_table_is_shown_once_and_a_new_folder_is_made(reproduce, tmp_path):
    code, page, err, _ = reproduce("reproduce dragin 2 3 5 --model Vicuna-13b-v1.5=scripted --out new/dir")
    assert code == 0, err
    assert page.count("## Table 2; searches: Table 3") == 1
    _, _, table5 = page.partition("## Table 5, scripted\n")
    assert "- No row of this table has the model Vicuna-13b-v1.5.\n" in table5
    assert "|" not in table5
    assert (tmp_path / "new" / "dir" / "tables.csv").exists()
    code, _, err, _ = reproduce("reproduce dragin 2 --out new/dir/tables.csv/x")
    assert code == 2
    assert "can't write" in err


def numbers(folder, **wanted):
    """The rows of tables.csv in a folder that have these values."""
    with (folder / "tables.csv").open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if wanted.items() <= row.items()]


FIGURE3 = f"reproduce airrag figure3 --dataset {HOTPOT} --scale 1"
FIGURE3 += " --axis passages=1,2 --axis l_max=none --model scripted --retriever bm25 --out out"


def test_a_figure_has_a_point_for_each_value_of_its_axis(reproduce, tmp_path, monkeypatch):
    code, page, err, calls = reproduce(FIGURE3)
    assert code == 0, err
    assert calls > 0
    assert page.count("\n## Figures 3 and 7") == 2, "the left and the right one"
    assert "| series | passages per search, k | hotpotqa, f1 | hotpotqa, accuracy |" in page
    assert "| AirRAG | 2 | 0.0 (0.0 to 97.5) |" in page, "and no printed number"
    assert "- The paper prints no numbers of this figure." in page
    assert "beside" not in page
    points = numbers(tmp_path / "out", axis="passages", dataset="average", metric="f1")
    series = ("Vanilla RAG", "IterDRAG", "AirRAG-Lite", "AirRAG")
    assert [(row["series"], row["at"]) for row in points] == [(name, at) for name in series for at in "12"]
    assert {row["num_questions"] for row in points} == {"1"}
    (unlimited,) = numbers(
        tmp_path / "out", series="AirRAG", at="none", dataset="hotpotqa", metric="supporting_recall"
    )
    assert (tmp_path / unlimited["runs"] / "settings.json").exists(), "an ordinary run folder"
    names = {path.stem for path in (tmp_path / "out").glob("*.svg")}
    assert names == {
        f"figures-3-and-7-{side}-{dataset}-scripted"
        for side in ("left", "right")
        for dataset in ("hotpotqa", "average")
    }
    picture = (tmp_path / "out/figures-3-and-7-left-average-scripted.svg").read_text(encoding="utf-8")
    assert picture.startswith("<?xml")
    for text in ("AirRAG-Lite", "supporting recall", "passages"):
        assert f">{text}<" in picture
    monkeypatch.setattr("askance.cli.reproduce.find_spec", lambda name: None)
    code, _, err, calls = reproduce(
        FIGURE3.replace("figure3 ", "figure7 ").replace("passages=1,2", "passages=2")
    )
    assert (code, calls) == (0, 0), "the points that are there are not asked again"
    assert not numbers(tmp_path / "out", at="1")


def test_a_figure_needs_no_matplotlib_for_its_data(reproduce, tmp_path, monkeypatch):
    monkeypatch.setattr("askance.cli.reproduce.find_spec", lambda name: None)
    for name in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.setitem(sys.modules, name, None)
    popqa = f"--dataset popqa={HOTPOT}"
    words = f"reproduce selfrag figure3c {popqa} --axis threshold=0,1 --scale 2 --model scripted"
    code, page, err, _ = reproduce(f"{words} --retriever bm25 --out out")
    assert code == 0, err
    assert "| Self-RAG | 0 | – | – | 0.0 (0.0 to 84.2) |" in page
    assert "Not run: all rows on pubhealth: no --dataset pubhealth:FILE is given" in page
    points = numbers(tmp_path / "out", dataset="popqa", metric="searches")
    assert [(row["series"], row["axis"], row["at"]) for row in points] == [
        ("Self-RAG", "threshold", "0"),
        ("Self-RAG", "threshold", "1"),
    ]
    assert not list((tmp_path / "out").glob("*.svg"))


def test_ablations_have_their_printed_numbers_and_other_models_a_reason(reproduce):
    words = f"reproduce selfrag figure3a figure4b --dataset popqa={HOTPOT} --scale 1 --model scripted"
    code, page, err, _ = reproduce(f"{words} --retriever bm25 --out out")
    assert code == 0, err
    assert cells(page, "Retrieve top 1")[2].endswith(") / 41.8")
    assert cells(page, "No Critic")[2] == "– / 42.6"
    assert "Not run: No Critic on popqa, pubhealth, asqa: it is another model" in page
    assert "| 4b | accuracy on PubHealth | askance train curve --eval pubhealth:FILE |" in page


def test_the_list_names_what_each_table_needs(run):
    code, out, _ = run("reproduce --list --scale 10 --seconds-per-call 36", columns=300)
    assert code == 0
    lines = out.splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("dragin 7  Table 7: the retriever"))
    assert lines[at + 1].strip() == (
        "2wikimultihopqa, hotpotqa, iirc, an index for bm25 and dense; models: Llama2-13b-chat; 6 cells, "
        "300 calls, 3.0 hours"
    )
    assert any("a judge of facts, a judge of mauve, a judge of citations" in line for line in lines)
    assert ", without biographies" not in out
    assert run("reproduce selfrag --list", columns=400)[1].count(" calls, without biographies\n") == 1
    assert all(
        any(line.startswith(f"{paper} ") for line in lines) for paper in ("dragin", "airrag", "selfrag")
    )
