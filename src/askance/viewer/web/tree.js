// AirRAG: the search tree, which can be zoomed and walked with the arrow keys.

import { h, oneLine, replace, short, svg } from "./dom.js";
import { openPassage } from "./answer.js";
import { LEGEND } from "./legend.js";
import { leadsTo, parentNode, searchesOf } from "./trace.js";

const [COLUMN, ROW, WIDTH, HEIGHT] = [236, 74, 206, 62];
const ROUND = 6;
const corner = (x, y) => `a${ROUND} ${ROUND} 0 0 1 ${x} ${y}`;
const [ACROSS, DOWN] = [WIDTH - 2 * ROUND, HEIGHT - 2 * ROUND];
const OUTLINE = `h${ACROSS}${corner(ROUND, ROUND)}v${DOWN}${corner(-ROUND, ROUND)}h${-ACROSS}${corner(-ROUND, -ROUND)}v${-DOWN}${corner(ROUND, -ROUND)}`;
const MOST_LABELLED = 120;
const MARGIN = 12;
const LEAST_SCALE = 0.5;

/** Return the trees of a trace whose steps count visits. */
export function treeView(trace) {
  const searches = searchesOf(trace).filter((search) => search.hasVisits);
  const place = h("div", {}, oneTree(searches[0]));
  const choice = searches.length > 1 && h("label", { class: "note" }, "Tree ",
    h("select", { change: (event) => place.replaceChildren(oneTree(searches[event.target.selectedIndex])) }, searches.map((search, index) => h("option", {}, `${index + 1} (${search.steps.size} steps)`))));
  return h("div", { class: "tree-view" }, choice, place);
}

/** Return the nodes of a search with their positions: children right of their parent, parents beside their middle. */
export function layoutOf(search) {
  const nodes = new Map([["0", { node: "0", step: null, children: [], depth: 0, y: 0 }]]);
  for (const step of search.steps.values()) nodes.set(step.node, { node: step.node, step, children: [], depth: 0, y: 0 });
  for (const each of nodes.values()) {
    if (!each.step) continue;
    let above = parentNode(each.node);
    while (!nodes.has(above)) above = parentNode(above) || "0";
    each.parent = nodes.get(above);
    each.parent.children.push(each);
  }
  let row = 0;
  const pending = [[nodes.get("0"), 0]];
  while (pending.length) {
    const [each, next] = pending.at(-1);
    if (next === 0) each.depth = each.parent ? each.parent.depth + 1 : 0;
    if (next < each.children.length) {
      pending.at(-1)[1] += 1;
      pending.push([each.children[next], 0]);
      continue;
    }
    each.x = each.depth * COLUMN;
    each.y = each.children.length ? (each.children[0].y + each.children.at(-1).y) / 2 : ROW * row++;
    pending.pop();
  }
  return [...nodes.values()];
}

