// Talking to the service this page came from: JSON, server-sent events, and problem documents as errors.

/** What went wrong, in the service's words; `field`, `value` and `allowed` where one field is to blame. */
export class Problem extends Error {
  constructor(document) {
    super(document.detail || document.title || `status ${document.status}`);
    this.title = document.title ?? "Problem";
    this.status = document.status ?? 0;
    for (const name of ["field", "value", "allowed"]) this[name] = document[name] ?? null;
    this.requestId = document.request_id ?? null;
  }
}

const KEY = "recall-loop-key";
export const savedKey = () => sessionStorage.getItem(KEY) ?? "";
export const saveKey = (key) => (key ? sessionStorage.setItem(KEY, key) : sessionStorage.removeItem(KEY));

async function send(path, init) {
  const headers = { Accept: "application/json, application/problem+json, text/event-stream" };
  if (init.body !== undefined) headers["Content-Type"] = "application/json";
  // The browser can't send every character of a pasted text in a header: encoded, it is refused like any wrong key.
  if (savedKey()) headers.Authorization = `Bearer ${encodeURI(savedKey())}`;
  let response;
  try {
    response = await fetch(new URL(path, document.baseURI), { ...init, headers, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ title: "The service does not respond", detail: String(error.message) });
  }
  if (!response.ok) throw new Problem(await documentOf(response));
  return response;
}

async function documentOf(response) {
  try {
    return { status: response.status, ...(await response.json()) };
  } catch {
    return { status: response.status, title: response.statusText };
  }
}

export const getJson = async (path) => (await send(path, { method: "GET" })).json();
export const postJson = async (path, body) => (await send(path, { method: "POST", body: JSON.stringify(body) })).json();

export const patchJson = async (path, body) => (await send(path, { method: "PATCH", body: JSON.stringify(body) })).json();
export const deleteJson = async (path, body) => (await send(path, { method: "DELETE", body: JSON.stringify(body) })).json();

/** Post, and give each server-sent event as [name, data]; ends when the server does. */
export async function* postEvents(path, body, signal) {
  const response = await send(path, { method: "POST", body: JSON.stringify(body), signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value.replaceAll("\r", "")).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = parsed(block);
      if (event) yield event;
    }
  }
}

function parsed(block) {
  let name = "message";
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
  }
  return data.length ? [name, JSON.parse(data.join("\n"))] : null;
}
