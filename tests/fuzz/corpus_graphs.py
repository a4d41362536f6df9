"""Files that parse but whose graphs cannot be imported; with each the name that the error must contain."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from corpus_base import FLOAT, INT64, head, ints, model, node, scalar, value, weight, with_head

HUGE = 2**40


def structure():
    """Names and edges that make no graph."""
    yield "cycle", with_head([node("Add", "x back", "a", name="first"), node("Relu", "a", "back"), node("Relu", "a", "h", name="last")]), "first_node"
    yield "cycle_of_one", with_head([node("Add", "x h", "h", name="ouroboros")]), "ouroboros_node"
    yield "duplicate_tensor", with_head([node("Relu", "x", "h"), node("Tanh", "x", "h", name="second")]), "second_node"
    yield "duplicate_output_of_node", with_head([node("Dropout", "x", "h h", name="twice")]), "twice_node"
    yield "duplicate_initializer", with_head([node("MatMul", "x twin", "h")], [weight("twin", 4, 4), weight("twin", 4, 4)]), "twin"
    made = with_head([node("Relu", "pixels", "h")], inputs={"pixels": ["batch", 4]})
    made.graph.input.append(value("pixels", ["batch", 4]))
    yield "duplicate_input", made, "pixels"
    yield "overwritten_weight", with_head([node("MatMul", "x w", "h"), node("Relu", "x", "w", name="thief")], [weight("w", 4, 4)]), "thief_node"
    yield "missing_input", with_head([node("Add", "x nowhere", "h", name="lost")]), "nowhere"
    yield "missing_output", model([node("Relu", "x", "h")], [], outputs={"logits": ["batch", 3]}), "logits"
    yield "no_outputs", model(*head("x"), outputs={}), "no_outputs"
    yield "no_nodes", model([], [], outputs={"x": ["batch", 4]}), "no_nodes"
    yield "too_few_inputs", with_head([node("Gemm", "x", "h", name="half")]), "half_node"
    yield "too_many_inputs", with_head([node("Relu", "x x x", "h", name="greedy")]), "greedy_node"
    yield "node_without_outputs", with_head([node("Relu", "x", "h"), node("Relu", "x", "", name="idle")]), ""
    yield "escapes_in_name", with_head([node("Add", "x nowhere", "h", name="red\x1b[31m\nsecond line")]), "nowhere"


def operators():
    """Ops, domains, versions and attributes that nobody knows."""
    yield "unknown_op", with_head([node("Frobnicate", "x", "h")]), "frobnicate_node"
    made = with_head([node("Relu", "x", "h", name="foreign", domain="com.example")])
    made.opset_import.append(helper.make_opsetid("com.example", 1))
    yield "unknown_domain", made, "foreign_node"
    yield "two_unknown", with_head([node("Frobnicate", "x", "f"), node("Xyzzy", "f", "h")]), "xyzzy_node"  # all are listed at once
    yield "empty_op", with_head([node("", "x", "h", name="nameless")]), "nameless_node"
    yield "opset_from_the_future", with_head([node("Relu", "x", "h")], opset=99), "99"
    yield "opset_too_old", with_head([node("Relu", "x", "h")], opset=6), "6"
    made = with_head([node("Relu", "x", "h")])
    del made.opset_import[:]
    yield "no_opset", made, "no_opset"
    yield "attribute_of_wrong_type", with_head([node("Softmax", "x", "h", name="soft", axis="last")]), "soft_node"
    yield "attribute_out_of_range", with_head([node("Softmax", "x", "h", name="soft", axis=7)]), "soft_node"
    yield "attribute_unknown_word", with_head([node("Resize", "x _ s", "h", name="zoom", mode="telepathic")], [numpy_helper.from_array(np.ones(2, np.float32), "s")]), "zoom_node"
    yield "big_string_attribute", with_head([node("Softmax", "x", "h", name="soft", axis="a" * 60_000)]), "soft_node"
    yield "string_tensor", with_head([node("Identity", "words", "w"), node("Relu", "x", "h")], [helper.make_tensor("words", TensorProto.STRING, [1], [b"a" * 1000])]), ""


def image(*nodes, weights=(), channels=2):
    return with_head([*nodes, node("GlobalAveragePool", "c", "p"), node("Flatten", "p", "h")], weights, inputs={"x": ["batch", channels, 8, 8]})


def convolutions():
    ok = [weight("w", 4, 2, 3, 3)]
    for name, attributes in {"zero_stride": {"strides": [0, 1]}, "negative_pads": {"pads": [-9, 0, -9, 0]}, "zero_dilation": {"dilations": [0, 0]},
                             "three_strides": {"strides": [1, 1, 1]}, "huge_pads": {"pads": [2**62] * 4}, "huge_stride": {"strides": [2**63 - 1] * 2},
                             "zero_groups": {"group": 0}, "uneven_groups": {"group": 3}, "other_kernel": {"kernel_shape": [5, 5]}}.items():
        fragment = "" if name == "huge_stride" else "bad_node"  # one column is left; to say so is as good as to refuse
        yield f"conv_{name}", image(node("Conv", "x w", "c", name="bad", **attributes), weights=ok), fragment
    yield "conv_kernel_too_large", image(node("Conv", "x w", "c", name="bad"), weights=[weight("w", 1, 2, 9, 9)]), "bad_node"
    yield "conv_other_channels", image(node("Conv", "x w", "c", name="bad"), weights=[weight("w", 4, 3, 3, 3)]), "bad_node"
    yield "conv_wrong_rank", image(node("Conv", "x w", "c", name="bad"), weights=[weight("w", 4, 2)]), "bad_node"
    yield "pool_empty_kernel", image(node("MaxPool", "x", "c", name="bad", kernel_shape=[0, 0])), "bad_node"


def shapes():
    """Ranks, sizes and types that do not go together."""
    yield "matmul_mismatch", with_head([node("MatMul", "x w", "h", name="bad")], [weight("w", 5, 4)]), "bad_node"
    yield "gemm_wrong_rank", with_head([node("Gemm", "x w", "h", name="bad")], [weight("w", 4, 4, 1)]), "bad_node"
    yield "add_mismatch", with_head([node("Add", "x w", "h", name="bad")], [weight("w", 3)]), "bad_node"
    yield "type_mismatch", with_head([node("Add", "x n", "h", name="bad")], [ints("n", 1, 2, 3, 4)]), "bad_node"
    yield "reshape_mismatch", with_head([node("Reshape", "x to", "h", name="bad")], [ints("to", 3, 5)]), "bad_node"
    yield "reshape_two_unknown", with_head([node("Reshape", "x to", "h", name="bad")], [ints("to", -1, -1)]), "bad_node"
    yield "reshape_overflow", with_head([node("Reshape", "x to", "h", name="bad")], [ints("to", 2**32, 2**32, -1)]), "bad_node"
    yield "transpose_perm", with_head([node("Transpose", "x", "h", name="bad", perm=[0, 0])]), "bad_node"
    yield "gather_out_of_range", with_head([node("Gather", "w at", "g", name="bad"), node("Add", "x g", "h")], [weight("w", 2, 4), scalar("at", 9, np.int64)]), "bad_node"
    yield "split_mismatch", with_head([node("Split", "x sizes", "h rest", name="bad", axis=1)], [ints("sizes", 3, 9)]), "bad_node"
    yield "concat_mismatch", with_head([node("Concat", "x w", "h", name="bad", axis=1)], [weight("w", 2, 3, 4)]), "bad_node"
    yield "lstm_other_hidden", with_head([node("Transpose", "x", "t", perm=[1, 0, 2]), node("LSTM", "t w r", "_ y_h", name="bad", hidden_size=5),
                                          node("Squeeze", "y_h zero1", "h")],
                                         [weight("w", 1, 16, 3), weight("r", 1, 16, 4), ints("zero1", 0)], inputs={"x": ["batch", 5, 3]}), "bad_node"
    yield "input_huge", with_head([node("Flatten", "pixels", "h")], inputs={"pixels": ["batch", HUGE, HUGE]}), "pixels"
    yield "input_negative", with_head([node("Relu", "pixels", "h")], inputs={"pixels": ["batch", -4]}), "pixels"
    made = with_head([node("Relu", "pixels", "h")], inputs={"pixels": ["batch", 4]})
    made.graph.input[0].ClearField("type")
    yield "input_without_type", made, "pixels"


def unfolded():
    """Values that would take more memory than there is: to plan for them is no mistake, to make them at the import is."""
    one = scalar("one", 1, np.float32)
    yield "constant_of_huge_shape", with_head([node("ConstantOfShape", "to", "c", name="bomb"), node("Add", "x c", "h")], [ints("to", HUGE, HUGE)]), "bomb_node"
    yield "constant_of_large_shape", with_head([node("ConstantOfShape", "to", "c", name="bomb"), node("ReduceMean", "c", "m", keepdims=0), node("Add", "x m", "h")], [ints("to", 2**36)]), ""
    yield "expand_huge", with_head([node("Expand", "one to", "c", name="bomb"), node("ReduceMean", "c", "m", keepdims=0), node("Add", "x m", "h")], [one, ints("to", 2**20, 2**20)]), ""
    yield "tile_huge", with_head([node("Tile", "v to", "c", name="bomb"), node("ReduceMean", "c", "m", keepdims=0), node("Add", "x m", "h")], [weight("v", 4), ints("to", HUGE)]), ""
    zero, step, many = scalar("zero", 0, np.int64), scalar("step", 1, np.int64), scalar("many", HUGE, np.int64)
    yield "range_huge", with_head([node("Range", "zero many step", "r", name="bomb"), node("ReduceMax", "r", "m", keepdims=0), node("Cast", "m", "f", to=FLOAT), node("Add", "x f", "h")], [zero, step, many]), "bomb_node"
    yield "range_zero_step", with_head([node("Range", "zero many zero", "r", name="bomb"), node("Add", "x r", "h")], [zero, many]), "bomb_node"
    yield "pad_huge", with_head([node("Pad", "v to", "c", name="bomb"), node("ReduceMean", "c", "m", keepdims=0), node("Add", "x m", "h")], [weight("v", 4), ints("to", HUGE, HUGE)]), ""


def subgraph(name, op):
    return helper.make_graph([node(op, "x", f"{name}_out", name=name)], name, [], [value(f"{name}_out", None)])


def control_flow():
    two = {"then_branch": subgraph("then", "Relu"), "else_branch": subgraph("else", "Tanh")}
    nodes = [node("ReduceSum", "x", "s", keepdims=0), node("Greater", "s zero", "yes"), node("If", "yes", "h", name="choice", **two)]
    yield "if_on_data", with_head(nodes, [scalar("zero", 0, np.float32)]), "choice_node"
    yes = scalar("yes", True, np.bool_)
    yield "if_without_else", with_head([node("If", "yes", "h", name="choice", then_branch=two["then_branch"])], [yes]), ""
    bad = helper.make_graph([node("Relu", "nowhere", "o")], "bad", [], [value("o", None)])
    yield "if_missing_input", with_head([node("If", "yes", "h", name="choice", then_branch=bad, else_branch=bad)], [yes]), "nowhere"
    body = helper.make_graph([node("Identity", "go", "go_on"), node("Add", "sum sum", "next")], "body",
                             [value("i", [], INT64), value("go", [], TensorProto.BOOL), value("sum", [])], [value("go_on", [], TensorProto.BOOL), value("next", [])])
    forever = [node("Loop", "trips yes start", "total", name="forever", body=body), node("Mul", "x total", "h")]
    yield "loop_for_ages", with_head(forever, [scalar("trips", 2**62, np.int64), yes, scalar("start", 0, np.float32)]), "forever_node"
    forever = [node("Loop", "_ yes start", "total", name="forever", body=body), node("Mul", "x total", "h")]
    yield "loop_without_end", with_head(forever, [yes, scalar("start", 0, np.float32)]), "forever_node"
    grow = helper.make_graph([node("Identity", "go", "go_on"), node("Concat", "sum sum", "next", axis=0)], "grow",
                             [value("i", [], INT64), value("go", [], TensorProto.BOOL), value("sum", [None])], [value("go_on", [], TensorProto.BOOL), value("next", [None])])
    nodes = [node("Loop", "trips yes start", "total", name="doubling", body=grow), node("ReduceMean", "total", "m", keepdims=0), node("Mul", "x m", "h")]
    yield "loop_doubling", with_head(nodes, [scalar("trips", 60, np.int64), yes, weight("start", 1)]), "doubling_node"


GROUPS = (structure, operators, convolutions, shapes, unfolded, control_flow)
CASES = {name: (made, fragment) for group in GROUPS for name, made, fragment in group()}
