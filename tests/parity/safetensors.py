"""A safetensors reader and writer, standard library only: {name: (dtype, shape, bytes)}, float32 is "F32"."""
import json
import os
import struct

ITEM_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}


def write(path, tensors):
    header, offset = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data starts at a multiple of 8 bytes
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)))
        f.write(text)
        for _, _, data in tensors.values():
            f.write(data)


def read(path):
    with open(path, "rb") as f:
        head = f.read(8)
        if len(head) != 8:
            raise ValueError(f"{path}: shorter than a safetensors header")
        (size,) = struct.unpack("<Q", head)
        if size > os.path.getsize(path) - 8:
            raise ValueError(f"{path}: header of {size} bytes is longer than the file")
        header = json.loads(f.read(size))
        data = f.read()
    tensors = {}
    for name, t in header.items():
        if name == "__metadata__":
            continue
        begin, end = t["data_offsets"]
        items = 1
        for d in t["shape"]:
            items *= d
        if not 0 <= begin <= end <= len(data) or end - begin != items * ITEM_BYTES[t["dtype"]]:
            raise ValueError(f"{path}: tensor {name}: offsets {begin}..{end} do not fit its shape or the file")
        tensors[name] = (t["dtype"], tuple(t["shape"]), data[begin:end])
    return tensors
