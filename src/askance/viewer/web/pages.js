// Long lists in pages, so that a trace of any length needs few elements.

import { counted, h } from "./dom.js";

/**
 * Return a block that shows `items` page by page.
 *
 * `weightOf` gives the number of elements that an item needs, `most` the number that a page may have, and `draw` the
 * element of an item.
 */
export function pagedList(items, { weightOf, draw, name, most = 900 }) {
  const pages = [];
  let room = 0;
  items.forEach((item, index) => {
    const weight = weightOf(item);
    if (weight > room) {
      pages.push([index, index]);
      room = most;
    }
    pages.at(-1)[1] = index + 1;
    room -= weight;
  });
  const list = h("div", { class: "page" });
  const place = h("span", { "aria-live": "polite" });
  const earlier = h("button", { type: "button", click: () => show(page - 1) }, "Earlier");
  const later = h("button", { type: "button", click: () => show(page + 1) }, "Later");
  let page = 0;
  function show(wanted) {
    page = Math.min(pages.length - 1, Math.max(0, wanted));
    const [start, end] = pages[page];
    list.replaceChildren(...items.slice(start, end).map((item, offset) => draw(item, start + offset)));
    place.textContent = `${name} ${counted(start + 1)}–${counted(end)} of ${counted(items.length)}`;
    earlier.disabled = page === 0;
    later.disabled = page === pages.length - 1;
  }
  if (pages.length) show(0);
  return h("div", { class: "pages" }, pages.length > 1 ? h("nav", { class: "pager", "aria-label": `Pages of ${name}` }, earlier, later, place) : null, list);
}
