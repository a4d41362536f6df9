"""What the zoo needs to know of a model: how to make it, what to feed it and how to export it."""
import dataclasses
import typing

import numpy as np
from torch import nn


@dataclasses.dataclass
class Spec:
    name: str
    make: typing.Callable[[], nn.Module]  # its forward takes the inputs in order and returns the logits
    sample: typing.Callable[[np.random.Generator, int], dict]  # n samples: the inputs by name in order, and "target"
    batch: int = 4
    class_axis: int = -1  # of the logits
    optimizer: str = "sgd"
    # Such that the losses depend visibly on what the first layers learn (5e-3 or more between training all and the last layer
    # alone), and on rounding not at all (2e-4 or less when the first weights are disturbed by 1e-6).
    lr: float = 0.01
    weight_decay: float = 0.0
    opset: int = 17
    exporter: str = "torchscript"  # or dynamo
    training: bool = True  # exported in training mode, nothing folded
    dynamic: dict = dataclasses.field(default_factory=dict)  # axes beside the batch by input: {"input_ids": {1: "sequence"}}
    batch_is_symbolic: bool = True
    big: bool = False  # weights in a file of their own; imported and timed, not trained


class Logits(nn.Module):
    """A model of transformers as a function of named inputs, in order, to its logits alone."""

    def __init__(self, model, *names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs):
        return self.model(**dict(zip(self.names, inputs))).logits


def images(side, classes, channels=3):
    """A sampler of images whose brightness in one corner tells the class, so that there is something to learn."""

    def sample(rng, n):
        target = rng.integers(0, classes, n)
        pixels = rng.standard_normal((n, channels, side, side), dtype=np.float32)
        half = side // 2
        for corner, (y, x) in enumerate([(0, 0), (0, half), (half, 0), (half, half)]):
            pixels[:, corner % channels, y : y + half, x : x + half] += (target % 4 == corner)[:, None, None]
        return {"pixel_values": pixels, "target": target}

    return sample


def padded_text(vocab, length, classes):
    """A sampler of token sequences of different lengths, the rest masked; the first token tells the class."""

    def sample(rng, n):
        ids = rng.integers(1, vocab, (n, length))
        lengths = rng.integers(length // 2, length + 1, n)
        mask = np.arange(length) < lengths[:, None]
        return {"input_ids": np.where(mask, ids, 0), "attention_mask": mask.astype(np.int64), "target": ids[:, 0] % classes}

    return sample
