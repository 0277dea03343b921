// The answer with its citations, and the passage that a citation opens at the cited sentence.

import { h, oneLine } from "./dom.js";
import { charactersOf } from "./trace.js";

/** Return the answer of a trace, or its text so far, with a button for each citation. */
export function answerBlock(trace) {
  const answered = trace.answered;
  if (!answered) return growingAnswer(trace);
  const { text, short, citations, confidence, abstained, source, unsupported = [] } = answered.answer;
  const origin = source && h("span", { class: "note source" }, source);
  return h("div", { class: "answer" },
    abstained ? h("p", { class: "error" }, `Not in the documents: ${abstained}. Unsupported:`) : null,
    h("p", { class: "answer-text" }, citedText(text, citations, unsupported)),
    !abstained && short && short !== text ? h("p", { class: "short" }, h("span", { class: "label" }, "Short answer"), " ", h("strong", {}, short), " ", origin) : origin,
    confidence == null ? null : h("p", { class: "note" }, `Confidence ${confidence.toFixed(2)}`),
    sourceList(citations, text),
    unsupportedBlock(trace, text, citations, unsupported));
}

function growingAnswer(trace) {
  if (trace.failure) return h("div", { class: "answer" }, trace.committed && h("p", { class: "answer-text" }, trace.committed), errorBlock(trace.failure));
  return h("div", { class: "answer", "aria-live": "polite" },
    h("p", { class: "answer-text" }, trace.committed, h("span", { class: "draft" }, trace.draft), h("span", { class: "cursor", "aria-hidden": "true" })));
}

function errorBlock(error) {
  return h("p", { class: "error", role: "alert" }, `${error.place}: ${error.message || error.error}`);
}

function citedText(text, citations, unsupported) {
  const pieces = [];
  const isUnsupported = (part) => unsupported.some((each) => each.start < part.end && part.start < each.end);
  let at = 0;
  for (const part of [...citations, ...unsupported].sort((one, other) => one.end - other.end || (one.number ?? Infinity) - (other.number ?? Infinity))) {
    const start = Math.max(at, part.start);
    if (start > at) pieces.push(charactersOf(text, at, start));
    if (part.end > start) pieces.push(h("span", { class: `${part.passage ? "cited" : ""} ${isUnsupported(part) ? "unsupported" : ""}`.trim() }, charactersOf(text, start, part.end)));
    at = Math.max(at, part.end);
    pieces.push(part.passage ? citationButton(part, text) : h("span", { class: "unsupported-mark", title: `No passage supports this: ${part.why}` }, " [?]"));
  }
  return [...pieces, charactersOf(text, at)];
}

function citationButton(citation, text) {
  const cited = charactersOf(text, citation.start, citation.end);
  return h("button", {
    type: "button", class: "citation", "aria-label": `Source ${citation.number}: ${citation.passage.title}`,
    click: () => openPassage(citation.passage, cited),
  }, `[${citation.number}]`);
}

function sourceList(citations, text) {
  if (!citations.length) return h("p", { class: "note" }, "The answer cites no passage.");
  const first = new Map();
  for (const citation of citations) if (!first.has(citation.number)) first.set(citation.number, citation);
  const sources = [...first.values()].sort((one, other) => one.number - other.number);
  return h("ol", { class: "sources", "aria-label": "Sources" }, sources.map((citation) =>
    h("li", { value: citation.number },
      h("button", { type: "button", class: "link", click: () => openPassage(citation.passage, charactersOf(text, citation.start, citation.end)) },
        citation.passage.title || citation.passage.id),
      " ", h("span", { class: "note" }, citation.passage.source))));
}

function unsupportedBlock(trace, text, citations, unsupported) {
  const ends = new Set(citations.map((citation) => citation.end));
  const doubted = unsupported.filter((each) => ends.has(each.end)).map((each) => ({ text: charactersOf(text, each.start, each.end), why: each.why }));
  const reasons = [...trace.ofType("uncited"), ...doubted];
  if (!reasons.length) return null;
  return h("details", { class: "uncited" }, h("summary", {}, `${doubted.length ? "Unsupported" : "Without a citation"} (${reasons.length})`),
    h("ul", {}, reasons.slice(0, 50).map((event) => h("li", {}, `“${oneLine(event.text)}” `, h("span", { class: "note" }, event.why)))));
}

/** Open a passage in a dialog and mark the sentence that shares the most words with `cited`. */
export function openPassage(passage, cited = "") {
  const sentences = sentencesOf(passage.text);
  const best = cited ? nearestSentence(sentences, cited) : -1;
  const body = h("p", { class: "passage-text" }, sentences.map((sentence, index) => index === best ? h("mark", {}, sentence) : sentence));
  const dialog = h("dialog", { class: "passage", "aria-label": passage.title || passage.id, close: () => dialog.remove(), click: (event) => event.target === dialog && dialog.close() },
    h("div", { class: "passage-inner" },
      h("div", { class: "passage-head" }, h("h2", {}, passage.title || passage.id), h("button", { type: "button", class: "close", "aria-label": "Close", click: () => dialog.close() }, "×")),
      h("p", { class: "note" }, [passage.id, passage.source, passage.end ? `characters ${passage.start}–${passage.end}` : ""].filter(Boolean).join(" · ")),
      body,
      cited.trim() && h("p", { class: "note" }, "Cited for: ", h("q", {}, oneLine(cited)))));
  document.body.append(dialog);
  dialog.showModal();
  dialog.querySelector("mark")?.scrollIntoView({ block: "center" });
}

/** Return the sentences of a text, which join to the text. */
export function sentencesOf(text) {
  if (!globalThis.Intl?.Segmenter) return text.match(/[^.!?]+[.!?]*\s*/g) ?? [text];
  return Array.from(new Intl.Segmenter("en", { granularity: "sentence" }).segment(text), (piece) => piece.segment);
}

/** Return the index of the sentence that shares the most different words with `text`, or -1 if none shares any. */
export function nearestSentence(sentences, text) {
  const wanted = wordsOf(text);
  let best = -1;
  let most = 0;
  sentences.forEach((sentence, index) => {
    const shared = [...wordsOf(sentence)].filter((word) => wanted.has(word)).length;
    if (shared > most) [best, most] = [index, shared];
  });
  return best;
}

function wordsOf(text) {
  const words = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  return new Set(words.filter((word) => word.length > 3 || /\p{N}/u.test(word)));
}
