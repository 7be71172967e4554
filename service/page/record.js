// One record with its sources and history; a second click edits it, sets its expiry or erases it.

import { whyNoWrites } from "./access.js";
import { byId, count, el, fill, minute, named } from "./dom.js";
import { deleteJson, getJson, patchJson } from "./http.js";
import { problemBox } from "./problems.js";

const FIELDS = ["id", "created_at", "updated_at", "author", "role", "user_id", "agent_id", "group_id", "conversation_id", "session", "subject", "fact_type", "object", "confidence", "tags", "language", "valid_until", "expires_at"];

/** Show a record; `changed` is called after something was written. */
export async function openRecord(id, words, changed) {
  const path = `api/memory/records/${encodeURIComponent(id)}`;
  try {
    const [record, related, { versions }] = await Promise.all([getJson(path), getJson(`${path}/relations`), getJson(`${path}/history`)]);
    fill("record-shown", new Shown(record, related, versions, { path, words, changed }).article());
  } catch (error) {
    fill("record-shown", problemBox(error));
  }
  turnTo();
}

/** Scroll to the beginning of the record: the browser by itself goes to the middle of a long one, or doesn't scroll. */
function turnTo() {
  const shown = byId("record-shown");
  shown.focus({ preventScroll: true });
  const { top } = shown.firstElementChild.getBoundingClientRect();
  if (top < 0 || top > innerHeight * 0.8) shown.firstElementChild.scrollIntoView();
}

class Shown {
  constructor(record, related, versions, { path, words, changed }) {
    Object.assign(this, { record, related, versions, path, words, changed });
    this.space = el("div", { class: "acts" });
  }

  article() {
    const { record, related } = this;
    return el("article", { class: "card", "aria-label": `Record ${record.id}` },
      el("h2", {}, record.label ?? `A ${this.words.content[record.kind] ?? record.kind}`),
      el("p", { class: "text" }, record.text),
      this.facts(),
      this.group("Superseded by", related.superseded_by ? [related.superseded_by] : []),
      this.group("Supersedes", related.supersedes),
      this.group("Drawn from", related.sources, related.sources_known, related.sources_gone),
      this.group("Facts drawn from it", related.derived),
      this.history(),
      el("p", { class: "soft" }, this.recalls()),
      whyNoWrites() ? el("p", { class: "soft" }, whyNoWrites()) : null,
      el("div", { class: "row wrap" },
        whyNoWrites() ? null : [
          el("button", { type: "button", onclick: () => this.edit() }, "Edit"),
          el("button", { type: "button", onclick: () => this.expire() }, "Set expiry"),
          el("button", { type: "button", class: "danger", onclick: () => this.erase() }, "Erase"),
        ],
        el("button", { type: "button", onclick: () => fill("record-shown") }, "Close"),
      ),
      this.space,
    );
  }

  facts() {
    const tags = () => this.record.tags.map((tag) => el("span", { class: "tag" }, tag));
    const plain = (name) => (name.endsWith("_at") || name === "valid_until" ? minute(this.record[name]) : String(this.record[name]));
    const value = (name) => (name === "tags" ? tags() : plain(name));
    const known = FIELDS.filter((name) => ![null, undefined, ""].includes(this.record[name]) && this.record[name].length !== 0);
    return el("dl", { class: "pairs" }, known.map((name) => [el("dt", {}, named(name)), el("dd", {}, value(name))]));
  }

  group(head, records, known = records.length, gone = 0) {
    if (!known && !gone) return null;
    const further = known - records.length;
    return el("section", { "aria-label": head }, el("h3", {}, head),
      el("ul", { class: "related" }, records.map((one) => el("li", {},
        el("button", { type: "button", class: "plain", onclick: () => openRecord(one.id, this.words, this.changed) }, one.text.slice(0, 200)),
        el("span", { class: "soft" }, [" ", one.id, one.author, minute(one.created_at)].filter(Boolean).join(" · ")),
      ))),
      further > 0 ? el("p", { class: "soft" }, `and ${count(further, "further source")}`) : null,
      gone > 0 ? el("p", { class: "soft" }, `${count(gone, "source")} no longer there`) : null,
    );
  }