function oneTree(search) {
  const nodes = layoutOf(search);
  const byNode = new Map(nodes.map((each) => [each.node, each]));
  const width = Math.max(...nodes.map((each) => each.x)) + WIDTH;
  const height = Math.max(...nodes.map((each) => each.y)) + HEIGHT;
  const view = { x: 0, y: 0, scale: 1 };
  let selected = byNode.get(search.chosen) ?? nodes[0];
  const labels = svg("g");
  const edges = svg("g");
  const world = svg("g", {}, edges, labels);
  const detail = h("div", { class: "detail", "aria-live": "polite" });
  const picture = svg("svg", { class: "tree", role: "application", tabindex: "0", "aria-label": `Search tree of ${search.steps.size} steps. Arrow keys move between steps, plus and minus zoom, 0 shows all.` }, world);
  drawEdges();

  function drawEdges() {
    const path = (wanted) => nodes.filter((each) => each.parent && isChosen(each) === wanted).map((each) => {
      const [x, y, to, toY] = [each.parent.x + WIDTH, each.parent.y + HEIGHT / 2, each.x, each.y + HEIGHT / 2];
      return `M${x} ${y}C${x + 18} ${y} ${to - 18} ${toY} ${to} ${toY}`;
    }).join("");
    const boxes = nodes.map((each) => `M${each.x + ROUND} ${each.y}${OUTLINE}`).join("");
    edges.append(svg("path", { class: "edge", d: path(false) }), svg("path", { class: "edge chosen", d: path(true) }), svg("path", { class: "box", d: boxes }));
  }

  function isChosen(each) {
    return each.node === "0" ? search.chosen !== "" : leadsTo(each.node, search.chosen);
  }

  /** Draw the nodes that are visible with their labels, unless there are too many to be read. */
  function draw() {
    world.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`);
    const [w, high] = [picture.clientWidth || 800, picture.clientHeight || 480];
    const isVisible = (each) => {
      const [x, y] = [each.x * view.scale + view.x, each.y * view.scale + view.y];
      return x > -WIDTH * view.scale && x < w && y > -HEIGHT * view.scale && y < high;
    };
    const visible = view.scale < 0.3 ? [] : nodes.filter(isVisible);
    const labelled = visible.length > MOST_LABELLED ? [] : visible;
    labels.replaceChildren(...[...new Set([...labelled, selected])].map(label));
  }

  function label(each) {
    const { step } = each;
    const [name, numbers] = step ? [LEGEND.actions[step.action] ?? step.action, counts(step)] : ["question", ""];
    return svg("g", { class: `tree-node${isChosen(each) ? " chosen" : ""}${each === selected ? " selected" : ""}${step?.rejected ? " rejected" : ""}`, transform: `translate(${each.x} ${each.y})`, click: () => choose(each) },
      svg("rect", { width: WIDTH, height: HEIGHT, rx: ROUND }),
      svg("text", { x: 10, y: step ? 18 : 36, class: "name" }, oneLine(name, 26)),
      step && svg("text", { x: 10, y: 35, class: "excerpt" }, oneLine(step.text, 26) || "(nothing)"),
      step && svg("text", { x: 10, y: 53, class: "numbers" }, numbers));
  }

  function choose(each) {
    selected = each;
    replace(detail, stepDetail(each, search));
    reveal(each);
    draw();
  }

  function reveal(each) {
    const [w, high] = [picture.clientWidth || 800, picture.clientHeight || 480];
    const [x, y] = [each.x * view.scale + view.x, each.y * view.scale + view.y];
    view.x += shift(x, WIDTH * view.scale, w);
    view.y += shift(y, HEIGHT * view.scale, high);
  }

  /** Return by how much a box has to be moved to be inside the picture. */
  function shift(start, size, room) {
    if (start < MARGIN) return MARGIN - start;
    return Math.min(0, room - MARGIN - start - size);
  }

  function zoom(factor, x = (picture.clientWidth || 800) / 2, y = (picture.clientHeight || 480) / 2) {
    const scale = Math.min(3, Math.max(0.02, view.scale * factor));
    view.x = x - ((x - view.x) * scale) / view.scale;
    view.y = y - ((y - view.y) * scale) / view.scale;
    view.scale = scale;
    draw();
  }

  function fit() {
    const [w, high] = [picture.clientWidth || 800, picture.clientHeight || 480];
    view.scale = Math.min(1.2, (w - 2 * MARGIN) / width, (high - 2 * MARGIN) / height);
    view.x = Math.max(MARGIN, (w - width * view.scale) / 2);
    view.y = Math.max(MARGIN, (high - height * view.scale) / 2);
    draw();
  }

  function readable() {
    view.scale = 1;
    [view.x, view.y] = [MARGIN, MARGIN];
    reveal(selected);
    draw();
  }

  const moves = {
    ArrowLeft: () => selected.parent, ArrowRight: () => selected.children[0],
    ArrowDown: () => sibling(1), ArrowUp: () => sibling(-1),
  };
  function sibling(step) {
    const column = nodes.filter((each) => each.depth === selected.depth).sort((one, other) => one.y - other.y);
    return column[column.indexOf(selected) + step];
  }
  picture.addEventListener("keydown", (event) => {
    if (event.key in moves) choose(moves[event.key]() ?? selected);
    else if (event.key === "+" || event.key === "=") zoom(1.3);
    else if (event.key === "-") zoom(1 / 1.3);
    else if (event.key === "0") fit();
    else return;
    event.preventDefault();
  });
  picture.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = picture.getBoundingClientRect();
    zoom(event.deltaY < 0 ? 1.15 : 1 / 1.15, event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
  watchPointers(picture, (x, y) => { view.x += x; view.y += y; draw(); }, zoom);
  let isPlaced = false;
  new ResizeObserver(() => {
    if (!picture.clientWidth) return;
    if (!isPlaced) {
      const scale = Math.min(1.2, (picture.clientWidth - 2 * MARGIN) / width);
      const isReadable = scale >= LEAST_SCALE;
      picture.style.setProperty("--tree-height", `${Math.max(220, height * (isReadable ? scale : 1) + 4 * MARGIN)}px`);
      fit();
      if (view.scale < LEAST_SCALE) readable();
    }
    isPlaced = true;
    draw();
  }).observe(picture);
  replace(detail, stepDetail(selected, search));
  const buttons = [["Zoom in", () => zoom(1.3)], ["Zoom out", () => zoom(1 / 1.3)], ["Whole tree", fit], ["Readable size", readable]];
  return h("div", { class: "tree-body" },
    h("div", {}, h("div", { class: "tree-buttons" }, buttons.map(([name, act]) => h("button", { type: "button", click: act }, name))), picture),
    detail);
}

/**
 * Call `move` with the distance by which one pointer, or the middle of two, was dragged, and `zoom` with the factor by
 * which two pointers went apart, and the middle between them.
 */
function watchPointers(element, move, zoom) {
  const held = new Map();
  element.addEventListener("pointerdown", (event) => held.set(event.pointerId, [event.clientX, event.clientY]));
  element.addEventListener("pointermove", (event) => {
    if (!held.has(event.pointerId) || event.buttons === 0) return;
    const before = extentOf([...held.values()]);
    held.set(event.pointerId, [event.clientX, event.clientY]);
    const after = extentOf([...held.values()]);
    move(after.x - before.x, after.y - before.y);
    const box = element.getBoundingClientRect();
    if (before.size && after.size) zoom(after.size / before.size, after.x - box.left, after.y - box.top);
  });
  for (const end of ["pointerup", "pointerleave", "pointercancel"]) element.addEventListener(end, (event) => held.delete(event.pointerId));
}

/** Return the middle of the first two points, and the distance between them (0 for one point). */
function extentOf([one, other = one]) {
  return { x: (one[0] + other[0]) / 2, y: (one[1] + other[1]) / 2, size: Math.hypot(one[0] - other[0], one[1] - other[1]) };
}

function counts(step) {
  const { visits, value, uct } = step.numbers;
  const mean = visits ? ` · mean ${short(value / visits)}` : "";
  return `visits ${visits}${mean}${uct === undefined ? "" : ` · uct ${short(uct)}`}`;
}

function stepDetail(each, search) {
  const { step } = each;
  if (!step) return [h("h2", {}, "question"), h("p", { class: "note" }, `The root of a tree of ${search.steps.size} steps. Choose a step to see its numbers.`)];
  const { visits, value, uct, votes, reward } = step.numbers;
  const mean = visits ? value / visits : null;
  const pairs = [
    ["visits", visits, LEGEND.numbers.visits], ["value", short(value), LEGEND.numbers.value], ["mean reward", short(mean)],
    ["UCT", uct === undefined || mean === null ? null : `${short(uct)} = mean ${short(mean)} + exploration ${short(uct - mean)}`, LEGEND.numbers.uct],
    ["votes", votes === 1 ? null : votes], ["reward", reward === undefined ? null : short(reward), LEGEND.numbers.reward],
    ["ended", step.numbers.cut ? "the budget ended it" : null], ["rejected", step.rejected || null],
  ];
  return [
    h("h2", {}, LEGEND.actions[step.action] ?? step.action, " ", h("span", { class: "note" }, step.node, " "),
      leadsTo(step.node, search.chosen) && h("span", { class: "tag tag-keep" }, step.node === search.chosen ? "chosen" : "on the chosen path")),
    h("p", { class: "candidate-text" }, step.text.trim() || "(nothing)"),
    step.passage && h("p", {}, h("span", { class: "label" }, "passage"), " ", h("button", { type: "button", class: "link", click: () => openPassage(step.passage.passage, step.text) }, step.passage.passage.title || step.passage.passage.id)),
    h("dl", {}, pairs.filter(([, shown]) => shown !== null && shown !== undefined).map(([name, shown, why]) => h("div", { class: "field", title: why }, h("dt", {}, name), h("dd", {}, String(shown))))),
    LEGEND.does[step.action] && h("p", { class: "note" }, `This action ${LEGEND.does[step.action]}.`)];
}
