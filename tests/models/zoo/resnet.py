"""ResNet with basic blocks (as in 18) and with bottlenecks (as in 50)."""
from transformers import ResNetConfig, ResNetForImageClassification

from zoo.spec import Logits, Spec, images

CLASSES = 7


def resnet(layer_type, **size):
    config = ResNetConfig(layer_type=layer_type, num_labels=CLASSES, embedding_size=32, **size)
    return Logits(ResNetForImageClassification(config), "pixel_values")


def resnet18():
    return resnet("basic", hidden_sizes=[32, 64, 128, 256], depths=[2, 2, 2, 2])


def resnet50():
    return resnet("bottleneck", hidden_sizes=[64, 128, 256, 512], depths=[3, 4, 6, 3])


SPECS = [
    Spec("resnet18", resnet18, images(64, CLASSES), batch=8),
    Spec("resnet50", resnet50, images(64, CLASSES), batch=8),
    Spec("resnet18-folded", resnet18, images(64, CLASSES), batch=8, training=False),
]
