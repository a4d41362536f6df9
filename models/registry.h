#pragma once

#include "neap/builtin_models.h"

namespace neap {

extern const ModelInfo mlp;
extern const ModelInfo cnn;
extern const ModelInfo resnet20;
extern const ModelInfo resnet18;
extern const ModelInfo resnet50;
extern const ModelInfo gpt_mini;
extern const ModelInfo gpt2;
extern const ModelInfo bert_mini;
extern const ModelInfo lstm_lm;
extern const ModelInfo gru_lm;

// Inputs that the models share.
Value image_input(Builder& g, const ModelContext& c);   // "image" [batch,H,W,C]
Value label_input(Builder& g);                          // "label" [batch]
Value token_input(Builder& g, const ModelContext& c);   // "tokens" [batch,T]
Value target_input(Builder& g, const ModelContext& c);  // "targets" [batch,T]
// Ends a model: names the logits and the loss.
void finish(Builder& g, Value logits, Value targets);

}  // namespace neap
