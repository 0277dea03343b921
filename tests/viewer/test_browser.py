"""The viewer in a browser: reading traces of each method, comparing two, asking a server, accessibility."""

import os
import shutil

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: make test-browser installs it")

from playwright.sync_api import expect, sync_playwright

from askance.core.answers import UnsupportedSentence
from askance.core.trace import Failed
from askance.storage.trace_file import trace_text, write_file
from askance.viewer.page import standalone_page
from askance.viewer.run_page import run_page
from tests.tolerances import near
from tests.viewer import traces
from tests.viewer.stand_in_server import StandInServer
from tests.viewer.test_page import run_folder

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (CHROMIUM=PATH names one)"),
]
PHONE = {"width": 360, "height": 740}
VIEWS = {
    "dragin": ("timeline", "tokens", "costs"),
    "selfrag": ("timeline", "tokens", "segments", "costs"),
    "airrag": ("timeline", "tree", "costs"),
}
MOST_ELEMENTS = 2000


@pytest.fixture(scope="module")
def browser():
    for name in VIEWS:
        getattr(traces, name)()  # Playwright's event loop, which starts below, would not let them run.
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def show(browser, tmp_path):
    """Opens the page of traces at a tab. At the end, it must have raised no error and loaded nothing."""
    contexts, problems = [], []

    def show(*shown, tab="", names=(), **settings):
        path = tmp_path / "page.html"
        path.write_text(standalone_page(shown, names), encoding="utf-8")
        context = browser.new_context(**settings)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
        page.on("request", lambda asked: problems.append(asked.url) if asked.url.startswith("http") else None)
        page.goto(f"{path.as_uri()}#{tab}")
        return page

    yield show
    for context in contexts:
        context.close()
    assert problems == []


def test_a_citation_opens_the_passage_at_the_cited_sentence(show):
    page = show(traces.cited())
    citation = page.get_by_role("button", name="Source 1: A bridge")
    citation.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="A bridge")
    expect(dialog.locator("mark")).to_have_text("The bridge is in Pennsylvania.")
    expect(dialog.locator(".passage-text")).to_have_text(
        "It has one span. The bridge is in Pennsylvania. It is red."
    )
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(citation).to_be_focused()


def test_offsets_of_citations_count_characters_not_utf16_units(show):
    page = show(traces.cited("\U0001f309 The bridge is in Pennsylvania."))
    expect(page.locator(".cited")).to_have_text("\U0001f309 The bridge is in Pennsylvania.")
    expect(page.locator(".answer-text")).to_have_text("\U0001f309 The bridge is in Pennsylvania.[1]")
    expect(page.locator(".source")).to_have_text("from [1]")


def test_an_unsupported_sentence_is_marked_and_says_why(show):
    first, second = "The bridge is in Pennsylvania.", "It is blue."
    text = f"{first} {second}"
    page = show(traces.cited(text, (UnsupportedSentence(len(first) + 1, len(text), "no passage says so"),)))
    expect(page.locator(".answer-text")).to_have_text(f"{first}[1] {second} [?]")
    expect(page.locator(".answer-text .unsupported")).to_have_text(second)
    expect(page.locator(".unsupported-mark")).to_have_attribute(
        "title", "No passage supports this: no passage says so"
    )
    page = show(traces.cited(first, (UnsupportedSentence(0, len(first), "too weak"),)))
    expect(page.locator(".cited.unsupported")).to_have_text(first)
    expect(page.locator(".uncited summary")).to_have_text("Unsupported (1)")


def test_the_timeline_is_walked_with_the_keyboard_and_filtered(show):
    page = show(traces.dragin())
    rows = page.get_by_role("listbox", name="Events")
    detail = page.get_by_role("group", name="Details of the event")
    rows.focus()
    page.keyboard.press("End")
    expect(rows.locator(".selected .kind")).to_have_text("answer")
    expect(detail).to_contain_text("3,677")
    for label in ("Model calls", "Decisions", "Text and notes"):
        page.get_by_label(label).uncheck()
    expect(rows.get_by_role("option")).to_have_count(1)
    expect(detail).to_contain_text("seat Androscoggin Bank Colisée seating capacity")
    detail.get_by_role("button").first.click()
    expect(page.get_by_role("dialog")).to_be_visible()


