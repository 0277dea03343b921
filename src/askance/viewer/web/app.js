// The page: the traces or the run that it holds, or an ask box if a server served it.

import { askBox } from "./ask.js";
import { comparison } from "./compare.js";
import { h } from "./dom.js";
import { runView } from "./run.js";
import { parsedTrace, Trace } from "./trace.js";
import { TABS, TraceView } from "./view.js";

const REFRESH_MILLISECONDS = 200;

/** Fill the page. */
function start() {
  const data = document.getElementById("traces");
  const run = document.getElementById("run");
  const page = new Page(document.getElementById("app"));
  if (data) page.showAll(JSON.parse(data.textContent).map(({ name, events }) => new Trace(events, name)));
  else if (run) page.addRun(JSON.parse(run.textContent));
  else page.addAskBox();
}

class Page {
  constructor(root) {
    this.known = [];
    this.shown = [];
    this.views = [];
    this.tab = location.hash.slice(1) in TABS ? location.hash.slice(1) : "timeline";
    this.ask = h("div", { class: "ask-place" });
    this.tools = h("div", { class: "tools" });
    this.message = h("p", { class: "error", role: "alert", hidden: true });
    this.comparison = h("div");
    this.columns = h("div", { class: "columns" });
    root.replaceChildren(h("div", { class: "top" }, h("span", { class: "brand" }, "askance"), this.tools), this.ask, this.message, this.comparison, this.columns);
    this.showTools();
  }

  /** Show the traces of a file. */
  showAll(traces) {
    this.known = traces;
    this.showTraces(traces.slice(0, 2));
  }

  /** Show one or two traces; two stand side by side, below a table of their differences. */
  showTraces(traces) {
    this.shown = traces;
    this.views = traces.map((trace) => new TraceView(trace, { tab: this.tab, onTab: (tab) => this.showTab(tab) }));
    this.columns.className = `columns columns-${traces.length}`;
    this.columns.replaceChildren(...this.views.map((view) => view.element));
    this.compare();
    this.showTools();
  }

  compare() {
    this.comparison.replaceChildren(...(this.shown.length === 2 ? [comparison(this.shown)] : []));
  }

  showTab(tab) {
    this.tab = tab;
    history.replaceState(null, "", `#${tab}`);
    const active = document.activeElement;
    const hadFocus = this.views.find((view) => view.tabs.contains(active));
    for (const view of this.views) view.show(tab);
    hadFocus?.tabs.querySelector("[aria-selected=true]")?.focus();
  }

  /** Show what can be compared: earlier answers of this page, and files of the reader. */
  showTools() {
    const others = this.known.filter((trace) => trace !== this.shown[0]);
    const choices = h("select", { "aria-label": "Compare with", change: () => this.showTraces([this.shown[0], ...others.slice(choices.selectedIndex - 1, choices.selectedIndex || -1)]) },
      h("option", {}, "Compare with…"), others.map((trace) => h("option", { selected: trace === this.shown[1] }, trace.name || trace.question?.text || "trace")));
    const file = h("input", { type: "file", accept: ".jsonl", class: "unseen", "aria-label": this.shown.length ? "Compare with a trace file" : "Open a trace file", change: () => this.open(file.files[0]) });
    this.tools.replaceChildren(...[
      this.shown.length && others.length ? choices : null,
      h("label", { class: "button" }, this.shown.length ? "Compare with a file" : "Open a trace file", file),
      this.shown.length === 2 ? h("button", { type: "button", click: () => this.showTraces(this.shown.slice(0, 1)) }, "Close the second") : null,
    ].filter(Boolean));
  }

  async open(file) {
    this.tell("");
    try {
      const trace = parsedTrace(await file.text(), file.name);
      this.known.push(trace);
      this.showTraces([...this.shown.slice(0, 1), trace]);
    } catch (error) {
      this.tell(error.message);
    }
  }

  tell(text) {
    this.message.textContent = text;
    this.message.hidden = !text;
  }

  /** Show the questions of a run; a question that the reader chooses takes their place. */
  addRun(run) {
    const list = runView(run, (trace) => {
      if (!this.known.some((each) => each.name === trace.name)) this.known.push(trace);
      this.showTraces([trace]);
      list.hidden = true;
      back.hidden = false;
      scrollTo(0, 0);
    });
    const back = h("button", { type: "button", hidden: true, click: () => {
      this.showTraces([]);
      list.hidden = false;
      back.hidden = true;
    } }, "All questions");
    this.ask.replaceChildren(back, list);
  }

  addAskBox() {
    let trace = null;
    let timer = null;
    const refresh = (isOver) => {
      timer = null;
      for (const view of this.views) if (view.trace === trace) view.refresh({ isOver });
    };
    this.columns.replaceChildren(h("p", { class: "note" }, "The answer appears here as it is written, with each search, the reason for it, and the passages that the answer cites."));
    this.ask.replaceChildren(askBox({
      onStart: (question) => {
        trace = new Trace([], question);
        this.showTraces([trace]);
      },
      onEvent: (event) => {
        trace.add(event);
        if (event.type === "question") trace.name = `${event.text} — ${event.title}`;
        timer ??= setTimeout(() => refresh(false), REFRESH_MILLISECONDS);
      },
      onEnd: () => {
        clearTimeout(timer);
        refresh(true);
        if (trace?.events.length && !this.known.includes(trace)) this.known.push(trace);
        if (trace && !trace.events.length) this.showTraces([]);
        this.showTools();
      },
    }));
  }
}

start();
