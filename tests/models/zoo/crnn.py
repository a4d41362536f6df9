"""A CRNN as it reads text lines: convolutions, then the columns of the image as a sequence for bidirectional LSTMs or GRUs."""
import numpy as np
from torch import nn

from zoo.spec import Spec

HEIGHT, WIDTH, CLASSES = 16, 48, 11


class Crnn(nn.Module):
    def __init__(self, cell, norm, hidden=48):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1, bias=not norm), *([nn.BatchNorm2d(32)] if norm else []), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 48, 3, padding=1), nn.ReLU(), nn.MaxPool2d((2, 1)))
        self.rnn = cell(48 * HEIGHT // 8, hidden, num_layers=2, bidirectional=True)
        self.head = nn.Linear(2 * hidden, CLASSES)

    def forward(self, image):
        x = self.features(image)  # [batch, channels, height, columns]
        x = x.flatten(1, 2).permute(2, 0, 1)  # [columns, batch, features]
        x, _ = self.rnn(x)
        return self.head(x).transpose(0, 1)  # [batch, columns, classes]


def lines(rng, n):
    """One class a column of the features, drawn as a brightness of its own over noise."""
    target = rng.integers(0, CLASSES, (n, WIDTH // 4))
    image = rng.standard_normal((n, 1, HEIGHT, WIDTH), dtype=np.float32)
    image += np.repeat(target, 4, axis=1)[:, None, None, :].astype(np.float32) / 4
    return {"image": image, "target": target}


SPECS = [
    Spec("crnn", lambda: Crnn(nn.LSTM, norm=True), lines, batch=8, lr=0.5),  # gates are put in ONNX's order by nodes
    Spec("crnn-folded", lambda: Crnn(nn.LSTM, norm=False), lines, batch=8, lr=0.5, training=False),  # and here beforehand
    Spec("crnn-gru", lambda: Crnn(nn.GRU, norm=False), lines, batch=8, lr=0.5, training=False, batch_is_symbolic=False),
]