def test_dragin_shows_the_word_above_the_threshold_and_the_words_of_the_query(show):
    page = show(traces.dragin(), tab="tokens")
    draft = page.locator(".draft-block.searched")
    hit = draft.locator(".token.hit").first
    expect(hit).to_contain_text("4,250")
    expect(draft.locator(".readout")).to_contain_text("threshold")
    expect(draft.locator(".readout")).to_contain_text("4,250")
    hit.focus()
    page.keyboard.press("ArrowLeft")
    expect(draft.locator(".readout")).to_contain_text('" of"')
    expect(draft.locator(".query")).to_contain_text("seat Androscoggin Bank Colisée seating capacity")
    (decision,) = (event for event in traces.dragin() if getattr(event, "query_words", ()))
    words = draft.locator(".attention-bars li")
    expect(words).to_have_text([f"{word.text}{word.attention:.3f}" for word in decision.query_words])
    words.get_by_text("capacity").hover()
    expect(draft.locator(".token.linked")).to_have_text(" capacity")


def test_selfrag_shows_candidates_by_score_with_their_distributions(show):
    page = show(traces.selfrag(), tab="segments")
    first = page.locator(".segment-group").first
    expect(first.locator(".decision")).to_contain_text("[Retrieval]")
    expect(first.locator(".candidate .node")).to_have_text(["0.1", "0.2"])
    chosen = first.locator(".candidate.chosen")
    expect(chosen).to_contain_text("on the chosen path")
    expect(chosen.get_by_role("group", name="relevance").locator(".probability")).to_have_text(
        ["[Relevant]90%", "[Irrelevant]10%"]
    )
    chosen.get_by_role("button", name="Arno").click()
    expect(page.get_by_role("dialog").locator("mark")).to_have_count(0)
    expect(page.get_by_role("dialog")).to_contain_text("The Arno flows through Pisa.")


def test_airrag_shows_the_chosen_path_and_is_walked_and_zoomed_with_the_keyboard(show):
    page = show(traces.airrag(), tab="tree")
    tree, detail = page.locator("svg.tree"), page.locator(".tree-view .detail")
    expect(detail).to_contain_text("chosen")
    expect(detail).to_contain_text("exploration")
    chosen = tree.locator(".tree-node.chosen").count()
    tree.focus()
    page.keyboard.press("ArrowLeft")
    expect(detail).to_contain_text("on the chosen path")
    for _ in range(chosen):
        page.keyboard.press("ArrowLeft")
    expect(detail).to_contain_text("The root of a tree")
    before = tree.locator("> g").get_attribute("transform")
    page.keyboard.press("+")
    zoomed = tree.locator("> g").get_attribute("transform")
    assert float(zoomed.rpartition("scale(")[2][:-1]) > float(before.rpartition("scale(")[2][:-1])
    page.keyboard.press("0")
    expect(tree.locator(".tree-node")).to_have_count(
        sum(event.type == "expand" for event in traces.airrag()) + 1
    )


def test_the_tree_is_zoomed_by_two_fingers_and_moved_by_one(show):
    page = show(traces.airrag(), tab="tree")
    tree = page.locator("svg.tree")
    place = "() => document.querySelector('svg.tree > g').transform.baseVal.consolidate().matrix"

    def touch(kind, finger, x, y):
        event = {"pointerId": finger, "pointerType": "touch", "buttons": 1, "bubbles": True}
        box = tree.bounding_box()
        tree.dispatch_event(kind, {**event, "clientX": box["x"] + x, "clientY": box["y"] + y})

    def view():
        return page.evaluate(f"(() => {{ const m = ({place})(); return [m.a, m.e, m.f]; }})()")

    scale, left, top = view()
    touch("pointerdown", 1, 50, 50)
    touch("pointermove", 1, 60, 80)
    assert view() == near([scale, left + 10, top + 30])
    touch("pointerdown", 2, 160, 80)
    touch("pointermove", 2, 260, 80)
    zoomed = view()
    assert zoomed[0] == near(2 * scale)
    # The point that was between the fingers, at 110, is between them still, at 160.
    assert (160 - zoomed[1]) / zoomed[0] == near((110 - left - 10) / scale)
    touch("pointerup", 2, 260, 80)
    touch("pointerup", 1, 60, 80)
    touch("pointermove", 1, 100, 100)
    assert view() == zoomed


