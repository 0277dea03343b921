// What differs between two traces: a table of their sums, and their events beside each other, above them.

import { counted, h, oneLine, seconds } from "./dom.js";
import { pagedList } from "./pages.js";
import { LABELS, summaryOf } from "./timeline.js";

const ROWS = [
  ["method", (trace) => trace.question?.title],
  ["short answer", (trace) => trace.answered?.answer.short || "–"],
  ["source", (trace) => trace.answered?.answer.source || "–"],
  ["searches", (trace) => counted(trace.ofType("search").length)],
  ["decisions to search", (trace) => counted(trace.ofType("decide").filter((event) => event.outcome === "search").length)],
  ["sources cited", (trace) => counted(new Set(trace.answered?.answer.citations.map((citation) => citation.passage.id)).size)],
  ["model calls", (trace) => counted(trace.ofType("generate", "score", "attend").length)],
  ["tokens read", (trace) => counted(trace.answered?.usage.prompt_tokens ?? 0)],
  ["tokens written", (trace) => counted(trace.answered?.usage.generated_tokens ?? 0)],
  ["time", (trace) => seconds(trace.answered?.usage.seconds ?? trace.seconds)],
];

const ALIGNED = ["generate", "search", "decide", "expand", "commit"];
const ENDS = ["answer", "error"];
const LOOK_AHEAD = 50;
const PAIR_ELEMENTS = 5;

/** Return the comparison of two traces, in which rows that differ are marked. */
export function comparison(traces) {
  const pairs = alignedEvents(...traces);
  const steps = h("div", {});
  const draw = () => steps.firstChild || steps.append(h("div", { class: "pair-row" }, h("span"), traces.map(nameOf).map((name) => h("strong", {}, name))), pagedList(pairs, { weightOf: () => PAIR_ELEMENTS, draw: pairRow, name: "steps" }));
  return h("section", { class: "comparison" }, sumsTable(traces), h("details", { class: "steps", toggle: draw },
    h("summary", {}, `Step by step: ${counted(pairs.filter(isDifferent).length)} of ${counted(pairs.length, "step")} differ`), steps));
}

function nameOf(trace, index) {
  return trace.name || `trace ${index + 1}`;
}

function sumsTable(traces) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Comparison" }, h("table", {},
    h("caption", {}, "Comparison"),
    h("thead", {}, h("tr", {}, h("td"), traces.map(nameOf).map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, ROWS.map(([name, valueOf]) => {
      const values = traces.map((trace) => valueOf(trace) ?? "–");
      return h("tr", { class: new Set(values).size > 1 ? "different" : "" }, h("th", { scope: "row" }, name), values.map((value) => h("td", {}, value)));
    }))));
}

/**
 * Return the events of two traces in pairs of the same type; an event without a counterpart is paired with null.
 *
 * The k-th searches are paired, and between them events by their order. If two events differ in type, the one whose
 * type the other trace reaches later stands alone.
 */
export function alignedEvents(one, other) {
  const [left, right] = [blocksOf(one), blocksOf(other)];
  const pairs = Array.from({ length: Math.max(left.length, right.length) }, (_, index) => pairsOf(left[index] ?? [], right[index] ?? []));
  return [...pairs.flat(), ...pairsOf(one.ofType(...ENDS), other.ofType(...ENDS))];
}

/** Return the events before the first search, and each search with the events until the next. */
function blocksOf(trace) {
  const blocks = [[]];
  for (const event of trace.ofType(...ALIGNED)) {
    if (event.type === "search") blocks.push([]);
    blocks.at(-1).push(event);
  }
  return blocks;
}

function pairsOf(left, right) {
  const pairs = [];
  const distance = (events, from, type) => {
    const found = events.slice(from, from + LOOK_AHEAD).findIndex((event) => event.type === type);
    return found < 0 ? LOOK_AHEAD : found;
  };
  let [at, beside] = [0, 0];
  while (at < left.length && beside < right.length) {
    const [one, other] = [left[at], right[beside]];
    if (one.type === other.type) {
      pairs.push([one, other]);
      [at, beside] = [at + 1, beside + 1];
    } else if (distance(left, at, other.type) <= distance(right, beside, one.type)) {
      pairs.push([one, null]);
      at += 1;
    } else {
      pairs.push([null, other]);
      beside += 1;
    }
  }
  return [...pairs, ...left.slice(at).map((event) => [event, null]), ...right.slice(beside).map((event) => [null, event])];
}

function isDifferent([one, other]) {
  return !one || !other || summaryOf(one) !== summaryOf(other);
}

function pairRow(pair) {
  const { type } = pair[0] ?? pair[1];
  return h("div", { class: `pair-row${isDifferent(pair) ? " different" : ""} type-${type}` },
    h("span", { class: "kind" }, LABELS[type] ?? type),
    pair.map((event) => h("span", { class: "side" }, event ? oneLine(summaryOf(event), 240) : "–")));
}
