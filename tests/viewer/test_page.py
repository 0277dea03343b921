"""The viewer's page: one file without a network, in which no text of a trace becomes markup."""

import base64
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from askance.core.safe_text import json_line
from askance.evaluation.run.recorded_run import read_run
from askance.storage.trace_file import event_record
from askance.viewer.page import standalone_page, viewer_files
from tests.evaluation.hand_made import record, written
from tests.viewer import traces

MARKUP = (
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|srcdoc|\beval\(|new Function|setHTML"
)
DEFINED = re.compile(
    r"^(?:export )?(?:async )?(?:function|class|const|let) (?:(\w+)|\[([\w, ]+)\])", re.MULTILINE
)


class Parsed(HTMLParser):
    """The elements of a page with their attributes and texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[int, str] = {}
        self.is_open = False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.is_open = True

    def handle_endtag(self, tag):
        self.is_open = False

    def handle_data(self, data):
        if self.is_open:
            index = len(self.elements) - 1
            self.texts[index] = self.texts.get(index, "") + data

    def texts_of(self, tag: str) -> list[str]:
        return [self.texts.get(index, "") for index, (name, _) in enumerate(self.elements) if name == tag]


def modules() -> dict[str, str]:
    return {path: text.decode() for path, (_, text) in viewer_files().items() if path.endswith(".js")}


def sha(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def records_of(page: Parsed) -> list[dict[str, object]]:
    """The traces that a page holds, each as an object of JSON."""
    return json.loads(page.texts_of("script")[0])


def parsed(path) -> Parsed:
    return Parsed(path.read_text(encoding="utf-8"))


def test_the_page_holds_the_trace_and_the_viewer_and_loads_nothing():
    events = traces.cited()
    page = Parsed(standalone_page([events]))
    tags = [tag for tag, _ in page.elements]
    assert tags == "html head meta meta meta title link style body main h1 p script script".split()
    (records,) = records_of(page)
    assert records["events"] == [json.loads(json_line(event_record(event))) for event in events]
    assert page.texts_of("title") == ["Where is the bridge?"]
    assert [each[name] for _, each in page.elements for name in ("src", "href") if name in each] == ["data:,"]
    (style,), (_, script) = page.texts_of("style"), page.texts_of("script")
    assert not re.search(r"url\(|@import", style)
    (policy,) = [each["content"] for _, each in page.elements if each.get("http-equiv")]
    assert policy == (
        f"default-src 'none'; script-src '{sha(script)}'; style-src '{sha(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    assert standalone_page([events]) == standalone_page([events])


def test_no_text_or_name_of_a_trace_becomes_markup():
    harmless = Parsed(standalone_page([traces.cited()]))
    page = Parsed(standalone_page([traces.harmful(), traces.dragin()], ["a.jsonl", "</script>"]))
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in harmless.elements]
    assert [each["name"] for each in records_of(page)] == ["a.jsonl", "</script>"]
    assert records_of(page)[0]["events"][0]["text"] == traces.HARMFUL
    assert "<" not in page.texts_of("script")[0]


def test_no_module_makes_markup_of_text_or_ends_the_script_that_contains_it():
    harmful = re.compile(rf"{MARKUP}|(?i:</script|<!--)")
    assert [path for path, text in modules().items() if harmful.search(text)] == []


def test_no_two_modules_define_the_same_name():
    names = [
        name.strip()
        for text in modules().values()
        for found in DEFINED.finditer(text)
        for name in (found[1] or found[2]).split(",")
    ]
    assert len(names) > 50
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_the_bundle_has_every_module_once():
    script = Parsed(standalone_page([traces.cited()])).texts_of("script")[1]
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)
    for path, text in modules().items():
        first = DEFINED.search(text)
        assert first is not None, path
        line = first[0].removeprefix("export ")
        assert len(re.findall(rf"^{re.escape(line)}(?!\w)", script, re.MULTILINE)) == 1, path


def test_a_server_offers_every_file_that_the_page_and_the_modules_load():
    files = viewer_files()
    assert files["/"][0] == "text/html; charset=utf-8"
    page = Parsed(files["/"][1].decode())
    loaded = {value for _, each in page.elements for name, value in each.items() if name in ("src", "href")}
    imported = {
        f"/viewer/{name}" for text in modules().values() for name in re.findall(r'from "\./([^"]+)"', text)
    }
    assert (loaded - {"data:,"}) | imported == set(files) - {"/"}
    assert {path.rpartition(".")[2]: kind for path, (kind, _) in files.items() if path != "/"} == {
        "css": "text/css; charset=utf-8",
        "js": "text/javascript; charset=utf-8",
    }
    assert "style" not in [tag for tag, _ in page.elements], "a strict policy forbids it"


@pytest.fixture
def trace_file(run, tmp_path):
    """The file of a trace of a scripted model."""
    path = tmp_path / "t.jsonl"
    code, _, err = run("ask", "Bonn?", "--method", "closed_book", "--model", "scripted", "--trace", path)
    assert code == 0, err
    return path


def test_a_command_writes_the_page_of_one_or_two_traces(run, trace_file, tmp_path):
    out_file, other = tmp_path / "why.html", trace_file.with_name("other.jsonl")
    code, out, err = run("trace", trace_file, "--html", out_file)
    assert (code, err) == (0, "")
    assert f"page: {out_file}" in out
    assert parsed(out_file).texts_of("title") == ["Bonn?"]
    other.write_bytes(trace_file.read_bytes())
    assert run("trace", trace_file, "--beside", other, "--html", out_file)[0] == 0
    assert [each["name"] for each in records_of(parsed(out_file))] == ["t.jsonl", "other.jsonl"]


@pytest.mark.parametrize(
    ("words", "message"),
    [(("--beside", "t.jsonl"), "needs a page: add --html OUT"), (("--html", "."), "can't write"),
     (("--html", "no/why.html"), "can't write")],
)  # fmt: skip
def test_a_page_that_cannot_be_written_is_an_error(run, trace_file, monkeypatch, words, message):
    monkeypatch.chdir(trace_file.parent)
    code, out, err = run("trace", trace_file, *words)
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())


def run_folder(folder):
    """Write a run of a right and a wrong answer, and a failed question with harmful text."""
    records = (
        record(1),
        record(2, {"exact_match": 0.0, "f1": 0.4}, short="Köln"),
        record(3, {"exact_match": 0.0, "f1": 0.0}, question=traces.HARMFUL, error=traces.HARMFUL),
    )
    return written(folder, records, [traces.asked(each.question) for each in records])


def test_the_page_of_a_run_has_its_questions_with_outcomes_and_traces(run, tmp_path):
    run_folder(tmp_path / "run")
    code, _, err = run("trace", tmp_path / "run", "--html", tmp_path / "run.html")
    assert (code, err) == (0, "")
    page = parsed(tmp_path / "run.html")
    shown = records_of(page)
    outcomes = {each["id"]: each["outcome"] for each in shown["questions"]}
    assert outcomes == {"q1": "won", "q2": "not searched", "q3": "failed"}
    assert shown["outcomes"] == [["won", 1], ["failed", 1], ["not searched", 1]]
    events = json.loads(gzip.decompress(base64.b64decode(shown["questions"][0]["trace"])))
    recorded = read_run(tmp_path / "run")
    expected = [json.loads(json_line(event_record(each))) for each in recorded.trace(recorded.records[0])]
    assert events == expected
    assert len(page.texts_of("script")) == 2
