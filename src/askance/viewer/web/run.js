// The questions of a run, with filters by result and by the cause of wrong answers.

import { counted, h, oneLine, short } from "./dom.js";
import { pagedList } from "./pages.js";
import { Trace } from "./trace.js";

const ROW_ELEMENTS = 12;

/** Return the list of a run's questions. `open` gets the trace of the question that the reader chooses. */
export function runView(run, open) {
  const place = h("div");
  const search = h("input", { type: "text", "aria-label": "Words of the question", placeholder: "Words of the question", input: () => list() });
  const verdict = choice("Result", run.questions.map((each) => each.verdict), () => list());
  const cause = choice("Cause", run.questions.map((each) => each.cause).filter(Boolean), () => list());
  function list() {
    const words = search.value.toLowerCase();
    const wanted = run.questions.filter((each) => (!verdict.value || each.verdict === verdict.value) && (!cause.value || each.cause === cause.value) && each.question.toLowerCase().includes(words));
    place.replaceChildren(wanted.length
      ? pagedList(wanted, { weightOf: () => ROW_ELEMENTS, draw: (each) => questionRow(each, open), name: "questions" })
      : h("p", { class: "note" }, "No question matches."));
  }
  list();
  return h("section", { class: "run" },
    h("h1", {}, run.title), h("p", { class: "note" }, `${run.dataset} · ${counted(run.questions.length, "question")}`),
    causeTable(run.questions),
    h("div", { class: "run-filters" }, verdict, cause, search), place);
}

function countsOf(values) {
  const counts = new Map();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].sort((one, other) => other[1] - one[1]);
}

function choice(label, values, change) {
  return h("select", { "aria-label": label, change }, h("option", { value: "" }, `${label}: all`), countsOf(values).map(([value, count]) => h("option", { value }, `${value} (${counted(count)})`)));
}

function causeTable(questions) {
  const rows = [...countsOf(questions.filter((each) => !each.cause).map((each) => each.verdict)), ...countsOf(questions.map((each) => each.cause).filter(Boolean))];
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Causes of wrong answers" }, h("table", {},
    h("caption", {}, "Where the questions went wrong"),
    h("tbody", {}, rows.map(([name, count]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "number" }, counted(count)),
      h("td", { class: "bar-cell" }, h("span", { class: "meter", "aria-hidden": "true" }, h("span", { vars: { width: `${(100 * count) / questions.length}%` } }))))))));
}

function questionRow(each, open) {
  return h("div", { class: `question verdict-${each.verdict}` },
    h("button", { type: "button", class: "link", click: async () => open(await unpacked(each)) }, oneLine(each.question, 200)),
    h("p", { class: "note" },
      h("span", { class: `tag ${each.verdict === "won" ? "tag-keep" : "tag-search"}` }, each.cause && each.verdict === "lost" ? `lost: ${each.cause}` : each.verdict),
      each.error ? ` ${oneLine(each.error)}` : ` answered “${oneLine(each.short, 80)}”, accepted: ${oneLine(each.golds.join(" / "), 80) || "–"}`,
      ` · ${each.metric} ${short(each.score)} · ${counted(each.searches, "search")} · ${counted(each.tokens, "token")}`));
}

async function unpacked({ trace, id }) {
  const bytes = Uint8Array.from(atob(trace), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Trace(JSON.parse(await new Response(stream).text()), id);
}