  history() {
    const versions = this.versions;
    if (!versions.length) return el("p", { class: "soft" }, "It was never changed.");
    return el("details", {}, el("summary", {}, count(versions.length, "earlier version")),
      el("ol", {}, versions.map((version) => el("li", {},
        el("p", { class: "soft" }, [minute(version.changed_at), version.action, version.actor && `by ${version.actor}`].filter(Boolean).join(" · ")),
        el("p", {}, el("del", {}, version.before.text)), el("p", {}, el("ins", {}, version.after.text)),
      ))),
    );
  }

  recalls() {
    const { times, last, since, counting } = this.related.recalled;
    const still = counting ? "" : " Retrievals of this service don't count: it has the store open for reading only.";
    const said = times ? `Recalled ${count(times, "time")} since ${minute(since)}, last at ${minute(last)}.` : `Not recalled since ${minute(since)}.`;
    return said + still;
  }

  edit() {
    const { record } = this;
    const form = el("form", {}, el("h3", { id: "edit-head" }, "Edit"),
      el("label", {}, "Text", el("textarea", { name: "text", rows: 5, required: true }, record.text)),
      el("div", { class: "fields" },
        el("label", {}, "Title", el("input", { name: "label", value: record.label })),
      ),
      this.tags(),
      el("div", { class: "row" }, el("button", { type: "submit" }, "Save"), this.cancel()),
    );
    // Compared with the form's own rendering of the record, line ends included: untouched fields aren't sent, so that they can't undo another writer's change.
    const read = () => {
      const given = new FormData(form);
      const kept = given.getAll("kept").map((at) => record.tags[at]);
      const added = given.get("added").split("\n").map((tag) => tag.trim()).filter(Boolean);
      return { text: given.get("text"), label: given.get("label").trim() || null, tags: [...new Set([...kept, ...added])] };
    };
    const before = read();
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const changed = Object.entries(read()).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name]));
      this.write(() => (changed.length ? patchJson(this.path, Object.fromEntries(changed)) : null));
    });
    this.ask(form);
  }

  /** Each tag has its own checkbox and can only be kept or removed, so that its characters never change. */
  tags() {
    const tick = (tag, at) => el("label", { class: "tick" }, el("input", { type: "checkbox", name: "kept", value: at, checked: true }), tag);
    return el("fieldset", {}, el("legend", {}, "Tags"),
      (this.record.tags ?? []).map(tick),
      el("label", {}, "New ones, one per line", el("textarea", { name: "added", rows: 2 })),
    );
  }

  expire() {
    const form = el("form", {}, el("h3", {}, "Set expiry"),
      el("label", {}, "Expires on this day (UTC); empty = never", el("input", { name: "day", type: "date", value: this.record.expires_at?.slice(0, 10) })),
      el("div", { class: "row" }, el("button", { type: "submit" }, "Set"), this.cancel()),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const day = new FormData(form).get("day");
      this.write(() => patchJson(this.path, { expires_at: day ? `${day}T00:00:00Z` : null }));
    });
    this.ask(form);
  }

  erase() {
    const derived = this.related.derived;
    const form = el("form", {}, el("h3", {}, "Erase permanently?"),
      el("p", {}, `The record is erased, with ${count(this.versions.length, "earlier version")}. This can't be undone.`),
      derived.length ? el("label", { class: "tick" }, el("input", { type: "checkbox", name: "derived" }), `Also ${count(derived.length, "fact")} drawn from it`) : null,
      el("div", { class: "row" }, el("button", { type: "submit", class: "danger" }, "Erase permanently"), this.cancel()),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const ids = [this.record.id, ...(new FormData(form).has("derived") ? derived.map((one) => one.id) : [])];
      this.write(() => deleteJson("api/memory/records", { ids }), `Erased ${count(ids.length, "record")}.`);
    });
    this.ask(form);
  }

  cancel() {
    return el("button", { type: "button", onclick: () => this.space.replaceChildren() }, "Cancel");
  }

  ask(form) {
    this.space.replaceChildren(form);
    form.querySelector("textarea, input, button").focus();
  }

  async write(work, gone = null) {
    try {
      await work();
    } catch (error) {
      this.space.querySelector(":scope > .problem")?.remove(); // that of the last try
      this.space.prepend(problemBox(error));
      return;
    }
    await this.changed();
    if (!gone) return openRecord(this.record.id, this.words, this.changed);
    fill("record-shown", el("p", { role: "status" }, gone));
    turnTo();
  }
}
