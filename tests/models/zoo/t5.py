"""The encoder of T5 (relative positions, RMS norm without bias) with a head over the mean of its outputs."""
from torch import nn
from transformers import T5Config, T5EncoderModel

from zoo.spec import Spec, padded_text

VOCAB, LENGTH, CLASSES = 1000, 24, 5


class Classifier(nn.Module):
    def __init__(self, feed_forward):
        super().__init__()
        config = T5Config(vocab_size=VOCAB, d_model=128, d_kv=32, d_ff=256, num_layers=3, num_heads=4, dropout_rate=0.0,
                          relative_attention_num_buckets=16, relative_attention_max_distance=32, use_cache=False,
                          feed_forward_proj=feed_forward)
        self.encoder = T5EncoderModel(config)
        self.head = nn.Linear(config.d_model, CLASSES)

    def forward(self, input_ids, attention_mask):
        x = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        keep = attention_mask.unsqueeze(-1).to(x.dtype)
        return self.head((x * keep).sum(1) / keep.sum(1))


SEQUENCE = {"input_ids": {1: "sequence"}, "attention_mask": {1: "sequence"}}
SPECS = [
    Spec("t5-encoder", lambda: Classifier("relu"), padded_text(VOCAB, LENGTH, CLASSES), dynamic=SEQUENCE),
    Spec("t5-gated", lambda: Classifier("gated-gelu"), padded_text(VOCAB, LENGTH, CLASSES), dynamic=SEQUENCE, opset=20),
]
