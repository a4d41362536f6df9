"""MobileNet-V3 after its paper: inverted residuals, squeeze-and-excitation, hard swish."""
from torch import nn

from zoo.spec import Spec, images

SIDE, CLASSES = 64, 7
# kernel, expanded channels, channels out, squeeze-and-excitation, activation, stride: "small" of the paper, thinned out
BLOCKS = [(3, 16, 16, True, nn.ReLU, 2), (3, 64, 24, False, nn.ReLU, 2), (3, 72, 24, False, nn.ReLU, 1),
          (5, 96, 40, True, nn.Hardswish, 2), (5, 120, 40, True, nn.Hardswish, 1), (5, 144, 48, True, nn.Hardswish, 1)]


def conv_norm(cin, cout, kernel, stride=1, groups=1, activation=None):
    layers = [nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(cout, eps=1e-3)]
    return nn.Sequential(*layers, *([activation()] if activation else []))


class SqueezeExcitation(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.scale = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, channels // 4, 1), nn.ReLU(),
                                   nn.Conv2d(channels // 4, channels, 1), nn.Hardsigmoid())

    def forward(self, x):
        return x * self.scale(x)


class Block(nn.Module):
    def __init__(self, cin, kernel, expanded, cout, squeeze, activation, stride):
        super().__init__()
        self.residual = stride == 1 and cin == cout
        self.layers = nn.Sequential(
            *([conv_norm(cin, expanded, 1, activation=activation)] if expanded != cin else []),
            conv_norm(expanded, expanded, kernel, stride, expanded, activation),
            *([SqueezeExcitation(expanded)] if squeeze else []), conv_norm(expanded, cout, 1))

    def forward(self, x):
        return x + self.layers(x) if self.residual else self.layers(x)


class MobileNetV3(nn.Module):
    def __init__(self):
        super().__init__()
        cin = 16
        layers = [conv_norm(3, cin, 3, 2, activation=nn.Hardswish)]
        for kernel, expanded, cout, squeeze, activation, stride in BLOCKS:
            layers.append(Block(cin, kernel, expanded, cout, squeeze, activation, stride))
            cin = cout
        layers.append(conv_norm(cin, 6 * cin, 1, activation=nn.Hardswish))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Linear(6 * cin, 128), nn.Hardswish(), nn.Dropout(0.0), nn.Linear(128, CLASSES))

    def forward(self, pixel_values):
        return self.classifier(self.features(pixel_values).mean((2, 3)))


SPECS = [Spec("mobilenet-v3", MobileNetV3, images(SIDE, CLASSES), batch=16, lr=0.05)]
