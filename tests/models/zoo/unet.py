"""A U-Net: down by pooling, up once by transposed convolution and once by interpolation, with skips; a class a pixel."""
import numpy as np
import torch
from torch import nn

from zoo.spec import Spec

SIDE, CLASSES = 32, 5


def double(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(),
                         nn.Conv2d(cout, cout, 3, padding=1), nn.GroupNorm(4, cout), nn.LeakyReLU(0.1))


class UNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.enter, self.middle, self.bottom = double(3, width), double(width, 2 * width), double(2 * width, 4 * width)
        self.pool = nn.MaxPool2d(2)
        self.up1 = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.join1 = double(4 * width, 2 * width)
        self.up2 = nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(2 * width, width, 1))
        self.join2 = double(2 * width, width)
        self.head = nn.Conv2d(width, CLASSES, 1)

    def forward(self, pixel_values):
        a = self.enter(pixel_values)
        b = self.middle(self.pool(a))
        c = self.bottom(self.pool(b))
        b = self.join1(torch.cat([b, self.up1(c)], 1))
        a = self.join2(torch.cat([a, self.up2(b)], 1))
        return self.head(a)


def blobs(rng, n):
    """Noise in which the sum of two channels, smoothed over 4x4 pixels, tells the class of a pixel."""
    pixels = rng.standard_normal((n, 3, SIDE, SIDE), dtype=np.float32)
    block = rng.integers(0, CLASSES, (n, SIDE // 4, SIDE // 4))
    target = block.repeat(4, 1).repeat(4, 2)
    pixels[:, 0] += target
    pixels[:, 1] -= target
    return {"pixel_values": pixels, "target": target}


SPECS = [Spec("unet", UNet, blobs, class_axis=1)]
