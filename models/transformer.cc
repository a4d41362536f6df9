// Transformers: a decoder with norms first (GPT) and an encoder with norms last (BERT).
#include <cmath>

#include "neap/layers.h"
#include "registry.h"

namespace neap {
namespace {

struct Sizes {
  std::int64_t width;
  std::int64_t layers;
  std::int64_t heads;
  double dropout;
};

Sizes sizes_of(const ModelContext& c) {
  const auto number = [&](const char* name) { return static_cast<std::int64_t>(c.parameters.at(name)); };
  return {number("width"), number("layers"), number("heads"), c.parameters.at("dropout")};
}

constexpr double kStd = 0.02;

// `mask` says which keys are seen; none: all are, or with `causal` those that come before.
Value self_attention(Builder& g, Value x, const ModelContext& c, const Sizes& s, bool causal, double proj_std,
                     Value mask = {}) {
  const Dim batch = Dim::symbol("batch");
  const Value qkv = linear(g, "qkv", x, 3 * s.width, {.init_std = kStd});
  const Value split = g("reshape", {qkv}, {{"shape", Shape{batch, c.length, 3, s.heads, s.width / s.heads}}}, "split");
  const Values inputs = mask ? Values{split, {}, {}, mask} : Values{split};
  const Value out = g("attention", inputs, {{"causal", std::int64_t{causal}}}, "attention");
  const Value joined = g("reshape", {out}, {{"shape", Shape{batch, c.length, s.width}}}, "joined");
  return dropout(g, linear(g, "proj", joined, s.width, {.init_std = proj_std}), s.dropout);
}

Value feed_forward(Builder& g, Value x, const Sizes& s, const char* approximate, double proj_std) {
  Value h = linear(g, "fc1", x, 4 * s.width, {.init_std = kStd});
  h = g("gelu", {h}, {{"approximate", std::string(approximate)}});
  return dropout(g, linear(g, "fc2", h, s.width, {.init_std = proj_std}), s.dropout);
}

// Token and position embeddings; returns their sum and the token table, which GPT shares with its head.
std::pair<Value, Value> embed(Builder& g, Value tokens, const ModelContext& c, std::int64_t width) {
  const Value table = g.parameter("wte.weight", {c.classes, width}, Init::normal(kStd));
  const auto context = static_cast<std::int64_t>(c.parameters.at("context"));
  Value positions = g.parameter("wpe.weight", {context, width}, Init::normal(kStd));
  if (c.length < context) {
    positions =
        g("slice", {positions}, {{"starts", Ints{0}}, {"ends", Ints{c.length}}, {"axes", Ints{0}}}, "positions");
  }
  const Value x = g("embedding", {table, tokens}, {}, "wte");
  return {g("add", {x, positions}, {}, "embedded"), table};
}

void build_gpt(Builder& g, const ModelContext& c) {
  const Value tokens = token_input(g, c);
  const Value targets = target_input(g, c);
  const Sizes s = sizes_of(c);
  auto [x, table] = embed(g, tokens, c, s.width);
  x = dropout(g, x, s.dropout);
  const double proj_std = kStd / std::sqrt(2.0 * static_cast<double>(s.layers));
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const Builder::Scope scope(g, "blocks." + std::to_string(i));
    x = g("add", {x, self_attention(g, layer_norm(g, "ln1", x), c, s, true, proj_std)}, {}, "residual1");
    x = g("add", {x, feed_forward(g, layer_norm(g, "ln2", x), s, "tanh", proj_std)}, {}, "residual2");
  }
  x = layer_norm(g, "lnf", x);
  finish(g, g("linear", {x, table}, {}, "logits"), targets);
}

void build_bert(Builder& g, const ModelContext& c) {
  const Value tokens = token_input(g, c);
  const Value targets = target_input(g, c);
  const Sizes s = sizes_of(c);
  Value x = embed(g, tokens, c, s.width).first;
  x = dropout(g, layer_norm(g, "ln", x, 1e-12), s.dropout);
  const Value mask = c.padded ? g("padding_mask", {tokens, targets}, {}, "mask") : Value{};
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const Builder::Scope scope(g, "blocks." + std::to_string(i));
    x = layer_norm(g, "ln1", g("add", {x, self_attention(g, x, c, s, false, kStd, mask)}, {}, "residual1"), 1e-12);
    x = layer_norm(g, "ln2", g("add", {x, feed_forward(g, x, s, "none", kStd)}, {}, "residual2"), 1e-12);
  }
  finish(g, linear(g, "head", x, c.classes, {.init_std = kStd}), targets);
}

constexpr ModelParameter kMini[] = {
    {"width", 384, ""}, {"layers", 6, ""}, {"heads", 6, ""}, {"vocab", 256, "bytes"}, {"context", 256, "positions"},
    {"dropout", 0, ""}};
constexpr ModelParameter kGpt2[] = {{"width", 768, ""},
                                    {"layers", 12, ""},
                                    {"heads", 12, ""},
                                    {"vocab", 50304, "50257 padded"},
                                    {"context", 1024, "positions"},
                                    {"dropout", 0, ""}};
constexpr ModelParameter kBert[] = {
    {"width", 256, ""}, {"layers", 4, ""}, {"heads", 4, ""}, {"vocab", 1024, ""}, {"context", 128, "positions"},
    {"dropout", 0, ""}};

}  // namespace

extern const ModelInfo gpt_mini = {.name = "gpt-mini",
                                   .what = "decoder with 6 layers over bytes (10.8 M)",
                                   .task = Task::kTokens,
                                   .batch = 8,
                                   .length = 256,
                                   .classes = 256,
                                   .parameters = kMini,
                                   .takes_padding = true,
                                   .build = build_gpt};

extern const ModelInfo gpt2 = {.name = "gpt2",
                               .what = "GPT-2, 12 layers (124 M)",
                               .task = Task::kTokens,
                               .batch = 2,
                               .length = 256,
                               .classes = 50304,
                               .parameters = kGpt2,
                               .takes_padding = true,
                               .build = build_gpt};

extern const ModelInfo bert_mini = {.name = "bert-mini",
                                    .what = "encoder with 4 layers (3.7 M)",
                                    .task = Task::kTokens,
                                    .batch = 16,
                                    .length = 128,
                                    .classes = 1024,
                                    .parameters = kBert,
                                    .takes_padding = true,
                                    .build = build_bert};

}  // namespace neap
