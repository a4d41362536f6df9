"""ViT: patches by convolution, a class token, learnt positions."""
from transformers import ViTConfig, ViTForImageClassification

from zoo.spec import Logits, Spec, images

SIDE, CLASSES = 32, 7


def vit(attention):
    config = ViTConfig(hidden_size=128, num_hidden_layers=3, num_attention_heads=4, intermediate_size=256, image_size=SIDE,
                       patch_size=8, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=CLASSES,
                       attn_implementation=attention)
    return Logits(ViTForImageClassification(config), "pixel_values")


SPECS = [
    Spec("vit", lambda: vit("eager"), images(SIDE, CLASSES)),
    Spec("vit-opset20", lambda: vit("sdpa"), images(SIDE, CLASSES), opset=20, training=False),  # Gelu is one node
]
