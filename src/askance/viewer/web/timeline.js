// The timeline: a row for each event, drawn only where it is visible, and the details of the selected event.

import { counted, h, oneLine, replace, seconds, short } from "./dom.js";
import { openPassage } from "./answer.js";
import { LEGEND } from "./legend.js";

const KINDS = {
  calls: { label: "Model calls", types: ["generate", "score", "attend"] },
  searches: { label: "Searches", types: ["search"] },
  decisions: { label: "Decisions", types: ["decide"] },
  steps: { label: "Tree steps", types: ["expand"] },
  texts: { label: "Text and notes", types: ["question", "commit", "uncited", "answer", "note", "error"] },
};
export const LABELS = {
  question: "question", generate: "write", score: "score", attend: "attend", search: "search", decide: "decide",
  expand: "try", note: "note", commit: "commit", uncited: "uncited", answer: "answer", error: "error",
};
const EXTRA_ROWS = 8;

/** Return the summary of an event in one line. */
export function summaryOf(event) {
  switch (event.type) {
    case "question": return event.text;
    case "generate": return event.text.trim() || "(nothing)";
    case "score": return `${event.options.length} options`;
    case "attend": return `attention over ${counted(event.prompt_tokens, "token")}`;
    case "search": return `${event.query} → ${event.hits.map((hit) => hit.passage.title || hit.passage.id).join(", ") || "nothing found"}`;
    case "decide": return `${event.outcome}: ${event.why}`;
    case "expand": return `${event.node} ${LEGEND.actions[event.action] ?? event.action}: ${event.text.trim() || "(nothing)"}`;
    case "answer": return event.answer.short || event.answer.text;
    case "error": return `${event.place}: ${event.message || event.error}`;
    default: return event.text ?? "";
  }
}

/** Return the timeline of a trace. */
export function timelineView(trace) {
  const shown = new Set(Object.keys(KINDS));
  const detail = h("div", { class: "detail", tabindex: "0", role: "group", "aria-label": "Details of the event" });
  const list = eventList(trace, (event) => replace(detail, detailOf(event)));
  const refilter = () => {
    const types = [...shown].flatMap((kind) => KINDS[kind].types);
    list.show(trace.events.filter((event) => types.includes(event.type)));
  };
  const present = new Set(trace.events.map((event) => event.type));
  const filters = Object.entries(KINDS).filter(([, kind]) => kind.types.some((type) => present.has(type))).map(([name, kind]) => {
    const box = h("input", { type: "checkbox", checked: true, change: () => { box.checked ? shown.add(name) : shown.delete(name); refilter(); } });
    return h("label", { class: `filter kind-${name}` }, box, ` ${kind.label}`);
  });
  refilter();
  return h("div", { class: "timeline" },
    h("fieldset", { class: "filters" }, h("legend", { class: "unseen" }, "Events to show"), filters),
    h("div", { class: "timeline-body" }, list.element, detail));
}

/** Return a list that draws only its visible rows, so that it stays fast with any number of events. */
function eventList(trace, select) {
  let events = [];
  let selected = 0;
  let rowHeight = 30;
  const total = Math.max(trace.seconds, 1e-9);
  const spacer = h("div", { class: "spacer" });
  const element = h("div", {
    class: "events", role: "listbox", tabindex: "0", "aria-label": "Events", scroll: () => requestAnimationFrame(draw), keydown: onKey,
  }, spacer);

  function draw() {
    const height = element.clientHeight || 400;
    const first = Math.max(0, Math.floor(element.scrollTop / rowHeight) - EXTRA_ROWS);
    const last = Math.min(events.length, Math.ceil((element.scrollTop + height) / rowHeight) + EXTRA_ROWS);
    spacer.style.setProperty("height", `${events.length * rowHeight}px`);
    spacer.replaceChildren(...events.slice(first, last).map((event, offset) => row(event, first + offset)));
    element.setAttribute("aria-activedescendant", events.length ? rowId(events[selected]) : "");
  }

  function rowId(event) {
    return `${listId}-${event.id}`;
  }

  function row(event, index) {
    const start = Math.max(0, event.at_seconds - event.seconds);
    const width = Math.max(0.4, (100 * event.seconds) / total);
    return h("div", {
      class: `row type-${event.type}${event.outcome === "search" ? " is-search" : ""}${index === selected ? " selected" : ""}`,
      id: rowId(event), role: "option", "aria-selected": index === selected ? "true" : "false",
      "aria-posinset": index + 1, "aria-setsize": events.length,
      vars: { top: `${index * rowHeight}px`, height: `${rowHeight}px`, "--start": `${Math.min(99.6, (100 * start) / total)}%`, "--width": `${Math.min(width, 100)}%` },
      click: () => choose(index),
    },
    h("span", { class: "at" }, event.at_seconds.toFixed(2)),
    h("span", { class: "kind" }, LABELS[event.type] ?? event.type),
    h("span", { class: event.parent === null ? "summary" : "summary caused" }, oneLine(summaryOf(event), 200)),
    h("span", { class: "bar", "aria-hidden": "true" }));
  }

  function choose(index) {
    selected = Math.min(events.length - 1, Math.max(0, index));
    const top = selected * rowHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + rowHeight > element.scrollTop + element.clientHeight) element.scrollTop = top + rowHeight - element.clientHeight;
    draw();
    if (events.length) select(events[selected]);
  }

  function onKey(event) {
    const page = Math.max(1, Math.floor(element.clientHeight / rowHeight) - 1);
    const to = { ArrowDown: selected + 1, ArrowUp: selected - 1, PageDown: selected + page, PageUp: selected - page, Home: 0, End: events.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(to);
  }

  const listId = `events-${(eventList.made = (eventList.made ?? 0) + 1)}`;
  new ResizeObserver(() => { rowHeight = parseFloat(getComputedStyle(element).getPropertyValue("--row-height")) || 30; draw(); }).observe(element);
  return {
    element,
    show(wanted) {
      const kept = events[selected];
      events = wanted;
      selected = Math.max(0, events.indexOf(kept));
      element.scrollTop = Math.min(element.scrollTop, events.length * rowHeight);
      draw();
      if (events.length) select(events[selected]);
    },
  };
}

