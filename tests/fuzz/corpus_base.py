"""The small graph that the cases of the corpus start from: x [batch, 4] to logits [batch, 3]."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
RNG = np.random.default_rng(7)


def weight(name, *shape):
    return numpy_helper.from_array(RNG.standard_normal(shape).astype(np.float32) / 4, name)


def ints(name, *values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def scalar(name, value, dtype):
    return numpy_helper.from_array(np.array(value, dtype), name)


def node(op, inputs, outputs, name=None, **attributes):
    """Inputs and outputs as words in a string; `_` stands for one left out."""
    words = [["" if w == "_" else w for w in text.split()] for text in (inputs, outputs)]
    return helper.make_node(op, *words, name=f"{name or op.lower()}_node", **attributes)


def model(nodes, weights, inputs=None, outputs=None, opset=17, **more):
    inputs = {"x": ["batch", 4]} if inputs is None else inputs
    outputs = {"logits": ["batch", 3]} if outputs is None else outputs
    graph = helper.make_graph(nodes, "corpus", [value(n, s) for n, s in inputs.items()], [value(n, s) for n, s in outputs.items()],
                              weights, value_info=more.pop("value_info", []))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, producer_name="corpus", **more)


def value(name, shape, dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def head(x="h", width=4):
    """The last layer, so that a case need only say how it gets from x to h: a node and its weights."""
    return [node("Gemm", f"{x} head_w head_b", "logits", name="head")], [weight("head_w", width, 3), weight("head_b", 3)]


def with_head(nodes, weights=(), width=4, **more):
    """A model of the nodes (x to h) and the head."""
    head_nodes, head_weights = head(width=width)
    return model([*nodes, *head_nodes], [*weights, *head_weights], **more)