def test_two_traces_stand_side_by_side_and_change_tabs_together(show):
    page = show(traces.dragin(), traces.airrag(), names=["a.jsonl", "b.jsonl"])
    expect(page.locator(".trace")).to_have_count(2)
    table = page.get_by_role("region", name="Comparison")
    expect(table.locator("tr.different").first).to_contain_text("dragin")
    expect(table.locator("thead th")).to_have_text(["a.jsonl", "b.jsonl"])
    page.get_by_role("tab", name="Costs").first.click()
    expect(page.locator("[role=tab][aria-selected=true]")).to_have_text(["Costs", "Costs"])
    page.get_by_role("button", name="Close the second").click()
    expect(page.locator(".trace")).to_have_count(1)


def test_the_events_of_two_traces_are_paired_in_their_order(show):
    """The k-th searches stand beside each other, and what only one trace has stands alone."""
    page = show(traces.searching("Bonn", "Köln"), traces.searching("Bonn", "Pisa", "Rome"), names=["a", "b"])
    page.get_by_text("Step by step: 4 of 7 steps differ").click()
    rows = page.locator(".page .pair-row")
    assert [row.locator("span").all_inner_texts() for row in rows.all()] == [
        ["search", "Bonn → nothing found", "Bonn → nothing found"],
        ["commit", "Bonn.", "Bonn."],
        ["search", "Köln → nothing found", "Pisa → nothing found"],
        ["commit", "Köln.", "Pisa."],
        ["search", "–", "Rome → nothing found"],
        ["commit", "–", "Rome."],
        ["answer", "Done.", "Done."],
    ]


def test_a_trace_file_is_compared_from_the_reader_s_disk(show, tmp_path):
    file = tmp_path / "other.jsonl"
    write_file(file, trace_text(traces.asked("Bonn?")))
    page = show(traces.dragin())
    page.get_by_label("Compare with a trace file").set_input_files(file)
    expect(page.get_by_role("heading", level=1)).to_have_count(2)
    expect(page.get_by_role("heading", name="Bonn?")).to_be_visible()
    file.write_text("no trace", encoding="utf-8")
    page.get_by_label("Compare with a trace file").set_input_files(file)
    expect(page.get_by_role("alert")).to_contain_text("other.jsonl, line 1: not JSON")


@pytest.mark.parametrize("tab", ["timeline", "tokens", "segments", "costs"])
def test_harmful_text_stays_text(show, tab):
    page = show(traces.harmful(), tab=tab)
    expect(page.get_by_role("heading", level=1)).to_contain_text(
        "</script><script>window.harmed = 1</script><img"
    )
    page.locator(".citation").click()
    expect(page.locator("dialog .passage-text")).to_contain_text("<img src=x onerror='window.harmed = 2'>")
    assert page.evaluate("window.harmed") is None
    assert page.locator("img").count() == 0
    assert "\u202e" not in page.locator("body").inner_text()


def test_an_error_ends_the_page_with_its_message(show):
    events = traces.asked("Why?")
    events.commit("Because ")
    events.add(Failed, error="ModelFailure", message="the server is gone", place="answer")
    page = show(tuple(events.events))
    expect(page.get_by_role("alert").first).to_have_text("answer: the server is gone")
    expect(page.locator(".answer-text")).to_have_text("Because ")


def test_a_long_trace_needs_few_elements(show):
    page = show(traces.long_trace())
    rows = page.get_by_role("listbox", name="Events")
    rows.focus()
    page.keyboard.press("End")
    expect(rows.locator(".selected .kind")).to_have_text("answer")
    for tab in ("Timeline", "Words", "Segments", "Tree", "Costs"):
        page.get_by_role("tab", name=tab).click()
        assert 50 < page.locator("*").count() <= MOST_ELEMENTS, tab
    page.get_by_role("tab", name="Words").click()
    page.get_by_role("button", name="Later").click()
    expect(page.locator(".pager")).to_contain_text("of 1,999")
    assert page.locator("*").count() <= MOST_ELEMENTS


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", VIEWS)
def test_axe_finds_nothing_serious_and_all_text_stands_on_a_solid_colour(show, name, scheme):
    axe = pytest.importorskip("axe_core_python.sync_playwright", reason="axe-core-python is not installed")
    for tab in VIEWS[name]:
        page = show(getattr(traces, name)(), traces.cited(), tab=tab, color_scheme=scheme)
        expect(page.locator(".trace").first).to_be_visible()
        found = axe.Axe().run(page)
        serious = [each for each in found["violations"] if each["impact"] in ("serious", "critical")]
        assert [(each["id"], each["nodes"][0]["html"]) for each in serious] == [], tab
        undecided = [each["nodes"] for each in found["incomplete"] if each["id"] == "color-contrast"]
        reasons = {node["any"][0]["data"]["messageKey"] for nodes in undecided for node in nodes}
        assert not reasons & {"bgGradient", "bgImage", "pseudoContent"}, tab


