"""BERT and DistilBERT: classification of sequences of different lengths."""
from transformers import (BertConfig, BertForSequenceClassification, DistilBertConfig,
                          DistilBertForSequenceClassification)

from zoo.spec import Logits, Spec, padded_text

VOCAB, LENGTH, CLASSES = 1000, 24, 5
SEQUENCE = {"input_ids": {1: "sequence"}, "attention_mask": {1: "sequence"}}


def bert(attention="eager"):
    config = BertConfig(vocab_size=VOCAB, hidden_size=128, num_hidden_layers=3, num_attention_heads=4, intermediate_size=512,
                        max_position_embeddings=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                        num_labels=CLASSES, attn_implementation=attention)
    return Logits(BertForSequenceClassification(config), "input_ids", "attention_mask")


def distilbert():
    config = DistilBertConfig(vocab_size=VOCAB, dim=128, n_layers=3, n_heads=4, hidden_dim=512, max_position_embeddings=64,
                              dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0, num_labels=CLASSES,
                              attn_implementation="sdpa")
    return Logits(DistilBertForSequenceClassification(config), "input_ids", "attention_mask")


TEXT = padded_text(VOCAB, LENGTH, CLASSES)
SPECS = [
    Spec("bert", bert, TEXT, dynamic=SEQUENCE, lr=0.05),
    # Before opset 17 a layer norm is nine nodes; exported for inference, so that weights come transposed and folded.
    Spec("bert-opset13", bert, TEXT, dynamic=SEQUENCE, opset=13, training=False, lr=0.05),
    Spec("bert-dynamo", lambda: bert("sdpa"), TEXT, dynamic=SEQUENCE, opset=18, exporter="dynamo", lr=0.05),
    Spec("distilbert", distilbert, TEXT, dynamic=SEQUENCE, optimizer="adamw", lr=1e-3, weight_decay=0.01),
]
