// The ask box: it sends a question to the server that served the page, and reads the trace as it grows.

import { h } from "./dom.js";

/** Return the form. `onStart` gets the question, `onEvent` each event of the trace, `onEnd` an error message or "". */
export function askBox({ onStart, onEvent, onEnd }) {
  let running = null;
  const question = h("input", { type: "text", name: "question", required: true, autocomplete: "off", placeholder: "Ask a question of the documents", "aria-label": "Question", maxlength: "20000" });
  const method = h("select", { name: "method", "aria-label": "Method" });
  const key = h("input", { type: "password", name: "key", autocomplete: "off", "aria-label": "API key", placeholder: "API key" });
  const keyField = h("label", { class: "key", hidden: true }, key);
  const submit = h("button", { type: "submit", class: "primary" }, "Ask");
  const stop = h("button", { type: "button", hidden: true, click: () => running?.abort() }, "Stop");
  const message = h("p", { class: "error", role: "alert", hidden: true });
  const form = h("form", { class: "ask", submit: onSubmit }, h("div", { class: "ask-row" }, question, method, keyField, submit, stop), message);
  listMethods();

  function headers() {
    return { "Content-Type": "application/json", ...(key.value ? { Authorization: `Bearer ${key.value}` } : {}) };
  }

  async function listMethods() {
    const response = await fetch("/v1/models", { headers: headers() }).catch(() => null);
    if (!response?.ok) {
      tell(response ? await errorOf(response) : "The server does not answer. Start it again, then reload the page.");
      return;
    }
    const names = (await response.json()).data.map((model) => model.id);
    const wanted = method.value || new URLSearchParams(location.search).get("method") || "";
    method.replaceChildren(...names.map((name) => h("option", { value: name, selected: name === wanted || name === `askance/${wanted}` }, name.replace(/^askance\//, ""))));
  }

  key.addEventListener("change", listMethods);

  function tell(text) {
    message.textContent = text;
    message.hidden = !text;
  }

  async function errorOf(response) {
    const needsKey = response.status === 401 || response.status === 403;
    keyField.hidden = keyField.hidden && !needsKey;
    const body = await response.json().catch(() => null);
    return body?.error?.message ?? `The server answered with status ${response.status}.`;
  }

  async function onSubmit(event) {
    event.preventDefault();
    if (running || !question.value.trim()) return;
    running = new AbortController();
    [submit.disabled, stop.hidden] = [true, false];
    tell("");
    let failed = "";
    try {
      const body = { model: method.value, messages: [{ role: "user", content: question.value.trim() }], stream: true, askance: { events: true } };
      const response = await fetch("/v1/chat/completions", { method: "POST", headers: headers(), body: JSON.stringify(body), signal: running.signal });
      if (response.ok) {
        onStart(question.value.trim());
        failed = await readStream(response.body, onEvent);
      } else {
        failed = await errorOf(response);
      }
    } catch (error) {
      failed = error.name === "AbortError" ? "Stopped." : `The connection broke off: ${error.message}`;
    }
    running = null;
    [submit.disabled, stop.hidden] = [false, true];
    tell(failed);
    onEnd(failed);
  }

  return form;
}

/** Read the server-sent events of an answer; return the message of an error that ended it, or "". */
export async function readStream(stream, onEvent) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  let failed = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return failed;
    pending += value.replaceAll("\r", "");
    const blocks = pending.split("\n\n");
    pending = blocks.pop();
    for (const block of blocks) {
      const { name, data } = eventOf(block);
      if (!data || data === "[DONE]") continue;
      const record = JSON.parse(data);
      if (name === "trace") onEvent(record);
      else if (record.error) failed = record.error.message ?? "The answer ended with an error.";
    }
  }
}

function eventOf(block) {
  let name = "message";
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
  }
  return { name, data: data.join("\n") };
}
