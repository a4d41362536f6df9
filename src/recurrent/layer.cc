#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "neap/error.h"
#include "neap/recurrent.h"

namespace neap {
namespace {

struct Family {
  std::string_view name;
  std::int64_t blocks;  // of `hidden` rows in the weights
  bool has_cell;
};
constexpr Family kLstm = {"lstm", 4, true};
constexpr Family kGru = {"gru", 3, false};
constexpr Family kRnn = {"rnn", 1, false};

std::int64_t number(const Dim& d, const Family& family, const char* what) {
  if (!d.is_number()) {
    throw UserError(fmt::format("{} needs {} as a number, not {}: build the model for one length, or bind it first",
                                family.name, what, d.text()));
  }
  return d.number();
}

Values cut(Builder& g, Value x, std::int64_t steps, std::int64_t chunk) {
  if (chunk < 1) throw UserError(fmt::format("a chunk of {} steps does not work", chunk));
  if (steps <= chunk) return {x};
  Values chunks;
  for (std::int64_t start = 0; start < steps; start += chunk) {
    const std::int64_t end = std::min(steps, start + chunk);
    chunks.push_back(g("slice", {x}, {{"axes", Ints{0}}, {"starts", Ints{start}}, {"ends", Ints{end}}}, "steps"));
  }
  return chunks;
}

// One direction of one layer, advanced chunk by chunk.
struct Direction {
  std::string suffix;  // l0, l0_reverse
  bool is_reverse = false;
  Value w_ih, w_hh, b_ih, b_hh;
  Value h, c;  // behind the last chunk so far
};

class Layers {
 public:
  Layers(Builder& g, const Family& family, Values chunks, std::int64_t hidden, const RecurrentOptions& options)
      : g_(g), family_(family), options_(options), hidden_(hidden), chunks_(std::move(chunks)) {
    if (chunks_.empty()) throw UserError(fmt::format("{} got no chunks", family.name));
    std::int64_t start = 0;
    for (const Value chunk : chunks_) {
      const Shape& shape = g.shape(chunk);
      if (shape.rank() != 3) {
        throw UserError(fmt::format("{} takes [time,batch,input], not {}", family.name, shape.text()));
      }
      const std::int64_t steps = number(shape[0], family, "the number of steps");
      if (steps < 1) throw UserError(fmt::format("{} takes at least one time step, not {}", family.name, shape.text()));
      starts_.push_back(start);
      start += steps;
    }
    make_parameters();
  }

  RecurrentOutput run() {
    // Without a way back, a chunk goes through all layers before the next one comes: what one layer gives back to the
    // layer below is then used up at once.
    if (options_.bidirectional) {
      for (std::int64_t l = 0; l < options_.layers; ++l) run_both_ways(l);
    } else {
      for (std::size_t k = 0; k < chunks_.size(); ++k) {
        for (std::int64_t l = 0; l < options_.layers; ++l) chunks_[k] = step(directions_[index(l)], k, into(l, k));
      }
    }
    RecurrentOutput out{.chunks = chunks_};
    for (const Direction& d : directions_) {
      out.h_n.push_back(d.h);
      if (family_.has_cell) out.c_n.push_back(d.c);
    }
    return out;
  }

 private:
  std::size_t index(std::int64_t layer) const {
    return static_cast<std::size_t>(layer * (options_.bidirectional ? 2 : 1));
  }

  static Value given(const Values& states, std::size_t i, std::size_t count, const char* what) {
    if (states.empty()) return {};
    if (states.size() != count)
      throw UserError(fmt::format("{} {} states are given, not {}", states.size(), what, count));
    return states[i];
  }

  void make_parameters() {
    if (options_.unroll < 0) throw UserError(fmt::format("{} steps cannot be unrolled", options_.unroll));
    if (options_.layers < 1 || hidden_ < 1) throw UserError("a recurrent layer needs layers and units");
    const std::size_t count = index(options_.layers);
    const Dim rows = family_.blocks * hidden_;
    const Init init = Init::uniform(1 / std::sqrt(static_cast<double>(hidden_)));
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t layer = options_.bidirectional ? i / 2 : i;
      Direction d{.is_reverse = options_.bidirectional && i % 2 == 1};
      d.suffix = fmt::format("l{}{}", layer, d.is_reverse ? "_reverse" : "");
      const Dim below = layer == 0 ? Dim(number(g_.shape(chunks_[0])[2], family_, "the width of its input"))
                                   : Dim(hidden_ * (options_.bidirectional ? 2 : 1));
      d.w_ih = g_.parameter("weight_ih_" + d.suffix, {rows, below}, init);
      d.w_hh = g_.parameter("weight_hh_" + d.suffix, {rows, hidden_}, init);
      if (options_.bias) d.b_ih = g_.parameter("bias_ih_" + d.suffix, {rows}, init);
      if (options_.bias) d.b_hh = g_.parameter("bias_hh_" + d.suffix, {rows}, init);
      d.h = given(options_.h0, i, count, "first");
      if (family_.has_cell) d.c = given(options_.c0, i, count, "first cell");
      directions_.push_back(std::move(d));
    }
  }

