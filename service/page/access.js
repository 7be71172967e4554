// What the key may do here, as the overview of the memory says: what it may not isn't offered, and the page says why.

import { byId } from "./dom.js";

let refusal = null;

/** Why nothing may be written; null where it may. */
export const whyNoWrites = () => refusal;

/** Note what an overview says of the caller; without one everything is offered, and the service says what it refuses. */
export function noteCaller(caller) {
  refusal = caller ? refused(caller) : null;
  byId("add-one").hidden = refusal !== null;
  byId("add-refused").hidden = refusal === null;
  byId("add-refused").textContent = refusal ?? "";
}

function refused({ tenant, role, read_only: readOnly }) {
  if (readOnly) return "The service has opened this memory for reading only: nothing can be added, changed or erased here.";
  if (role !== "read") return null;
  return `This API key may only read the memory of ${tenant}: adding, changing and erasing need one with the role write.`;
}
