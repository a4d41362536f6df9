"""Files that are damaged, and tensors whose data are elsewhere or not what their header says; with each what the error contains."""
import numpy as np
from onnx import TensorProto, numpy_helper

from corpus_base import node, weight, with_head
from corpus_valid import mlp

DATA, OUTSIDE = "weights.bin", "outside.bin"  # 64 bytes beside the models, and a link to a file that is not beside them
WEIGHT = "kernel_w"
WIRE_BYTES = 2  # protobuf's wire type of length-delimited fields


def write_data(folder):
    (folder / DATA).write_bytes((np.arange(16, dtype=np.float32) / 16).tobytes())
    (folder / OUTSIDE).symlink_to("../make_corpus.py")


def with_weight(change):
    """x times a 4x4 weight, after `change` has had its way with the weight's tensor."""
    tensor = weight(WEIGHT, 4, 4)
    change(tensor)
    return with_head([node("MatMul", f"x {WEIGHT}", "h")], [tensor])


def external(**entries):
    def change(tensor):
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, text in entries.items():
            tensor.external_data.add(key=key, value=str(text))

    return with_weight(change)


def external_data():
    yield "valid_external", external(location=DATA, offset=0, length=64), None
    yield "valid_external_bare", external(location=DATA), None
    for name, entries in {
            "parent": {"location": "../make_corpus.py"}, "hidden_parent": {"location": "x/../../make_corpus.py"},
            "absolute": {"location": "/etc/hostname"}, "link": {"location": OUTSIDE}, "folder": {"location": "."}, "device": {"location": "/dev/zero"},
            "missing": {"location": "nothing-here.bin"}, "empty": {"location": ""}, "without_location": {"offset": 0}, "nul": {"location": DATA + "\0.txt"},
            "past_end": {"location": DATA, "offset": 32, "length": 64}, "offset_past_end": {"location": DATA, "offset": 4096},
            "negative_offset": {"location": DATA, "offset": -64, "length": 64}, "negative_length": {"location": DATA, "offset": 0, "length": -1},
            "overflow": {"location": DATA, "offset": 2**63 - 8, "length": 64}, "offset_no_number": {"location": DATA, "offset": "first", "length": 64},
            "offset_too_long": {"location": DATA, "offset": "9" * 40, "length": 64}, "other_length": {"location": DATA, "offset": 0, "length": 60},
            "long_location": {"location": "a" * 5000}}.items():
        yield f"external_{name}", external(**entries), WEIGHT


def set_dims(*dims):
    def change(tensor):
        del tensor.dims[:]
        tensor.dims.extend(dims)

    return change


def cut(tensor):
    tensor.raw_data = tensor.raw_data[:-3]


def floats_too_few(tensor):
    tensor.ClearField("raw_data")
    tensor.float_data.extend([1.0] * 15)


def data_type(number):
    def change(tensor):
        tensor.data_type = number

    return change


def tensors():
    yield "tensor_overflow", with_weight(set_dims(2**32, 2**32)), WEIGHT
    yield "tensor_overflow_to_64", with_weight(set_dims(2**60 + 4, 4)), WEIGHT  # as bytes 2^64 + 64: 64 is what there is
    yield "tensor_large", with_weight(set_dims(2**31, 4)), WEIGHT
    yield "tensor_negative", with_weight(set_dims(-4, -4)), WEIGHT  # the product would be right
    yield "tensor_empty", with_weight(set_dims(4, 0)), WEIGHT
    yield "tensor_many_dims", with_weight(set_dims(*[1] * 300)), WEIGHT
    yield "tensor_raw_too_short", with_weight(cut), WEIGHT
    yield "tensor_floats_too_few", with_weight(floats_too_few), WEIGHT
    yield "tensor_no_data", with_weight(lambda t: t.ClearField("raw_data")), WEIGHT
    yield "tensor_type_undefined", with_weight(data_type(0)), WEIGHT
    yield "tensor_type_unknown", with_weight(data_type(99)), WEIGHT
    yield "tensor_nameless", with_weight(lambda t: t.ClearField("name")), "tensor_nameless"
    yield "tensor_raw_and_floats", with_weight(lambda t: t.float_data.extend([1.0] * 16)), ""
    complex_weight = numpy_helper.from_array(np.ones((4, 4), np.complex64), WEIGHT)
    yield "tensor_complex", with_head([node("MatMul", f"x {WEIGHT}", "h")], [complex_weight]), WEIGHT


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out) + bytes([number])


def field(number, content):
    return varint(number << 3 | WIRE_BYTES) + varint(len(content)) + content


def nested(depth):
    """A graph in an attribute of a node of a graph, and so on: deeper than a parser may follow."""
    graph = field(2, b"deepest")
    for _ in range(depth):
        attribute = field(1, b"then_branch") + field(6, graph) + varint(20 << 3) + varint(5)
        graph = field(1, field(4, b"If") + field(5, attribute))
    return field(7, graph)


def damaged():
    whole = mlp().SerializeToString(deterministic=True)
    yield "file_empty", b"", "file_empty"
    yield "file_text", b"This is no model but a line of text.\n", "file_text"
    yield "file_zeros", bytes(256), "file_zeros"
    yield "file_cut_in_half", whole[: len(whole) // 2], "file_cut_in_half"
    yield "file_cut_by_one", whole[:-1], "file_cut_by_one"
    yield "file_cut_in_number", whole[:1] + b"\xff", "file_cut_in_number"
    yield "file_length_lies", field(7, b"")[:1] + varint(2**31 - 1) + whole[:64], "file_length_lies"
    yield "file_length_overflows", field(7, b"")[:1] + varint(2**63) + whole[:64], "file_length_overflows"
    yield "file_nested", nested(1000), "file_nested"
    yield "file_not_utf8", whole.replace(b"gemm_node", b"g\xff\xfem\xc0node", 1), ""


GROUPS = (external_data, tensors, damaged)
CASES = {name: (made, fragment) for group in GROUPS for name, made, fragment in group()}
