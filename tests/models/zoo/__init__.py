"""The models that are exported from PyTorch, by name; one file an architecture family."""
from zoo import bert, convnext, crnn, efficientnet, gpt2, mobilenet, resnet, t5, unet, vit
from zoo.spec import Logits, Spec  # noqa: F401

FAMILIES = (bert, gpt2, t5, vit, resnet, mobilenet, convnext, efficientnet, unet, crnn)
SPECS = {spec.name: spec for family in FAMILIES for spec in family.SPECS}
