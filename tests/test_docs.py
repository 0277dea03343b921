"""The documents tell the truth: snippets run, commands exist, tables match the code."""

import dataclasses
import re
import shlex
import shutil
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from typer.main import get_command

from askance.cli.main import app
from askance.configuration.catalogue import AIRRAG_PROMPT_SETS, DATASETS, METRICS, MODELS, PROMPT_SETS
from askance.configuration.grid import read_grid
from askance.configuration.methods import make_method, method_class
from askance.configuration.presets import open_preset
from askance.configuration.prompts import open_prompts
from askance.configuration.reproduction import find_tables
from askance.core.parameters import parse_parameters
from askance.core.spec import parse_spec
from askance.core.trace import EVENT_TYPES
from askance.evaluation.judging.citations import citation_scores
from askance.evaluation.judging.facts import fact_scores
from askance.evaluation.statistics.summaries import Costs
from askance.methods.airrag.prompts import AirragPromptTemplate
from askance.methods.airrag.reward import FEATURES
from askance.methods.common.prompts import PromptTemplate
from tests.evaluation.hand_made import record, written
from tests.laboratory import EVERY_METHOD, usable

ROOT = Path(__file__).parent.parent
DOCS = {page.stem: page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")}
README, START, EVALUATION = (
    (ROOT / "README.md").read_text(encoding="utf-8"),
    DOCS["start"],
    DOCS["evaluation"],
)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
RUN = "start evaluation runs comparing calibration runtime extending chat".split()
"""The pages whose snippets run."""
SNIPPETS = re.findall(r"```python\n(.*?)```", README + "".join(map(DOCS.get, RUN)), flags=re.DOTALL)


@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
def test_snippets_run(snippet, few_layers_by_name, sample_index, tmp_path, monkeypatch, capsys):
    shutil.copytree(sample_index, tmp_path / "my-index")
    for title in ("flare", "single"):
        written(tmp_path / "my-runs" / title, [record(1)], title=title)
    monkeypatch.chdir(tmp_path)
    exec(compile(snippet, "snippet", "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out.strip()


def console_lines(*titles):
    """The commands under headings of the page for beginners, each as its words."""
    sections = [START.split(f"\n## {title}\n")[1].split("\n## ")[0] for title in titles]
    blocks = re.findall(r"```console\n(.*?)```", "".join(sections), flags=re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert all(line.startswith("$ ") for line in lines)
    return [shlex.split(line[2:], comments=True) for line in lines]


FIRST = ("The first minutes", "Your own documents", "A better model: Ollama, vLLM and others")


def without_weights(words):
    """Return the same command for the scripted model, and without vectors."""
    named = [*words, *(["--model", "bundled"] if words[1] == "ask" and "--model" not in words else [])]
    named += ["--encoder", "none"] if words[1] == "index" and "--encoder" not in words else []
    return ["scripted" if word == "bundled" else word for word in named[1:]]


def test_the_lines_of_the_first_minutes_run_in_order(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("notes", "papers"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "one.md").write_text("# Passages\n\nWhat you remember of a passage.")
    ran = []
    for words in (words for words in console_lines(*FIRST[:2]) if words[0] == "askance"):
        code, out, err = run(*without_weights(words))
        assert (code, bool(out)) == (0, True), (words, err)
        ran.append(words[1])
    assert (ran[:5], ran[-4:]) == (
        ["index", "search", "ask", "trace", "ask"],
        ["methods", "index", "search", "ask"],
    )
    assert (tmp_path / "why.jsonl").exists()
    words = console_lines("Measure it")[0]
    code, out, err = run(*words[1:], "--model", "scripted")
    assert (code, "of sample" in out) == (0, True), err


def test_the_other_lines_of_the_first_minutes_name_what_exists():
    """They are not run by the tests, since they install, build, or need a server."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    lines = console_lines(*FIRST)
    others = [words for words in lines if words[0] != "askance"]
    text = " ".join(map(" ".join, others))
    extras = set(re.findall(r"\.\[(\w+)\]", text))
    assert {words[0] for words in others} == {"make", "python3", "pip", "ollama", "vllm"}
    assert set(re.findall(r"\S+==\S+", text)) <= set(pinned)
    assert extras == {"remote"} <= project["optional-dependencies"].keys()
    specs = [word for words in lines for word in words if word.startswith("openai:")]
    servers = {parse_spec(spec).place.partition("@")[2] for spec in specs}
    assert servers == {"http://localhost:11434/v1", "http://localhost:8000/v1"}
    commands = re.findall(r"^\$ (\S+ \S+)", README, flags=re.MULTILINE)
    assert commands[:2] == ["make demo", "make test"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert {"demo", "test", "check", "bench"} <= {*re.findall(r"^(\w+):", makefile, flags=re.MULTILINE)}


METHOD_PAGES = sorted({name.removesuffix("_authors").removesuffix("_paper") for name in EVERY_METHOD})


@pytest.mark.parametrize("name", METHOD_PAGES)
def test_every_method_has_a_page_with_its_parameters(name):
    page = (ROOT / "docs" / "methods" / f"{name}.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (\S+) \|", page, flags=re.MULTILINE))
    readings = [each for each in EVERY_METHOD if each in (name, f"{name}_paper", f"{name}_authors")]
    fields = [field for each in reversed(readings) for field in dataclasses.fields(method_class(each))]
    texts = {field.name: str(field.default) for field in fields}
    shown = {name: text.lower() if text in ("True", "False") else text for name, text in texts.items()}
    assert rows.items() >= shown.items()
    assert rows.keys() == shown.keys() or "dragin_authors" not in EVERY_METHOD, "rows of the laboratory"
    assert f"]({name}.md)" in (ROOT / "docs" / "methods" / "index.md").read_text(encoding="utf-8")


def test_the_files_of_the_documents_can_be_used(tmp_path):
    (text,) = re.findall(r"```toml\n(.*?)```", DOCS["calibration"], flags=re.DOTALL)
    (tmp_path / "p.toml").write_text(text)
    preset = open_preset(tmp_path / "p.toml")
    for method in usable(*preset.entries):
        assert preset.parameters(type(make_method(method)), {}, parse_parameters) == preset.entries[method]
    (text,) = re.findall(r"```toml\n(.*?)```", DOCS["runs"], flags=re.DOTALL)
    (tmp_path / "grid.toml").write_text(text, encoding="utf-8")
    cells = read_grid(tmp_path / "grid.toml").experiments()
    assert {name: cell.sample for name, cell in cells.items()} == {
        "hotpotqa/bundled/single": 50,
        "hotpotqa/bundled/dragin_paper": 50,
        "strategyqa/bundled/single": 100,
        "strategyqa/bundled/dragin_paper": 100,
    }


def test_models_of_the_table_exist():
    rows = re.findall(r"^\| `([\w-]+)[:`]", DOCS["models"], flags=re.MULTILINE)
    assert {*MODELS, "features"} <= set(rows)


def section(title):
    """The text under a heading of the page on evaluation."""
    return EVALUATION.split(f"\n## {title}\n")[1].split("\n## ")[0]


def table_rows(text, head):
    """The cells of the table whose first title is `head`, row by row."""
    (table,) = re.findall(rf"^\| {head} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, flags=re.MULTILINE)
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in table.splitlines()]
    return [tuple(cell.strip().strip("`").replace("\\|", "|") for cell in row) for row in rows]


def test_datasets_metrics_and_costs_of_the_tables_exist():
    licences = {spec: licence for spec, _, licence in table_rows(section("Datasets"), "dataset")}
    assert licences == {dataset.spec: dataset.licence for dataset in DATASETS.values()}
    for dataset in DATASETS.values():
        assert not dataset.source.startswith("http") or f"]({dataset.source})" in EVALUATION
    metrics = [(name + metric.parameter, metric.reads) for name, metric in METRICS.items()]
    assert [(spec, reads) for spec, _, reads in table_rows(section("Metrics"), "metric")] == metrics
    costs = [each.name for each in dataclasses.fields(Costs) if each.name not in ("price", "is_upper_bound")]
    assert [name for name, *_ in table_rows(section("Metrics"), "cost")] == costs


def test_options_of_commands_are_documented():
    documented = {option.split()[0]: what for option, what in table_rows(DOCS["comparing"], "option")}
    both = option_names("compare") & option_names("report")
    assert {option for option, what in documented.items() if not what.startswith("(")} == both
    for command in ("compare", "report"):
        own = {option for option, what in documented.items() if what.startswith(f"({command})")}
        assert own == option_names(command) - both
    page = DOCS["judging"]
    assert {option.split()[0] for option, _ in table_rows(page, "option")} == option_names("judge")
    scores = {**citation_scores(()), **fact_scores(())}
    numbers = re.findall(r"^\| number \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", page, flags=re.MULTILINE)
    assert re.findall(r"^\| `(\w+)`", "".join(numbers), flags=re.MULTILINE) == list(scores)


def option_names(command):
    """Of a command of the command line, with their dashes."""
    params = get_command(app).get_command(None, command).params
    return {param.opts[0] for param in params if param.param_type_name == "option"} - {"--help"}


def test_every_event_and_feature_is_documented():
    inherited = {"id", "parent", "at_seconds", "seconds"}
    for event_type in EVENT_TYPES:
        assert f"`{event_type.type}`" in DOCS["trace"]
        names = {field.name for field in dataclasses.fields(event_type)} - inherited
        assert event_type.type == "draft" or all(f"`{name}`" in DOCS["trace"] for name in names)
    features = [name.strip("`") for name, _ in table_rows(DOCS["train_reward"], "feature")]
    assert features == [*FEATURES]


def test_the_page_on_prompts_names_every_key_and_set(tmp_path):
    page, of_airrag = DOCS["prompts"].split("## The prompts of AirRAG")
    sets, keys = re.findall(r"\| set \|.*?\n\n|\| key \|.*?\n\n", page, flags=re.DOTALL)
    examples = dict(re.findall(r"^\| `(\w+)`.*? \| (\d) \|", sets, flags=re.M))
    assert examples == {name: str(len(open_prompts(name).demos)) for name in PROMPT_SETS}
    content = {field.name for field in dataclasses.fields(PromptTemplate) if field.compare}
    assert set(re.findall(r"^\| `(\w+)` \|", keys, flags=re.M)) == {"base", *content}
    (shown,) = re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)
    (tmp_path / "mine.toml").write_text(shown, encoding="utf-8")
    assert len(open_prompts(tmp_path / "mine.toml").demos) == 2
    rows = re.findall(r"^\| (`.*?) \|", of_airrag, flags=re.M)
    named = set(re.findall(r"`([\w-]+)`", " ".join(rows)))
    content = {field.name for field in dataclasses.fields(AirragPromptTemplate) if field.compare}
    assert named == {"base", *content, *AIRRAG_PROMPT_SETS}


def test_the_claims_of_the_papers_are_counted_and_shown_by_what_exists():
    page = DOCS["papers"]
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| claim |")]
    states = Counter(re.split(r"(?<!\\) \| ", row)[1] for row in rows)
    assert states.keys() == {"works", "deviates", "not here"}
    counted = "Of {} claims, {works} work, {deviates} deviate and {not here} are not here"
    assert counted.format(len(rows), **states) in page
    for paper, numbers in re.findall(r"`askance reproduce (\w+)([ \w]*)`", page):
        find_tables(paper, numbers.split() or None)
    methods = re.findall(r"`askance methods (\w+)`", page)
    assert methods
    assert all(map(method_class, methods))


def test_links_lead_somewhere_and_named_scripts_exist():
    parts = ("src", "lab", "tests", "scripts", "recipes", "studies", "benchmarks", "examples")
    files = [path.relative_to(ROOT).as_posix() for part in parts for path in (ROOT / part).rglob("*.py")]
    files += ["eval.py", "convert_lora_to_gguf.py", "src/data.py"]  # scripts of other projects
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#]+)", text):
            assert target.startswith("http") or (page.parent / target).exists(), f"{page.name} → {target}"
        if page.parent.name in ("docs", ROOT.name):
            for name in re.findall(r"[\w/]+\.py\b", " ".join(re.findall(r"`([^`\n]+)`", text))):
                assert any(f"/{file}".endswith(f"/{name}") for file in files), (page.name, name)
