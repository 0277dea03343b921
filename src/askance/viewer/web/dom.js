// Elements of the page. All text of a trace becomes a text node or an attribute here, never markup.

const COMMANDS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb]/g;

/** Return text with U+FFFD in place of control characters and characters that change the writing direction. */
export function printable(text) {
  return String(text).replace(COMMANDS, "\ufffd");
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else if (name === "vars") for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
    else element.setAttribute(name, value === true ? "" : printable(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    element.append(child instanceof Node ? child : printable(child));
  }
  return element;
}

/**
 * Return an HTML element. A function among the attributes is a listener for the event of that name; `vars` are
 * CSS properties. Children are nodes or text; empty ones are left out.
 */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Replace the children of an element; empty ones are left out. */
export function replace(element, ...children) {
  element.replaceChildren();
  return fill(element, {}, children);
}

/** Return an SVG element; see `h`. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

/** Return a number of a trace, in which infinite numbers are strings, or null. */
export function numberOf(value) {
  return value === null || value === undefined ? null : Number(value);
}

/** Return a number as text with `digits` decimals, or "–" for null. */
export function short(value, digits = 2) {
  const number = numberOf(value);
  if (number === null || Number.isNaN(number)) return "–";
  if (!Number.isFinite(number)) return number > 0 ? "∞" : "−∞";
  const smallest = 0.5 * 10 ** -digits;
  if (number !== 0 && Math.abs(number) < smallest) return "≈ 0";
  return number.toFixed(digits).replace("-", "−");
}

/** Return a count with separators between thousands. */
export function counted(value, unit = "") {
  const number = Number(value);
  const digits = number.toLocaleString("en-US", { maximumFractionDigits: 0 });
  if (!unit) return digits;
  return `${digits} ${unit}${number === 1 ? "" : unit.endsWith("ch") ? "es" : "s"}`;
}

export function seconds(value) {
  return value >= 10 ? `${value.toFixed(0)} s` : value >= 0.1 ? `${value.toFixed(1)} s` : `${(value * 1000).toFixed(0)} ms`;
}

/** Return text without line breaks and repeated spaces, cut to `most` characters. */
export function oneLine(text, most = 300) {
  const line = String(text).slice(0, most * 2).replace(/\s+/g, " ").trim();
  return line.length > most ? `${line.slice(0, most)}…` : line;
}

/** Move a roving focus with the arrow keys over `items`; call `select` with the item that gets the focus. */
export function rove(event, items, select) {
  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -items.length, End: items.length };
  if (!(event.key in steps) || items.length === 0) return;
  event.preventDefault();
  const at = Math.max(0, items.indexOf(document.activeElement));
  const item = items[Math.min(items.length - 1, Math.max(0, at + steps[event.key]))];
  for (const each of items) each.tabIndex = each === item ? 0 : -1;
  item.focus();
  select(item);
}