  // What layer l takes as chunk k.
  Value into(std::int64_t l, std::size_t k) const {
    return l > 0 && options_.between ? options_.between(g_, chunks_[k], l - 1) : chunks_[k];
  }

  Value step(Direction& d, std::size_t k, Value x) {
    const Builder::Scope scope(g_, d.suffix);
    Attrs attrs = {{"start", starts_[k]}};
    if (d.is_reverse) attrs.set("reverse", std::int64_t{1});
    if (family_.blocks == 1) attrs.set("activation", options_.activation);
    if (options_.unroll > 0) attrs.set("unroll", options_.unroll);
    if (!options_.keep_gates) attrs.set("gates", std::string("recompute"));
    Values in = {x, d.w_ih, d.w_hh, d.b_ih, d.b_hh, options_.lengths, d.h};
    if (family_.has_cell) in.push_back(d.c);
    const Values out = g_.add(fmt::format("{}_chunk", family_.name), in, attrs, fmt::format("chunk.{}", k));
    d.h = out[1];
    if (family_.has_cell) d.c = out[4];
    return out[0];
  }

  void run_both_ways(std::int64_t l) {
    Values in;
    for (std::size_t k = 0; k < chunks_.size(); ++k) in.push_back(into(l, k));
    Values forward(in.size());
    Values backward(in.size());
    for (std::size_t k = 0; k < in.size(); ++k) forward[k] = step(directions_[index(l)], k, in[k]);
    for (std::size_t k = in.size(); k-- > 0;) backward[k] = step(directions_[index(l) + 1], k, in[k]);
    for (std::size_t k = 0; k < in.size(); ++k) {
      chunks_[k] = g_("concat", {forward[k], backward[k]}, {{"axis", std::int64_t{2}}}, fmt::format("l{}.both", l));
    }
  }

  Builder& g_;
  const Family& family_;
  const RecurrentOptions& options_;
  std::int64_t hidden_;
  Values chunks_;
  Ints starts_;  // the time at which each chunk begins
  std::vector<Direction> directions_;
};

RecurrentOutput build(Builder& g, const Family& family, const Values& chunks, std::int64_t hidden,
                      const RecurrentOptions& options) {
  return Layers(g, family, chunks, hidden, options).run();
}

RecurrentOutput build(Builder& g, const Family& family, Value x, std::int64_t hidden, const RecurrentOptions& options) {
  const Shape shape = g.shape(x);
  if (shape.rank() != 3) {
    throw UserError(fmt::format("{} takes [time,batch,input], not {}", family.name, shape.text()));
  }
  const std::int64_t steps = number(shape[0], family, "the number of steps");
  RecurrentOutput out = build(g, family, cut(g, x, steps, options.chunk), hidden, options);
  out.y = out.chunks.size() == 1 ? out.chunks[0] : g("concat", out.chunks, {{"axis", std::int64_t{0}}});
  return out;
}

}  // namespace

RecurrentOutput lstm(Builder& g, Value x, std::int64_t hidden, const RecurrentOptions& options) {
  return build(g, kLstm, x, hidden, options);
}
RecurrentOutput gru(Builder& g, Value x, std::int64_t hidden, const RecurrentOptions& options) {
  return build(g, kGru, x, hidden, options);
}
RecurrentOutput rnn(Builder& g, Value x, std::int64_t hidden, const RecurrentOptions& options) {
  return build(g, kRnn, x, hidden, options);
}
RecurrentOutput lstm(Builder& g, const Values& chunks, std::int64_t hidden, const RecurrentOptions& options) {
  return build(g, kLstm, chunks, hidden, options);
}
RecurrentOutput gru(Builder& g, const Values& chunks, std::int64_t hidden, const RecurrentOptions& options) {
  return build(g, kGru, chunks, hidden, options);
}
RecurrentOutput rnn(Builder& g, const Values& chunks, std::int64_t hidden, const RecurrentOptions& options) {
  return build(g, kRnn, chunks, hidden, options);
}

}  // namespace neap
