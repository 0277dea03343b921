// The heat map of a draft: each token with its signals, the threshold, and the words that became the query.

import { h, numberOf, oneLine, rove, short } from "./dom.js";
import { LEGEND } from "./legend.js";
import { pagedList } from "./pages.js";
import { doubtOf, draftsOf } from "./trace.js";

const MOST_TOKENS = 500;
const SIGNALS = [
  { name: "score", label: "score against the threshold", of: (token) => token.word && token.word.value },
  { name: "entropy", label: "entropy (0 to 4 nats)", of: (token) => scaled(token.entropy, 4) },
  { name: "surprise", label: "surprise, −log p (0 to 4 nats)", of: (token) => scaled(token.logprob === null ? null : -Number(token.logprob), 4) },
  { name: "attention", label: "attention of later words (0 to 1)", of: (token) => scaled(token.attention, 1) },
];

function scaled(value, most) {
  const number = numberOf(value);
  return number === null ? null : Math.min(1, Math.max(0, number / most));
}

/** Return the heat map of all drafts of a trace, or a note if no draft has signals. */
export function tokensView(trace) {
  const drafts = draftsOf(trace).flatMap(pieces);
  if (!drafts.length) return h("p", { class: "note" }, "No draft of this trace has signals.");
  const present = SIGNALS.filter((signal) => drafts.some((draft) => draft.tokens.some((token) => signal.of(token) !== null)));
  const view = h("div", { class: "tokens-view" }, legendOf(present, drafts),
    pagedList(drafts, { weightOf: (draft) => draft.tokens.length + 30, draw: (draft) => draftBlock(draft, trace, present), name: "drafts" }));
  return view;
}

/** Split a long draft, so that no block has more than MOST_TOKENS tokens. */
function pieces(draft) {
  const parts = [];
  for (let start = 0; start < Math.max(1, draft.tokens.length); start += MOST_TOKENS) {
    parts.push({ ...draft, tokens: draft.tokens.slice(start, start + MOST_TOKENS), isFirst: start === 0, isLast: start + MOST_TOKENS >= draft.tokens.length });
  }
  return parts;
}

function legendOf(present, drafts) {
  const decision = drafts.find((draft) => draft.decision)?.decision;
  const meaning = decision && (LEGEND.signals[decision.signal] ?? decision.signal);
  return h("div", { class: "heat-legend" },
    h("ul", {}, present.map((signal) => h("li", { class: `key-${signal.name}` }, signal.label))),
    meaning ? h("p", { class: "note" }, `Score: ${meaning}. The line in each bar is the threshold${decision.threshold === null ? "" : ` ${short(decision.threshold, 3)}`}; a higher bar is more doubt, and a framed word crossed the line. Underlined words went into the query.`) : null,
    h("p", { class: "note" }, "Point at a word, or move with the arrow keys, to see its numbers. Until then, those of the most doubtful word stand below each draft."));
}

function draftBlock(draft, trace, present) {
  const { generate, decision } = draft;
  const isSearch = decision?.outcome === "search";
  const queryWords = isSearch ? new Set(wordsIn(decision.query)) : new Set();
  const readout = h("p", { class: "readout", "aria-live": "polite" }, draft.tokens.length ? readoutOf(mostDoubted(draft), decision) : null);
  const tokens = draft.tokens.map((token, index) => tokenSpan(token, decision, present, queryWords, index, () => readout.replaceChildren(...readoutOf(token, decision))));
  const lanes = present.filter((signal) => signal.name !== "score").map((signal) => signal.name);
  const vars = { "--lanes": `${7 * lanes.length}px`, ...Object.fromEntries(lanes.map((name, index) => [`--at-${name}`, `${7 * (lanes.length - 1 - index)}px`])) };
  const line = h("div", {
    class: decision ? "tokens scored" : "tokens", vars, role: "listbox", "aria-label": `Words of draft ${generate.id}`, "aria-orientation": "horizontal",
    keydown: (event) => rove(event, tokens, (token) => token.show()),
  }, tokens);
  return h("section", { class: `draft-block ${isSearch ? "searched" : "kept"}` },
    draft.isFirst && h("h2", {}, headingOf(generate, decision), decision && h("span", { class: "note" }, ` ${decision.why}`)),
    line, readout, draft.isLast && isSearch && queryBlock(decision, trace, tokens));
}

