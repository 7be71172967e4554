// The permissions of the key, from the overview of the memory: actions that it doesn't allow are hidden, and the page says why.

import { byId } from "./dom.js";

let refusal = null;

/** Why nothing may be written; null where it may. */
export const whyNoWrites = () => refusal;

/** Note the caller from an overview; without one, everything is offered, and the service refuses what isn't allowed. */
export function noteCaller(caller) {
  refusal = caller ? refused(caller) : null;
  byId("add-one").hidden = refusal !== null;
  byId("add-refused").hidden = refusal === null;
  byId("add-refused").textContent = refusal ?? "";
}

function refused({ tenant, role, read_only: readOnly }) {
  if (readOnly) return "The service has opened this memory read-only: nothing can be added, changed or erased here.";
  if (role !== "read") return null;
  return `This API key may only read the memory of ${tenant}: to add, change or erase, use a key with the role write.`;
}