function field(name, value) {
  return value === null || value === undefined || value === "" ? null : h("div", { class: "field" }, h("dt", {}, name), h("dd", {}, value));
}

function detailOf(event) {
  const heading = h("h2", {}, `${LABELS[event.type] ?? event.type} `, h("span", { class: "note" },
    `event ${event.id}${event.parent === null ? "" : `, caused by ${event.parent}`}`));
  const timing = field("time", `${event.at_seconds.toFixed(3)} s${event.seconds ? `, took ${seconds(event.seconds)}` : ""}`);
  return [heading, h("dl", {}, ...fieldsOf(event), timing)];
}

function fieldsOf(event) {
  const atMost = event.is_upper_bound ? "≤ " : "";
  switch (event.type) {
    case "generate": return [
      field("text", text(event.text)), field("thoughts", event.thoughts && h("details", {}, h("summary", {}, `${counted(event.thoughts.length, "character")}`), text(event.thoughts))), field("call", `${event.role}: ${event.key.join(" ")}`), field("end", event.finish),
      field("tokens", `${atMost}${counted(event.prompt_tokens)} read (${counted(event.reused_tokens)} reused), ${counted(event.generated_tokens)} written`),
      field("prompt", h("details", {}, h("summary", {}, `${counted(event.prompt.length, "character")}`), text(event.prompt)))];
    case "score": return [
      field("options", scores(event)), field("tokens", `${atMost}${counted(event.prompt_tokens)} read`),
      field("prompt", h("details", {}, h("summary", {}, `${counted(event.prompt.length, "character")}`), text(event.prompt)))];
    case "attend": return [field("role", event.role), field("tokens", counted(event.prompt_tokens))];
    case "search": return [field("query", event.query), field("passages", event.hits.length ? hitList(event.hits) : "nothing found")];
    case "decide": return [
      field("decision", event.name), field("outcome", event.outcome), field("reason", event.why), field("query", event.query),
      field("signal", event.signal && `${event.signal}${event.threshold === null ? "" : `, threshold ${event.threshold}`}`),
      field("words", event.words.length ? event.words.slice(0, 200).map((word) => [word.is_hit ? h("mark", {}, `${word.text} (${short(word.value)})`) : word.text, " "]) : null),
      field("numbers", numbers(event.numbers))];
    case "expand": return [
      field("node", event.node), field("action", LEGEND.actions[event.action] ?? event.action), field("text", text(event.text)),
      field("passage", event.passage && hitList([event.passage])), field("rejected", event.rejected), field("numbers", numbers(event.numbers))];
    case "question": return [
      field("question", event.text), field("method", event.method), field("models", Object.entries(event.models).map((pair) => pair.join(": ")).join(", ")),
      field("retriever", event.retriever), field("seed", event.seed), field("started", event.started_at)];
    case "answer": return [field("answer", event.answer.text), field("short answer", event.answer.short)];
    case "error": return [field("error", `${event.error}: ${event.message}`), field("place", event.place)];
    default: return [field("text", event.text), field("reason", event.why), field("place", event.place)];
  }
}

function text(value) {
  return h("div", { class: "pre" }, value);
}

function numbers(values) {
  const pairs = Object.entries(values);
  if (!pairs.length) return null;
  return pairs.map(([name, value]) => h("div", { title: LEGEND.numbers[name] ?? LEGEND.spent[name] }, `${name}: ${Number.isInteger(value) ? counted(value) : short(value, 3)}`));
}

function scores(event) {
  return event.options.slice(0, 100).map((option, index) => h("div", {}, `${option.trim()}: ${short(event.logprobs[index], 3)}`));
}

/** Return a list of passages that open when chosen. */
export function hitList(hits) {
  return h("ol", { class: "hits" }, hits.slice(0, 100).map((hit) => h("li", { value: hit.rank },
    h("button", { type: "button", class: "link", click: () => openPassage(hit.passage) }, hit.passage.title || hit.passage.id),
    ` ${short(hit.score)} `, h("span", { class: "note" }, oneLine(hit.passage.text, 120)))));
}
