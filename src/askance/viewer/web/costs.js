// The costs of a question by kind of call, from its events.

import { counted, h, seconds } from "./dom.js";

/** Return the costs of a trace: a row for each kind of call, with the sum of the answer. */
export function costsView(trace) {
  const rows = costRows(trace);
  const most = Math.max(1e-9, ...rows.map((row) => row.seconds));
  const sum = (name) => rows.reduce((total, row) => total + row[name], 0);
  const headings = ["call", "calls", "read", "reused", "written", "seconds"];
  return h("div", { class: "costs-view" },
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Costs" }, h("table", {},
      h("caption", {}, "Costs by kind of call; tokens read, reused and written"),
      h("thead", {}, h("tr", {}, headings.map((name) => h("th", { scope: "col", class: name === "call" ? "" : "number" }, name)), h("th", { scope: "col" }, "time"))),
      h("tbody", {}, rows.map((row) => h("tr", {}, h("th", { scope: "row" }, row.name), numberCells(row),
        h("td", { class: "bar-cell" }, h("span", { class: "meter", "aria-hidden": "true" }, h("span", { vars: { width: `${(100 * row.seconds) / most}%` } })))))),
      h("tfoot", {}, h("tr", {}, h("th", { scope: "row" }, "all calls"), numberCells(Object.fromEntries(["calls", "read", "reused", "written", "seconds"].map((name) => [name, sum(name)]))), h("td"))))),
    h("p", { class: "note" }, usageLine(trace), ". Calls may run at the same time, so their seconds may add up to more than the time of the answer."),
    spendingBlock(trace));
}

function numberCells(row) {
  const cells = [counted(row.calls), `${row.isUpperBound ? "≤ " : ""}${counted(row.read)}`, counted(row.reused), counted(row.written), seconds(row.seconds)];
  return cells.map((cell) => h("td", { class: "number" }, cell));
}

function costRows(trace) {
  const rows = new Map();
  for (const event of trace.ofType("generate", "score", "attend", "search")) {
    const name = event.type === "search" ? "search" : { generate: "write", score: "score", attend: "attention" }[event.type] + (event.role === "answer" ? "" : ` (${event.role})`);
    const row = rows.get(name) ?? { name, calls: 0, read: 0, reused: 0, written: 0, seconds: 0, isUpperBound: false };
    row.calls += 1;
    row.read += event.prompt_tokens ?? 0;
    row.reused += event.reused_tokens ?? 0;
    row.written += event.generated_tokens ?? 0;
    row.seconds += event.seconds;
    row.isUpperBound ||= Boolean(event.is_upper_bound);
    rows.set(name, row);
  }
  return [...rows.values()];
}

/** Return the costs of an answer in one line, or what has been spent so far. */
export function usageLine(trace) {
  const usage = trace.answered?.usage;
  if (!usage) return `${counted(trace.ofType("search").length, "search")} · ${counted(trace.ofType("generate", "score", "attend").length, "model call")} · ${seconds(trace.seconds)}`;
  const read = `${usage.is_upper_bound ? "≤ " : ""}${counted(usage.prompt_tokens, "prompt token")} (${counted(usage.reused_tokens)} reused)`;
  return `${counted(usage.searches, "search")} · ${read} · ${counted(usage.generated_tokens)} generated · ${seconds(usage.seconds)}`;
}

function spendingBlock(trace) {
  const spent = trace.events.findLast((event) => event.type === "decide" && event.name === "budget");
  if (!spent) return null;
  return h("dl", { class: "spent" }, Object.entries(spent.numbers).map(([name, value]) => h("div", { class: "field" }, h("dt", {}, name), h("dd", {}, counted(value)))));
}
