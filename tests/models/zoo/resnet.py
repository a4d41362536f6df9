"""ResNet with basic blocks (as in 18) and with bottlenecks (as in 50)."""
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval
from transformers import ResNetConfig, ResNetForImageClassification
from transformers.models.resnet.modeling_resnet import ResNetBasicLayer, ResNetBottleNeckLayer

from zoo.spec import Logits, Spec, images

CLASSES = 7


def resnet(layer_type, **size):
    config = ResNetConfig(layer_type=layer_type, num_labels=CLASSES, embedding_size=32, **size)
    model = ResNetForImageClassification(config)
    for block in model.modules():
        if isinstance(block, (ResNetBasicLayer, ResNetBottleNeckLayer)):
            nn.init.constant_(block.layer[-1].normalization.weight, 0.1)  # mostly a chain of skips at first: well conditioned
    return Logits(model, "pixel_values")


def resnet18():
    return resnet("basic", hidden_sizes=[32, 64, 128, 256], depths=[2, 2, 2, 2])


def resnet50():
    return resnet("bottleneck", hidden_sizes=[64, 128, 256, 512], depths=[2, 3, 3, 2])


def folded():
    """As it is exported for inference: each batch norm has become part of the convolution before it."""
    model = resnet18().eval()
    for layer in model.modules():
        if isinstance(getattr(layer, "normalization", None), nn.BatchNorm2d):
            layer.convolution = fuse_conv_bn_eval(layer.convolution, layer.normalization)
            layer.normalization = nn.Identity()
    return model.requires_grad_(True)  # the new biases too


SPECS = [
    Spec("resnet18", resnet18, images(64, CLASSES), batch=8, lr=0.003),
    Spec("resnet50", resnet50, images(64, CLASSES), batch=16, lr=0.002),
    Spec("resnet18-folded", folded, images(64, CLASSES), batch=8, training=False),
]
