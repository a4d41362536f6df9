"""EfficientNet: inverted residuals with squeeze-and-excitation and SiLU; pads unevenly before a stride."""
from torch import nn
from transformers import EfficientNetConfig, EfficientNetForImageClassification

from zoo.spec import Logits, Spec, images

SIDE, CLASSES = 64, 7


def efficientnet():
    config = EfficientNetConfig(image_size=SIDE, width_coefficient=0.5, depth_coefficient=0.5, hidden_dim=640, num_labels=CLASSES,
                                dropout_rate=0.0, drop_connect_rate=0.0, in_channels=[32, 16, 24, 40],
                                out_channels=[16, 24, 40, 80], kernel_sizes=[3, 3, 5, 3], strides=[1, 2, 2, 2],
                                num_block_repeats=[1, 2, 2, 3], expand_ratios=[1, 6, 6, 6], depthwise_padding=[])
    model = EfficientNetForImageClassification(config)
    for layer in model.modules():  # as they come, scales near zero let nothing through
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.ones_(layer.weight)
    return Logits(model, "pixel_values")


SPECS = [Spec("efficientnet", efficientnet, images(SIDE, CLASSES), batch=8)]
