// The view of one trace: question, answer and costs, and below them tabs for its timeline, tokens, segments and tree.

import { answerBlock } from "./answer.js";
import { costsView, usageLine } from "./costs.js";
import { h, rove } from "./dom.js";
import { segmentsView } from "./segments.js";
import { timelineView } from "./timeline.js";
import { tokensView } from "./tokens.js";
import { treeView } from "./tree.js";

/** The tabs by name: the label, whether a trace has something to show in it, and the view. */
export const TABS = {
  timeline: { label: "Timeline", has: () => true, view: timelineView },
  tokens: { label: "Words", has: (trace) => trace.hasSignals, view: tokensView },
  segments: { label: "Segments", has: (trace) => trace.hasSteps(false), view: segmentsView },
  tree: { label: "Tree", has: (trace) => trace.hasSteps(true), view: treeView },
  costs: { label: "Costs", has: () => true, view: costsView },
};
let numViews = 0;

/** The elements that show a trace. `onTab` is called with the name of a tab that the reader chooses. */
export class TraceView {
  constructor(trace, { tab, onTab }) {
    this.trace = trace;
    this.tab = tab;
    this.onTab = onTab;
    this.id = `view-${(numViews += 1)}`;
    this.header = h("header", { class: "trace-head" });
    this.tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Views of the trace", keydown: (event) => rove(event, [...this.tabs.children], (button) => button.click()) });
    this.panel = h("div", { class: "panel", role: "tabpanel", id: `${this.id}-panel` });
    this.element = h("article", { class: "trace" }, this.header, this.tabs, this.panel);
    this.refresh();
  }

  /** Show the events that have arrived. While more arrive, a panel in which the reader works stays as it is. */
  refresh({ isOver = true } = {}) {
    this.showHeader();
    if (isOver || !this.panel.contains(document.activeElement)) this.show(this.tab);
  }

  showHeader() {
    const asked = this.trace.question;
    const models = asked ? Object.values(asked.models).filter((name, index, all) => all.indexOf(name) === index).join(", ") : "";
    this.header.replaceChildren(...[
      h("h1", {}, asked?.text ?? this.trace.name),
      h("p", { class: "note setting" }, [asked?.title, models, asked?.retriever].filter(Boolean).join(" · ")),
      answerBlock(this.trace),
      h("p", { class: "note usage" }, usageLine(this.trace)),
    ]);
  }

  /** Show a tab, or the timeline if the trace has nothing to show in it. */
  show(tab) {
    this.tab = tab;
    const names = Object.keys(TABS).filter((name) => TABS[name].has(this.trace));
    const shown = names.includes(tab) ? tab : "timeline";
    this.tabs.replaceChildren(...names.map((name) => h("button", {
      type: "button", role: "tab", id: `${this.id}-${name}`, "aria-selected": name === shown ? "true" : "false",
      "aria-controls": `${this.id}-panel`, tabindex: name === shown ? "0" : "-1", click: () => this.onTab(name),
    }, TABS[name].label)));
    this.panel.setAttribute("aria-labelledby", `${this.id}-${shown}`);
    this.panel.replaceChildren(TABS[shown].view(this.trace));
  }
}
