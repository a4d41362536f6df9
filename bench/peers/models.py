"""The built-in models in plain PyTorch: same architectures and same parameter names as Neap's.

Every model maps (x, y) to the mean cross-entropy. Images come as NCHW, tokens as int64 [batch, length].
"""
import torch
from torch import nn
from torch.nn import functional as F


class MLP(nn.Module):
    def __init__(self, inputs=784, classes=10):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(inputs, 256), nn.Linear(256, 128), nn.Linear(128, classes)

    def forward(self, x, y):
        x = F.relu(self.fc1(x.flatten(1)))
        return F.cross_entropy(self.fc3(F.relu(self.fc2(x))), y)


class CNN(nn.Module):
    def __init__(self, dropout=0.0, classes=10):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32)
        self.conv2, self.bn2 = nn.Conv2d(32, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64)
        self.fc1, self.drop, self.fc2 = nn.Linear(3136, 128), nn.Dropout(dropout), nn.Linear(128, classes)

    def forward(self, x, y):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        x = x.permute(0, 2, 3, 1).flatten(1)  # Neap flattens channels-last: (H, W, C)
        return F.cross_entropy(self.fc2(self.drop(F.relu(self.fc1(x)))), y)


def _shortcut(cin, cout, stride):
    """1x1 convolution and batch norm where the shape changes; parameters down.0 and down.1."""
    if stride == 1 and cin == cout:
        return None
    return nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, cin, width, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(cin, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.down = _shortcut(cin, width, stride)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        return F.relu(y + (self.down(x) if self.down else x), inplace=True)


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, cin, width, stride):
        super().__init__()
        cout = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(cin, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, cout, 1, bias=False), nn.BatchNorm2d(cout)
        self.down = _shortcut(cin, cout, stride)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = F.relu(self.bn2(self.conv2(y)), inplace=True)
        y = self.bn3(self.conv3(y))
        return F.relu(y + (self.down(x) if self.down else x), inplace=True)


class ResNet(nn.Module):
    """Parameters: conv1, bn1, layer{1..}.{i}.{conv,bn,down}, fc; torchvision calls `down` downsample."""

    def __init__(self, block, widths, depths, imagenet_stem=False, classes=10):
        super().__init__()
        stem = widths[0]
        conv = (7, 2, 3) if imagenet_stem else (3, 1, 1)
        self.conv1, self.bn1 = nn.Conv2d(3, stem, *conv, bias=False), nn.BatchNorm2d(stem)
        self.pool = nn.MaxPool2d(3, 2, 1) if imagenet_stem else nn.Identity()
        cin = stem
        self.stages = len(widths)
        for s, (width, depth) in enumerate(zip(widths, depths)):
            blocks = []
            for i in range(depth):
                blocks.append(block(cin, width, 2 if s > 0 and i == 0 else 1))
                cin = width * block.expansion
            setattr(self, f"layer{s + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(cin, classes)

    def forward(self, x, y):
        x = self.pool(F.relu(self.bn1(self.conv1(x)), inplace=True))
        for s in range(self.stages):
            x = getattr(self, f"layer{s + 1}")(x)
        return F.cross_entropy(self.fc(x.mean((2, 3))), y)


def _attention(qkv, heads, causal):
    """qkv [B, T, 3*D] in the order q, k, v; each of them heads x (D/heads)."""
    b, t, d3 = qkv.shape
    q, k, v = qkv.view(b, t, 3, heads, d3 // 3 // heads).permute(2, 0, 3, 1, 4)
    a = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return a.transpose(1, 2).reshape(b, t, d3 // 3)


class TransformerBlock(nn.Module):
    def __init__(self, d, heads, ff, eps=1e-5):
        super().__init__()
        self.heads = heads
        self.ln1, self.qkv, self.proj = nn.LayerNorm(d, eps), nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.ln2, self.fc1, self.fc2 = nn.LayerNorm(d, eps), nn.Linear(d, ff), nn.Linear(ff, d)


class GPTBlock(TransformerBlock):
    """Pre-norm, causal, tanh gelu."""

    def forward(self, x):
        x = x + self.proj(_attention(self.qkv(self.ln1(x)), self.heads, True))
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x)), approximate="tanh"))


class BERTBlock(TransformerBlock):
    """Post-norm, bidirectional, erf gelu."""

    def forward(self, x):
        x = self.ln1(x + self.proj(_attention(self.qkv(x), self.heads, False)))
        return self.ln2(x + self.fc2(F.gelu(self.fc1(x))))


