// What differs between two traces, in a table above them.

import { counted, h, seconds } from "./dom.js";

const ROWS = [
  ["method", (trace) => trace.question?.title],
  ["short answer", (trace) => trace.answered?.answer.short || "–"],
  ["searches", (trace) => counted(trace.ofType("search").length)],
  ["decisions to search", (trace) => counted(trace.ofType("decide").filter((event) => event.outcome === "search").length)],
  ["sources cited", (trace) => counted(new Set(trace.answered?.answer.citations.map((citation) => citation.passage.id)).size)],
  ["model calls", (trace) => counted(trace.ofType("generate", "score", "attend").length)],
  ["tokens read", (trace) => counted(trace.answered?.usage.prompt_tokens ?? 0)],
  ["tokens written", (trace) => counted(trace.answered?.usage.generated_tokens ?? 0)],
  ["time", (trace) => seconds(trace.answered?.usage.seconds ?? trace.seconds)],
];

/** Return a table of the traces, in which rows that differ are marked. */
export function comparison(traces) {
  return h("div", { class: "comparison scroll", tabindex: "0", role: "region", "aria-label": "Comparison" }, h("table", {},
    h("caption", {}, "Comparison"),
    h("thead", {}, h("tr", {}, h("td"), traces.map((trace, index) => h("th", { scope: "col" }, trace.name || `trace ${index + 1}`)))),
    h("tbody", {}, ROWS.map(([name, valueOf]) => {
      const values = traces.map((trace) => valueOf(trace) ?? "–");
      const isDifferent = new Set(values).size > 1;
      return h("tr", { class: isDifferent ? "different" : "" }, h("th", { scope: "row" }, name), values.map((value) => h("td", {}, value)));
    }))));
}
