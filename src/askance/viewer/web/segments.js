// Self-RAG: the segments of the beam, each with its candidates, their scores and their reflection tokens as bars.

import { h, oneLine, short } from "./dom.js";
import { openPassage } from "./answer.js";
import { LEGEND } from "./legend.js";
import { pagedList } from "./pages.js";
import { leadsTo, parentNode, searchesOf } from "./trace.js";

const PARTS = ["sequence", "relevance", "support", "utility"];
const TRAILING_ZEROS = /\.?0+$/;

/** Return the segments of Self-RAG's searches. */
export function segmentsView(trace) {
  const groups = searchesOf(trace).filter((search) => !search.hasVisits).flatMap((search) => groupsOf(search, trace));
  return h("div", { class: "segments-view" },
    h("p", { class: "note" }, "Each box is a place in the answer; the candidates in it compete by score. Bars below a candidate are the probabilities of the reflection tokens that the score is made of."),
    pagedList(groups, { weightOf: (group) => 12 + group.steps.reduce((sum, step) => sum + 40 + barsIn(step), 0), draw: groupBlock, name: "segments", most: 1500 }));
}

function barsIn(step) {
  return Object.values(step.distributions).reduce((sum, each) => sum + 4 * Object.keys(each).length, 0);
}

/** Return the candidates grouped by the node that they continue, best first. */
function groupsOf(search, trace) {
  const groups = new Map();
  for (const step of search.steps.values()) {
    const above = parentNode(step.node);
    if (!groups.has(above)) groups.set(above, { above, steps: [], search, before: search.steps.get(above), decision: null });
    groups.get(above).steps.push(step);
  }
  for (const group of groups.values()) {
    const first = Math.min(...group.steps.map((step) => step.id));
    group.decision = trace.events.findLast((event) => event.id < first && event.type === "decide" && event.name === "retrieve");
    group.steps.sort((one, other) => Boolean(one.rejected) - Boolean(other.rejected) || scoreOf(other) - scoreOf(one));
  }
  return [...groups.values()];
}

function scoreOf(step) {
  return Number(step.numbers.score ?? step.numbers["score at most"] ?? 0);
}

function groupBlock(group) {
  const depth = group.above.split(".").length;
  const most = Math.max(1, ...group.steps.map(scoreOf));
  const isChosen = leadsTo(group.above, group.search.chosen);
  return h("section", { class: `segment-group${isChosen ? " on-path" : ""}` },
    h("h2", {}, `Segment ${depth}`, h("span", { class: "note" }, group.before ? ` after ${group.above}: “${oneLine(group.before.text, 60)}”` : " at the beginning")),
    group.decision && depth === 1 && decisionBlock(group.decision),
    h("ol", { class: "candidates" }, group.steps.map((step) => candidateItem(step, group.search.chosen, most))));
}

function decisionBlock(decision) {
  const share = decision.numbers.share;
  const values = Object.fromEntries(Object.entries(decision.numbers).filter(([name]) => name.startsWith("[")));
  return h("div", { class: "decision" },
    h("p", {}, h("span", { class: "label" }, "Search?"), ` ${decision.outcome}: ${decision.why}`, share === undefined ? null : h("span", { class: "note" }, ` (share ${short(share, 3)}, threshold ${decision.threshold})`)),
    Object.keys(values).length ? distribution("retrieve", values) : null);
}

function candidateItem(step, chosen, most) {
  const isChosen = leadsTo(step.node, chosen);
  const passage = step.passage?.passage;
  return h("li", { class: `candidate${isChosen ? " chosen" : ""}${step.rejected ? " rejected" : ""}` },
    h("div", { class: "candidate-head" },
      h("span", { class: "node" }, step.node), h("span", {}, LEGEND.actions[step.action] ?? step.action),
      passage && h("button", { type: "button", class: "link", click: () => openPassage(passage, step.text) }, passage.title || passage.id),
      isChosen && h("span", { class: "tag tag-keep" }, step.node === chosen ? "chosen" : "on the chosen path"),
      step.rejected && h("span", { class: "tag tag-reject" }, `rejected: ${step.rejected}`)),
    h("p", { class: "candidate-text" }, step.text.trim() || "(nothing)"),
    scoreBar(step, most),
    h("div", { class: "distributions" }, Object.entries(step.distributions).map(([name, values]) => distribution(name, values))));
}

function scoreBar(step, most) {
  const score = scoreOf(step);
  const parts = PARTS.filter((name) => name in step.numbers).map((name) => `${name} ${short(step.numbers[name])}`);
  return h("div", { class: "score-row", title: LEGEND.numbers.score },
    h("span", { class: "bar-name" }, "score" in step.numbers ? "score" : "score at most"),
    h("span", { class: "meter", "aria-hidden": "true" }, h("span", { vars: { width: `${Math.max(0, Math.min(100, (100 * score) / most))}%` } })),
    h("strong", {}, short(score)), h("span", { class: "note" }, parts.join(" · ")));
}

/** Return the probabilities of a group of reflection tokens as one bar each. */
function distribution(name, values) {
  const entries = Object.entries(values);
  return h("div", { class: "distribution", role: "group", "aria-label": name },
    h("div", { class: "bar-name" }, name),
    entries.map(([token, value]) => h("div", { class: "probability" },
      h("span", { class: "token-name" }, token),
      h("span", { class: "meter", "aria-hidden": "true" }, h("span", { vars: { width: `${Math.max(0, Math.min(100, 100 * Number(value)))}%` } })),
      h("span", { class: "value" }, percent(value)))));
}

function percent(value) {
  const share = 100 * Number(value);
  return share > 0 && share < 0.1 ? "<0.1%" : `${share.toFixed(1).replace(TRAILING_ZEROS, "") || 0}%`;
}
