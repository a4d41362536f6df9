"""GPT-2: predicts a token at every place; the embedding is also the last layer's weight."""
import numpy as np
from transformers import GPT2Config, GPT2LMHeadModel

from zoo.spec import Logits, Spec

VOCAB, LENGTH = 503, 32


def gpt2(attention="eager", **size):
    config = GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, attn_implementation=attention,
                        bos_token_id=0, eos_token_id=0, **size)
    return Logits(GPT2LMHeadModel(config), "input_ids", "attention_mask")


def small(attention="eager"):
    return gpt2(attention, vocab_size=VOCAB, n_positions=64, n_embd=128, n_layer=3, n_head=4)


def text(vocab, length):
    """Random tokens; each is followed by one that depends on it three times out of four. Some of the ends are masked."""

    def sample(rng, n):
        ids = rng.integers(0, vocab, (n, length + 1))
        for t in range(length):
            follows = rng.random(n) < 0.75
            ids[follows, t + 1] = (ids[follows, t] * 5 + 7) % vocab
        mask = np.arange(length) < rng.integers(length // 2, length + 1, n)[:, None]
        return {"input_ids": ids[:, :-1], "attention_mask": mask.astype(np.int64), "target": ids[:, 1:]}

    return sample


SEQUENCE = {"input_ids": {1: "sequence"}, "attention_mask": {1: "sequence"}}
SPECS = [
    Spec("gpt2", small, text(VOCAB, LENGTH), dynamic=SEQUENCE, lr=0.05),
    Spec("gpt2-dynamo", lambda: small("sdpa"), text(VOCAB, LENGTH), dynamic=SEQUENCE, opset=18, exporter="dynamo", lr=0.05),
    Spec("gpt2-124m", gpt2, text(50257, LENGTH), batch=1, dynamic=SEQUENCE, big=True),
]
