"""The graph of the reader inside the embedder's file: four layers of six, multiplied in 8-bit integers.

The file multiplies by numbers that onnxruntime makes of the stored integers when it loads it. Here each multiplication
is one of integers, with the inputs of the moment rounded to 8 bits (DynamicQuantizeLinear, MatMulInteger): half the
time for what a reader needs. The new nodes stand where the layers stood that are left out, so that nothing moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx import ModelProto, NodeProto, TensorProto, helper, load_from_string
from vectors.make_lookup import padded, written

Change = tuple[int, bytes]


def cut_graph(model: bytes, layers: int) -> list[Change]:
    """Return the places in `model` and the bytes to put there, so that it ends after `layers` layers."""
    graph = load_from_string(model)
    nodes = list(graph.graph.node)
    end = next(at for at, node in enumerate(nodes) if list(node.output) == [f"layer_norm_{2 * layers}"]) + 1
    multiplied = list(_multiplications(graph, nodes[:end]))
    last = helper.make_node("Identity", list(nodes[end - 1].output), list(nodes[-1].output))
    old = written(nodes[end:])
    changes = [(model.index(old), padded([*_in_integers(multiplied), last], len(old)))]
    for node in multiplied:
        before = written([node])
        node.output[0] = f"-{node.output[0][1:]}"  # nobody asks for it any more
        changes.append((model.index(before), written([node])))
    return changes


def _multiplications(model: ModelProto, nodes: Sequence[NodeProto]) -> Iterator[NodeProto]:
    """Yield the nodes that multiply by a matrix that is stored in integers."""
    stored = {tensor.name for tensor in model.graph.initializer}
    for node in nodes:
        if node.op_type == "MatMul" and f"{node.input[1]}_q" in stored:
            yield node


def _in_integers(nodes: Sequence[NodeProto]) -> Iterator[NodeProto]:
    """Yield the nodes that give what `nodes` give; inputs that several of them share are rounded once."""
    rounded: dict[str, int] = {}
    for node in nodes:
        given, matrix = node.input
        if given not in rounded:
            at = rounded[given] = len(rounded)
            yield helper.make_node("DynamicQuantizeLinear", [given], [f"q{at}", f"s{at}", f"z{at}"])
        at, name = rounded[given], node.output[0]
        yield helper.make_node("MatMulInteger", [f"q{at}", f"{matrix}_q", f"z{at}"], [f"i{name}"])
        yield helper.make_node("Cast", [f"i{name}"], [f"f{name}"], to=TensorProto.FLOAT)
        yield helper.make_node("Mul", [f"s{at}", f"{matrix}_scale"], [f"m{name}"])
        yield helper.make_node("Mul", [f"f{name}", f"m{name}"], [name])
