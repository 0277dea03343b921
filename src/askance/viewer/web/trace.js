// A trace in memory: its events, and what the views derive from them.

/** The events of one question. Events may still arrive: see `add`. */
export class Trace {
  constructor(events = [], name = "") {
    this.name = name;
    this.events = [];
    this.draft = "";
    this.committed = "";
    for (const event of events) this.add(event);
  }

  /** Add an event of a trace file or of a stream, in which a commit is sent in pieces that share an id. */
  add(event) {
    if (event.type === "draft") {
      this.draft += event.text;
      return;
    }
    if (["commit", "search", "answer"].includes(event.type)) this.draft = "";
    const last = this.events.at(-1);
    if (event.type === "commit") this.committed += event.text;
    if (event.type === "commit" && last && last.id === event.id) {
      this.events[this.events.length - 1] = { ...event, text: last.text + event.text };
    } else {
      this.events.push(event);
    }
  }

  ofType(...types) {
    return this.events.filter((event) => types.includes(event.type));
  }

  get question() {
    return this.events.find((event) => event.type === "question");
  }

  get answered() {
    return this.events.findLast((event) => event.type === "answer");
  }

  /** The error that ended the question, or undefined. */
  get failure() {
    const last = this.events.at(-1);
    return last && last.type === "error" ? last : undefined;
  }

  /** Whether a draft has signals, or words that a decision judged. */
  get hasSignals() {
    return this.events.some((event) => (event.type === "generate" ? hasSignals(event) : event.type === "decide" && event.words.length > 0));
  }

  /** Whether a tree search has steps, with counts of visits or without. */
  hasSteps(withVisits) {
    return this.events.some((event) => event.type === "expand" && "visits" in event.numbers === withVisits);
  }

  get seconds() {
    return this.events.reduce((most, event) => Math.max(most, event.at_seconds), 0);
  }
}

/**
 * Return the trace of the text of a trace file.
 *
 * Throws an Error whose message says what is wrong with the file, and where.
 */
export function parsedTrace(text, name) {
  const lines = text.split("\n").filter(Boolean);
  const records = lines.map((line, index) => {
    try {
      return JSON.parse(line);
    } catch {
      throw new Error(`${name}, line ${index + 1}: not JSON. Choose a file that askance ask --trace wrote.`);
    }
  });
  if (records[0]?.type !== "header" || records[0].schema !== 1) {
    throw new Error(`${name} is not a trace of schema 1. Choose a file that askance ask --trace wrote.`);
  }
  return new Trace(records.slice(1), name);
}

/** Return the substring between two offsets that count characters as Python does, not UTF-16 units. */
export function charactersOf(text, start, end) {
  return /[\ud800-\udfff]/.test(text) ? [...text].slice(start, end).join("") : text.slice(start, end);
}

function hasSignals(generate) {
  return generate.tokens.some((token) => token.entropy !== null || token.logprob !== null);
}

/**
 * Return the drafts of a trace with the decisions about them, in order.
 *
 * A draft is a generation whose tokens have signals, or about whose words the method decided. Each of its tokens
 * has the word that it belongs to, if the words were scored.
 */
export function draftsOf(trace) {
  const drafts = [];
  let last = null;
  for (const event of trace.events) {
    if (event.type === "generate") {
      last = { generate: event, decision: null, tokens: event.tokens.map((token) => ({ ...token, word: null, attention: null })) };
      if (hasSignals(event)) drafts.push(last);
    } else if (event.type === "decide" && event.words.length && last && !last.decision) {
      if (!assignWords(last.tokens, event, last.generate.text)) continue;
      last.decision = event;
      if (drafts.at(-1) !== last) drafts.push(last);
    }
  }
  return drafts;
}

/** Give each token the word that it belongs to, and return whether the text has the words. */
function assignWords(tokens, { words, signal }, text) {
  if (!text.includes(words[0].text)) return false;
  let cursor = 0;
  let first = 0;
  const starts = [];
  let offset = 0;
  for (const token of tokens) {
    starts.push(offset);
    offset += token.text.length;
  }
  for (const word of words) {
    const start = text.indexOf(word.text, cursor);
    if (start < 0) continue;
    cursor = start + word.text.length;
    while (first < tokens.length && starts[first] + tokens[first].text.length <= start) first += 1;
    for (let index = first; index < tokens.length && starts[index] < cursor; index += 1) tokens[index].word = word;
    const mine = tokens.filter((token) => token.word === word);
    const attention = mine.length ? attentionTo(word, mine, signal) : null;
    for (const token of mine) token.attention = attention;
  }
  return true;
}

/**
 * Return how far a word's value is beyond the threshold: 1 at the threshold, more where the method is in doubt.
 *
 * FLARE doubts words of a low probability; all other signals are in doubt above the threshold.
 */
export function doubtOf(value, decision) {
  const threshold = Number(decision.threshold);
  if (decision.threshold === null || !Number.isFinite(threshold)) return 0;
  const [doubt, limit] = decision.signal === "token probability" ? [1 - value, 1 - threshold] : [value, threshold];
  return limit > 0 ? Math.max(0, doubt / limit) : doubt > limit ? 2 : 0;
}

/**
 * Return the tree searches of a trace, each as its steps by node and its chosen node ("" if unknown).
 *
 * Steps with visits (AirRAG) and steps without (Self-RAG) belong to different searches, and so do two steps with
 * the same node.
 */
export function searchesOf(trace) {
  const searches = [];
  for (const step of trace.ofType("expand")) {
    const hasVisits = "visits" in step.numbers;
    let search = searches.findLast((each) => each.hasVisits === hasVisits);
    if (!search || search.steps.has(step.node)) {
      search = { hasVisits, steps: new Map(), chosen: "" };
      searches.push(search);
    }
    search.steps.set(step.node, step);
  }
  for (const search of searches) search.chosen = chosenNode(search, trace);
  return searches;
}

/**
 * Return the highest attention that a later word pays to a token's word, or null if it is unknown.
 *
 * A score of DRAGIN is the uncertainty of the word's tokens (their mean entropy, or surprise where the entropy is
 * unknown) times this attention. For `dragin_paper`, it is that of one token, so words of several tokens are unknown.
 */
export function attentionTo(word, tokens, signal) {
  const isMean = signal === "doubt (nats) × attention";
  if (!signal.endsWith("× attention") || !word.value || (!isMean && tokens.length > 1)) return null;
  const uncertainties = tokens.map((token) => Number(token.entropy ?? -token.logprob));
  const mean = uncertainties.reduce((sum, each) => sum + each, 0) / tokens.length;
  return mean > 0 ? Math.min(1, word.value / mean) : null;
}

function chosenNode(search, trace) {
  const steps = [...search.steps.values()];
  if (search.hasVisits) return steps.find((step) => step.numbers.chosen)?.node ?? "";
  const last = Math.max(...steps.map((step) => step.id));
  const choice = trace.events.find((event) => event.type === "decide" && event.name === "choose" && event.id > last);
  if (choice) return search.steps.has(choice.outcome) ? choice.outcome : "";
  const answer = trace.answered?.answer.text.trim();
  return steps.find((step) => !step.rejected && step.text.trim() === answer)?.node ?? "";
}

/** Return the node above a node, such as "0.1" for "0.1.2". */
export function parentNode(node) {
  return node.slice(0, Math.max(0, node.lastIndexOf(".")));
}

/** Return whether a node is on the path from the root to the chosen node. */
export function leadsTo(node, chosen) {
  return chosen !== "" && `${chosen}.`.startsWith(`${node}.`);
}
