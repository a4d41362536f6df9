// Language models with recurrent layers.
#include "neap/recurrent.h"

#include "neap/layers.h"
#include "registry.h"

namespace neap {
namespace {

using Layer = RecurrentOutput (*)(Builder&, Value, std::int64_t, const RecurrentOptions&);

// Time comes first inside: the tokens are transposed while they are small, the targets likewise.
void build(Builder& g, const ModelContext& c, Layer layer) {
  const Value tokens = token_input(g, c);
  const Value targets = target_input(g, c);
  const auto number = [&](const char* name) { return static_cast<std::int64_t>(c.parameters.at(name)); };
  const Attrs swap = {{"perm", Ints{1, 0}}};
  const double p = c.parameters.at("dropout");
  Value x = embedding(g, "emb", g("transpose", {tokens}, swap, "steps"), c.classes, number("hidden"));
  {
    const Builder::Scope scope(g, "rnn");
    RecurrentOptions options{.layers = number("layers"), .chunk = number("chunk")};
    if (p > 0) options.between = [p](Builder& b, Value chunk, std::int64_t) { return dropout(b, chunk, p); };
    x = layer(g, x, number("hidden"), options).y;
  }
  finish(g, linear(g, "head", x, c.classes), g("transpose", {targets}, swap, "answers"));
}

RecurrentOutput lstm_layer(Builder& g, Value x, std::int64_t hidden, const RecurrentOptions& o) {
  return lstm(g, x, hidden, o);
}
RecurrentOutput gru_layer(Builder& g, Value x, std::int64_t hidden, const RecurrentOptions& o) {
  return gru(g, x, hidden, o);
}

void build_lstm(Builder& g, const ModelContext& c) { build(g, c, lstm_layer); }
void build_gru(Builder& g, const ModelContext& c) { build(g, c, gru_layer); }

constexpr ModelParameter kParameters[] = {{"hidden", 512, "units a layer"},
                                          {"layers", 2, ""},
                                          {"vocab", 256, "bytes"},
                                          {"chunk", 16, "time steps a node"},
                                          {"dropout", 0, "between layers"}};

}  // namespace

extern const ModelInfo lstm_lm = {.name = "lstm-lm",
                                  .what = "two LSTM layers over bytes (4.5 M)",
                                  .task = Task::kTokens,
                                  .batch = 32,
                                  .length = 128,
                                  .classes = 256,
                                  .parameters = kParameters,
                                  .takes_padding = true,
                                  .build = build_lstm};

extern const ModelInfo gru_lm = {.name = "gru-lm",
                                 .what = "two GRU layers over bytes (3.4 M)",
                                 .task = Task::kTokens,
                                 .batch = 32,
                                 .length = 128,
                                 .classes = 256,
                                 .parameters = kParameters,
                                 .takes_padding = true,
                                 .build = build_gru};

}  // namespace neap
