"""ConvNeXt: depthwise 7x7, layer norm over channels, pointwise layers in channels-last order, a learnt scale."""
from transformers import ConvNextConfig, ConvNextForImageClassification

from zoo.spec import Logits, Spec, images

SIDE, CLASSES = 64, 7


def convnext():
    config = ConvNextConfig(hidden_sizes=[32, 64, 96, 128], depths=[1, 1, 2, 1], image_size=SIDE, num_labels=CLASSES,
                            drop_path_rate=0.0, layer_scale_init_value=0.5)
    return Logits(ConvNextForImageClassification(config), "pixel_values")


SPECS = [
    Spec("convnext", convnext, images(SIDE, CLASSES)),
    Spec("convnext-dynamo", convnext, images(SIDE, CLASSES), exporter="dynamo", opset=18),
]