class GPT(nn.Module):
    def __init__(self, vocab=256, d=384, layers=6, heads=6, t=256):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(t, d)
        self.blocks = nn.ModuleList(GPTBlock(d, heads, 4 * d) for _ in range(layers))
        self.lnf = nn.LayerNorm(d)
        for p in (self.wte.weight, self.wpe.weight):
            nn.init.normal_(p, std=0.02)

    def forward(self, x, y):
        h = self.wte(x) + self.wpe.weight[: x.shape[1]]
        for block in self.blocks:
            h = block(h)
        z = F.linear(self.lnf(h), self.wte.weight)  # the head is tied to the token embedding
        return F.cross_entropy(z.flatten(0, 1), y.flatten())


BERT_EPS = 1e-12


class BERT(nn.Module):
    def __init__(self, vocab=1024, d=256, layers=4, heads=4, ff=1024, t=128):
        super().__init__()
        self.wte, self.wpe, self.ln = nn.Embedding(vocab, d), nn.Embedding(t, d), nn.LayerNorm(d, BERT_EPS)
        self.blocks = nn.ModuleList(BERTBlock(d, heads, ff, BERT_EPS) for _ in range(layers))
        self.head = nn.Linear(d, vocab)
        for p in (self.wte.weight, self.wpe.weight):
            nn.init.normal_(p, std=0.02)

    def forward(self, x, y):
        h = self.ln(self.wte(x) + self.wpe.weight[: x.shape[1]])
        for block in self.blocks:
            h = block(h)
        return F.cross_entropy(self.head(h).flatten(0, 1), y.flatten())


class RNNLM(nn.Module):
    def __init__(self, cell, vocab=256, hidden=512, layers=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, hidden)
        self.rnn = cell(hidden, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, vocab)

    def forward(self, x, y):
        h, _ = self.rnn(self.emb(x))
        return F.cross_entropy(self.head(h).flatten(0, 1), y.flatten())


def checkpoint_blocks(model):
    """Each block (residual, transformer, recurrent layer) keeps its input only and is computed again in backward."""
    from torch.utils.checkpoint import checkpoint

    def wrap(module):
        plain = module.forward
        module.forward = lambda *args: checkpoint(plain, *args, use_reentrant=False)

    for module in list(model.modules()):
        if isinstance(module, (BasicBlock, Bottleneck, TransformerBlock)):
            wrap(module)
    if isinstance(model, RNNLM):
        model.rnn = LayerByLayer(model.rnn)
        for layer in model.rnn.layers:
            wrap(layer)
    return model


class LayerByLayer(nn.Module):
    """The layers of a recurrent network as modules of their own, so that each can be computed again."""

    def __init__(self, rnn):
        super().__init__()
        self.layers = nn.ModuleList(type(rnn)(rnn.hidden_size, rnn.hidden_size, 1, batch_first=True) for _ in range(rnn.num_layers))

    def forward(self, x):
        for layer in self.layers:
            x, _ = layer(x)
        return x, None


def make(name, **params):
    """The model `name`; params override sizes (vocab=, t=, dropout=, classes=, ...)."""
    table = {
        "mlp": lambda: MLP(**params),
        "cnn": lambda: CNN(**params),
        "resnet18": lambda: ResNet(BasicBlock, (64, 128, 256, 512), (2, 2, 2, 2), **params),
        "resnet20": lambda: ResNet(BasicBlock, (16, 32, 64), (3, 3, 3), **params),
        "resnet50": lambda: ResNet(
            Bottleneck, (64, 128, 256, 512), (3, 4, 6, 3), imagenet_stem=True, **{"classes": 1000, **params}
        ),
        "gpt-mini": lambda: GPT(**params),
        "gpt2": lambda: GPT(**{"vocab": 50304, "d": 768, "layers": 12, "heads": 12, "t": 1024, **params}),
        "bert-mini": lambda: BERT(**params),
        "lstm-lm": lambda: RNNLM(nn.LSTM, **params),
        "gru-lm": lambda: RNNLM(nn.GRU, **params),
    }
    return table[name]()


# Shape of one sample, and for token models the tokens that occur (gpt2's table is padded from 50257 to 50304 rows).
IMAGE_MODELS = {"mlp": (1, 28), "cnn": (1, 28), "resnet18": (3, 32), "resnet20": (3, 32), "resnet50": (3, 224)}
TOKEN_MODELS = {"gpt-mini": (256, 256), "gpt2": (50257, 1024), "bert-mini": (1024, 128), "lstm-lm": (256, 128), "gru-lm": (256, 128)}


def synthetic_batch(name, batch, length=None, image=None, classes=None):
    """Random (x, y) of the model's shapes."""
    if name in IMAGE_MODELS:
        channels, size = IMAGE_MODELS[name]
        size = image or size
        classes = classes or (1000 if name == "resnet50" else 10)
        return torch.randn(batch, channels, size, size), torch.randint(0, classes, (batch,))
    vocab, t = TOKEN_MODELS[name]
    ids = torch.randint(0, vocab, (batch, (length or t) + 1))
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
