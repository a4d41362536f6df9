"""Models that must import and train."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from corpus_base import FLOAT, INT64, ints, model, node, scalar, value, weight, with_head


def mlp():
    return with_head([node("Gemm", "x w b", "g", transB=1), node("Relu", "g", "h")], [weight("w", 4, 4), weight("b", 4)])


def conv():
    nodes = [node("Conv", "x w", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
             node("BatchNormalization", "c scale bias mean var", "n", epsilon=1e-3), node("Relu", "n", "r"),
             node("GlobalAveragePool", "r", "p"), node("Flatten", "p", "h")]
    weights = [weight("w", 4, 2, 3, 3), weight("scale", 4), weight("bias", 4), weight("mean", 4)]
    return with_head(nodes, [*weights, numpy_helper.from_array(np.ones(4, np.float32), "var")], inputs={"x": ["batch", 2, 8, 8]})


def shape_arithmetic():
    """Reshape to [batch, 2, 2] by way of Shape, Gather and Concat, softmax over it, and back."""
    nodes = [node("Shape", "x", "shape"), node("Gather", "shape zero", "n", axis=0), node("Unsqueeze", "n zero1", "n1"),
             node("Concat", "n1 two two", "to", axis=0), node("Reshape", "x to", "y"), node("Softmax", "y", "s", axis=-1),
             node("MatMul", "s y", "m"), node("Reshape", "m shape", "h", name="back")]
    return with_head(nodes, [scalar("zero", 0, np.int64), ints("zero1", 0), ints("two", 2)])


def lstm():
    nodes = [node("Transpose", "x", "t", perm=[1, 0, 2]),
             node("LSTM", "t w r b", "_ y_h", hidden_size=4, direction="forward"), node("Squeeze", "y_h zero1", "h")]
    weights = [weight("w", 1, 16, 3), weight("r", 1, 16, 4), weight("b", 1, 32), ints("zero1", 0)]
    return with_head(nodes, weights, inputs={"x": ["batch", 5, 3]})


def branch(name, op):
    return helper.make_graph([node(op, "x", f"{name}_out", name=name)], name, [], [value(f"{name}_out", None)])


def if_constant():
    choice = node("If", "yes", "h", name="choice", then_branch=branch("then", "Relu"), else_branch=branch("else", "Tanh"))
    return with_head([choice], [scalar("yes", True, np.bool_)])


def nested_ifs(depth=20):
    inner = branch("deepest", "Relu")
    for level in range(depth):
        choice = node("If", "yes", f"out{level}", name=f"choice{level}", then_branch=inner, else_branch=branch(f"else{level}", "Tanh"))
        inner = helper.make_graph([choice], f"level{level}", [], [value(f"out{level}", None)])
    return with_head([node("If", "yes", "h", then_branch=inner, else_branch=branch("else", "Tanh"))], [scalar("yes", True, np.bool_)])


def loop_constant():
    """Counts to three with constants alone; the sum is an axis-free factor of x."""
    body = helper.make_graph([node("Identity", "go", "go_on"), node("Add", "sum one", "sum_next")], "body",
                             [value("i", [], INT64), value("go", [], TensorProto.BOOL), value("sum", [])],
                             [value("go_on", [], TensorProto.BOOL), value("sum_next", [])])
    nodes = [node("Loop", "three yes start", "total", name="count", body=body), node("Mul", "x total", "h")]
    return with_head(nodes, [scalar("three", 3, np.int64), scalar("yes", True, np.bool_), scalar("start", 0, np.float32), scalar("one", 1, np.float32)])


def left_out_inputs():
    return with_head([node("Clip", "x _ top", "c"), node("Dropout", "c", "h _")], [scalar("top", 2, np.float32)])


def numbers_not_raw():
    """Weights in float_data and int64_data, an initialiser that nobody uses, a described tensor, documentation."""
    floats = helper.make_tensor("w", FLOAT, [4, 4], np.eye(4, dtype=np.float32).flatten())
    made = with_head([node("MatMul", "x w", "m"), node("Reshape", "m to", "h")],
                     [floats, helper.make_tensor("to", INT64, [2], [-1, 4]), weight("unused", 3)], value_info=[value("m", ["batch", 4])],
                     doc_string="documentation")
    helper.set_model_props(made, {"author": "corpus"})
    return made


def long_chain(count=1200):
    """Deep, so that whatever walks the graph by recursion shows."""
    nodes = [helper.make_node("Neg", [f"t{i}" if i else "x"], [f"t{i + 1}"]) for i in range(count)]
    return with_head([*nodes, node("Identity", f"t{count}", "h")])




def two_inputs():
    nodes = [node("Gather", "table ids", "e"), node("ReduceMean", "e", "r", axes=[1], keepdims=0), node("Add", "r x", "h")]
    made = with_head(nodes, [weight("table", 10, 4)])
    made.graph.input.append(value("ids", ["batch", 6], INT64))
    return made


CASES = {
    "valid_mlp": (mlp(), None),
    "valid_conv": (conv(), None),
    "valid_shape_arithmetic": (shape_arithmetic(), None),
    "valid_lstm": (lstm(), None),
    "valid_if": (if_constant(), None),
    "valid_nested_ifs": (nested_ifs(), None),
    "valid_loop": (loop_constant(), None),
    "valid_left_out_inputs": (left_out_inputs(), None),
    "valid_numbers_not_raw": (numbers_not_raw(), None),
    "valid_long_chain": (long_chain(), None),
    "valid_two_inputs": (two_inputs(), None),
    "valid_opset_13": (model([node("MatMul", "x w", "logits")], [weight("w", 4, 3)], opset=13), None),
    "valid_opset_21": (model([node("MatMul", "x w", "logits")], [weight("w", 4, 3)], opset=21), None),
}
