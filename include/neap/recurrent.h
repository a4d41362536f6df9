// Recurrent layers for models, as sequences of chunk nodes (lstm_chunk, gru_chunk, rnn_chunk).
//
// Time comes first: x is [time, batch, input]. The number of steps must be a number when the layer is built, since it
// says how many nodes there are: a model is built for a length (or bound to one) before its layers are. The batch may
// stay symbolic.
//
// Parameters are made under the current scope with torch's names, shapes and start: weight_ih_l0, weight_hh_l0,
// bias_ih_l0, bias_hh_l0, ..., with "_reverse" behind them for the other direction.
#pragma once

#include <functional>
#include <string>

#include "neap/builder.h"

namespace neap {

struct RecurrentOptions {
  std::int64_t layers = 1;
  std::int64_t chunk = 16;  // steps a node; the last may have fewer. Changes no bit of any result.
  std::int64_t unroll =
      0;  // at most so many steps are one piece of work: less workspace; 0: all of a chunk. No bit either
  bool keep_gates = true;  // false: backward makes them again, from x and h. No bit either
  bool bidirectional = false;
  bool bias = true;
  std::string activation = "tanh";  // of rnn(): tanh or relu
  Values h0, c0;                    // [batch, hidden] one a layer and direction (l0, l0_reverse, l1, ...); empty: zeros
  Value lengths;                    // i32[batch]: rows end there; afterwards they output 0 and keep their state
  // What happens to each chunk of a layer's output on its way to the next layer: dropout, say.
  std::function<Value(Builder& g, Value chunk, std::int64_t layer)> between = {};
};

struct RecurrentOutput {
  Value y;          // [time, batch, directions * hidden]; of a layer that was given chunks, none
  Values chunks;    // y in pieces along time
  Values h_n, c_n;  // [batch, hidden], one a layer and direction: the states behind the last step; c_n of lstm() only
};

RecurrentOutput lstm(Builder& g, Value x, std::int64_t hidden, const RecurrentOptions& options = {});
RecurrentOutput gru(Builder& g, Value x, std::int64_t hidden, const RecurrentOptions& options = {});
RecurrentOutput rnn(Builder& g, Value x, std::int64_t hidden, const RecurrentOptions& options = {});

// The same from a sequence that is in pieces already, such as another layer's chunks; `options.chunk` is not used.
RecurrentOutput lstm(Builder& g, const Values& chunks, std::int64_t hidden, const RecurrentOptions& options = {});
RecurrentOutput gru(Builder& g, const Values& chunks, std::int64_t hidden, const RecurrentOptions& options = {});
RecurrentOutput rnn(Builder& g, const Values& chunks, std::int64_t hidden, const RecurrentOptions& options = {});

}  // namespace neap