/** Return the token whose numbers are shown until the reader chooses one. */
function mostDoubted({ tokens, decision }) {
  const doubt = (token) => decision && token.word ? doubtOf(token.word.value, decision) : -Number(token.logprob);
  return tokens.reduce((most, token) => (doubt(token) > doubt(most) ? token : most));
}

function headingOf(generate, decision) {
  const outcome = decision ? h("span", { class: `tag ${decision.outcome === "search" ? "tag-search" : "tag-keep"}` }, decision.outcome) : null;
  return [`${generate.key.join(" ")} `, outcome];
}

function tokenSpan(token, decision, present, queryWords, index, show) {
  const vars = {};
  present.forEach((signal) => {
    const value = signal.of(token);
    if (value === null) return;
    if (signal.name !== "score") vars[`--v-${signal.name}`] = value.toFixed(2);
    else if (decision) vars["--v-score"] = heightOf(doubtOf(value, decision)).toFixed(2);
  });
  const inQuery = token.word && wordsIn(token.word.text).some((word) => queryWords.has(word));
  const span = h("span", {
    class: `token${token.word?.is_hit ? " hit" : ""}${inQuery ? " in-query" : ""}`, role: "option", "aria-selected": "false",
    tabindex: index === 0 ? "0" : "-1", vars, mouseenter: show, focus: show, click: () => span.focus(),
  }, token.text.replace(/\n/g, "⏎") || "∅");
  span.show = show;
  return span;
}

/** Return the height of a score's bar from 0 to 1, in which the threshold is always in the middle. */
function heightOf(doubt) {
  return doubt / (1 + doubt);
}

function wordsIn(text) {
  return text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
}

function readoutOf(token, decision) {
  const { word } = token;
  const parts = [["token", JSON.stringify(token.text)]];
  if (token.logprob !== null) parts.push(["probability", short(Math.exp(Number(token.logprob)), 3)], ["log-probability", `${short(token.logprob, 3)} nats`]);
  if (token.entropy !== null) parts.push(["entropy", `${short(token.entropy, 3)} nats`]);
  if (token.attention !== null) parts.push(["attention", short(token.attention, 3)]);
  if (word) parts.push(["score", `of “${word.text}” ${short(word.value, 3)}${decision.threshold === null ? "" : ` (threshold ${short(decision.threshold, 3)})`}`]);
  return parts.map(([name, value]) => h("span", { class: "pair" }, h("span", { class: "label" }, name), ` ${value}`));
}

function queryBlock(decision, trace, tokens) {
  const found = trace.events.find((event) => event.type === "search" && event.parent === decision.id);
  const hits = found ? found.hits.map((hit) => hit.passage.title || hit.passage.id).join(", ") || "nothing found" : "";
  return h("div", { class: "query" },
    h("p", {}, h("span", { class: "label" }, "Query"), " ", h("strong", {}, decision.query)),
    decision.query_words?.length ? attentionBars(decision.query_words, tokens) : null,
    found && h("p", { class: "note" }, `Found: ${oneLine(hits)}`));
}

/** Return the words of a query with the attention they got; pointing at one marks it in the draft. */
function attentionBars(words, tokens) {
  const most = Math.max(1e-9, ...words.map((word) => word.attention));
  const mark = (word, isOn) => tokens.filter((token) => wordsIn(token.textContent).some((each) => wordsIn(word.text).includes(each))).forEach((token) => token.classList.toggle("linked", isOn));
  return h("ul", { class: "attention-bars", "aria-label": "Attention to the words of the query, in the order of the text" }, words.slice(0, 100).map((word) => h("li", {
    tabindex: "0", mouseenter: () => mark(word, true), mouseleave: () => mark(word, false), focus: () => mark(word, true), blur: () => mark(word, false),
  }, h("span", {}, word.text), h("span", { class: "meter", "aria-hidden": "true" }, h("span", { vars: { width: `${(100 * word.attention) / most}%` } })), h("span", { class: "value" }, short(word.attention, 3)))));
}