@pytest.mark.parametrize("name", VIEWS)
def test_a_phone_needs_no_scrolling_sideways(show, name):
    for tab in VIEWS[name]:
        page = show(getattr(traces, name)(), tab=tab, viewport=PHONE)
        expect(page.locator(".trace")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], tab


def test_the_questions_of_a_run_are_filtered_and_opened(browser, tmp_path):
    path = tmp_path / "run.html"
    path.write_text(run_page(run_folder(tmp_path / "run")), encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    expect(page.locator(".question")).to_have_count(3)
    expect(page.get_by_label("Result").locator("option")).to_have_text(
        ["All results", "won (1)", "failed (1)", "lost (1)", "lost: not searched (1)"]
    )
    page.get_by_label("Result").select_option("lost")
    expect(page.locator(".question")).to_have_count(1)
    page.get_by_label("Result").select_option("not searched")
    expect(page.locator(".question")).to_have_count(1)
    expect(page.locator(".question")).to_contain_text("lost: not searched")
    page.get_by_label("Result").select_option("")
    page.get_by_label("Words of the question").fill("bridge 1")
    page.get_by_role("button", name="Who built bridge 1?").click()
    expect(page.get_by_role("tab", name="Timeline")).to_be_visible()
    expect(page.locator(".question").first).to_be_hidden()
    page.get_by_role("button", name="All questions").click()
    expect(page.locator(".trace")).to_have_count(0)
    expect(page.locator(".question")).to_have_count(1)
    page.close()


@pytest.fixture
def server():
    with StandInServer() as started:
        yield started


@pytest.fixture
def asking(browser, server):
    """The page as a server offers it."""
    page = browser.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "console", lambda line: errors.append(line.text) if "Content Security Policy" in line.text else None
    )
    page.goto(server.address)
    yield page
    page.close()
    assert errors == []


def ask(page, question="Where is the bridge?"):
    page.get_by_label("Question").fill(question)
    page.get_by_role("button", name="Ask").click()


def test_an_answer_streams_into_the_page(asking, server):
    server.events = traces.cited()
    expect(asking.get_by_label("Method").locator("option")).to_have_text(["single", "dragin"])
    asking.get_by_label("Method").select_option("askance/dragin")
    ask(asking)
    expect(asking.get_by_role("heading", level=1)).to_have_text("Where is the bridge?")
    expect(asking.locator(".draft")).to_have_text("Maybe")
    expect(asking.locator(".citation")).to_have_count(0)
    server.may_end.set()
    expect(asking.get_by_role("button", name="Source 1: A bridge")).to_be_visible()
    assert server.asked["model"] == "askance/dragin"
    assert server.asked["askance"] == {"events": True}
    ask(asking)
    expect(asking.get_by_label("Compare with", exact=True)).to_be_visible()


def test_an_error_in_the_stream_is_shown(asking, server):
    server.error = "the model is gone"
    server.may_end.set()
    ask(asking)
    expect(asking.locator(".ask").get_by_role("alert")).to_have_text("the model is gone")
    expect(asking.get_by_role("button", name="Ask")).to_be_enabled()


def test_a_reader_stops_an_answer(asking, server):
    server.events = traces.cited()
    ask(asking)
    expect(asking.locator(".draft")).to_have_text("Maybe")
    asking.get_by_role("button", name="Stop").click()
    expect(asking.locator(".ask").get_by_role("alert")).to_have_text("Stopped.")
    server.may_end.set()


def test_a_server_with_a_key_asks_for_it(browser, server):
    server.key = "secret"
    page = browser.new_page()
    page.goto(server.address)
    expect(page.get_by_role("alert")).to_have_text("a key is missing")
    page.get_by_label("API key").fill("secret")
    page.get_by_label("API key").press("Tab")
    expect(page.get_by_label("Method").locator("option")).to_have_count(2)
    page.close()
