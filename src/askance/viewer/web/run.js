// The questions of a run, with filters by result and by words.
// The outcome of a question is "won", "failed", or the cause of a wrong answer.

import { counted, h, oneLine, short } from "./dom.js";
import { pagedList } from "./pages.js";
import { Trace } from "./trace.js";

const ROW_ELEMENTS = 12;

/** Return the list of a run's questions. `open` gets the trace of the question that the reader chooses. */
export function runView(run, open) {
  const place = h("div");
  const search = h("input", { type: "text", "aria-label": "Words of the question", placeholder: "Words of the question", input: () => list() });
  const sums = new Map();
  for (const [outcome, count] of run.outcomes) sums.set(resultOf(outcome), (sums.get(resultOf(outcome)) ?? 0) + count);
  const causes = run.outcomes.filter(([outcome]) => resultOf(outcome) === "lost");
  const result = h("select", { "aria-label": "Result", change: () => list() },
    h("option", { value: "" }, "All results"),
    [...sums].map(([value, count]) => h("option", { value }, `${value} (${counted(count)})`)),
    causes.map(([value, count]) => h("option", { value }, `lost: ${value} (${counted(count)})`)));
  function list() {
    const words = search.value.toLowerCase();
    const wanted = run.questions.filter((each) => ["", each.outcome, resultOf(each.outcome)].includes(result.value) && each.question.toLowerCase().includes(words));
    place.replaceChildren(wanted.length
      ? pagedList(wanted, { weightOf: () => ROW_ELEMENTS, draw: (each) => questionRow(each, open), name: "questions" })
      : h("p", { class: "note" }, "No question matches."));
  }
  list();
  return h("section", { class: "run" },
    h("h1", {}, run.title), h("p", { class: "note" }, `${run.dataset} · ${counted(run.questions.length, "question")}`),
    outcomeTable(run),
    h("div", { class: "run-filters" }, result, search), place);
}

function resultOf(outcome) {
  return outcome === "won" || outcome === "failed" ? outcome : "lost";
}

function outcomeTable({ outcomes, questions }) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Where questions went wrong" }, h("table", {},
    h("caption", {}, "Where questions went wrong"),
    h("tbody", {}, outcomes.map(([name, count]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "number" }, counted(count)),
      h("td", { class: "bar-cell" }, h("span", { class: "meter", "aria-hidden": "true" }, h("span", { vars: { width: `${(100 * count) / questions.length}%` } }))))))));
}

function questionRow(each, open) {
  const result = resultOf(each.outcome);
  return h("div", { class: "question" },
    h("button", { type: "button", class: "link", click: async () => open(await unpacked(each)) }, oneLine(each.question, 200)),
    h("p", { class: "note" },
      h("span", { class: `tag ${result === "won" ? "tag-keep" : "tag-search"}` }, result === "lost" ? `lost: ${each.outcome}` : result),
      each.error ? ` ${oneLine(each.error)}` : ` answered “${oneLine(each.short, 80)}”, accepted: ${oneLine(each.golds.join(" / "), 80) || "–"}`,
      ` · ${each.metric} ${short(each.score)} · ${counted(each.searches, "search")} · ${counted(each.tokens, "token")}`));
}

async function unpacked({ trace, id }) {
  const bytes = Uint8Array.from(atob(trace), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Trace(JSON.parse(await new Response(stream).text()), id);
}
