// Chunks of recurrent layers. Those of one layer become one node again where what they read is one sequence again.
#include <fmt/format.h>

#include <algorithm>

#include "graph/op.h"
#include "neap/error.h"
#include "onnx/emit/emitter.h"

namespace neap::onnx {
namespace {

// Inputs and outputs of a chunk.
enum In : std::size_t { kX, kWeightIh, kWeightHh, kBiasIh, kBiasHh, kLengths, kH0, kC0 };
enum Out : std::size_t { kH, kHLast, kGates, kC, kCLast };

struct Family {
  std::string_view chunk;
  const char* op;
  std::vector<std::size_t> order;  // Neap's place of each gate in ONNX's order
  const char* suffix;              // that order: of weights that were put into it
  bool has_cell = false;
};

const Family& family_of(std::string_view chunk) {
  static const Family kFamilies[] = {{"lstm_chunk", "LSTM", {0, 3, 1, 2}, "_iofc", true},
                                     {"gru_chunk", "GRU", {1, 0, 2}, "_zrh"},
                                     {"rnn_chunk", "RNN", {}, ""}};
  const auto* at =
      std::find_if(std::begin(kFamilies), std::end(kFamilies), [&](const Family& f) { return f.chunk == chunk; });
  if (at == std::end(kFamilies)) throw InternalError(fmt::format("{} is no chunk", chunk));
  return *at;
}

Value input(const Node& node, std::size_t i) { return i < node.inputs.size() ? node.inputs[i] : Value{}; }
Value output(const Node& node, std::size_t i) { return i < node.outputs.size() ? node.outputs[i] : Value{}; }
bool is_reverse(const Node& node) { return node.attrs.integer("reverse", 0) != 0; }

using Chain = std::vector<const Node*>;

bool goes_on(const Emitter& e, const Node& a, const Node& b, bool has_cell) {
  if (b.op != a.op || input(b, kH0) != output(a, kHLast) || is_reverse(a) != is_reverse(b)) return false;
  for (const std::size_t i : {kWeightIh, kWeightHh, kBiasIh, kBiasHh, kLengths}) {
    if (input(a, i) != input(b, i)) return false;
  }
  if (e.readers(a.outputs[kHLast]) != 1) return false;
  return !has_cell || (input(b, kC0) == output(a, kCLast) && e.readers(a.outputs[kCLast]) == 1);
}

// From `first` on, each goes on with the state that the one before leaves, which nothing else reads.
Chain chain_from(const Emitter& e, const Node& first, bool has_cell) {
  Chain out = {&first};
  for (const Node* node : e.nodes()) {
    if (goes_on(e, *out.back(), *node, has_cell)) out.push_back(node);
  }
  return out;
}

// The sequence that the chunks of a chain read, piece by piece; null when it is not one.
MadePtr whole_of(const Emitter& e, Chain chain) {
  if (is_reverse(*chain[0])) std::reverse(chain.begin(), chain.end());
  MadePtr whole;
  std::int64_t end = 0;
  for (const Node* node : chain) {
    const Piece* p = e.piece(node->inputs[kX]);
    if (p == nullptr || (whole && p->whole != whole) || p->start != end) return nullptr;
    whole = p->whole;
    end = p->end;
  }
  return whole->shape[0] == Dim(end) ? whole : nullptr;
}

class Layer {
 public:
  Layer(Emitter& e, const Node& first) : e_(e), family_(family_of(first.op->name)) {
    chain_ = chain_from(e, first, family_.has_cell);
    if (chain_.size() > 1) x_ = whole_of(e, chain_);
    if (!x_) {  // chunk by chunk
      chain_ = {&first};
      x_ = e.made(first.inputs[kX]);
      if (input(first, kLengths) && first.attrs.integer("start", 0) != 0) {
        throw UserError("rows end inside of a sequence that is not written in one piece");
      }
    }
    hidden_ = e.shape(first.inputs[kWeightHh]).size(-1);
    for (const Node* node : chain_) {
      for (const std::size_t i : {std::size_t{kGates}, std::size_t{kC}}) {
        const Value v = output(*node, i);
        if (v && e.readers(v) > 0) throw UserError("what it has inside is read, and ONNX does not give it");
      }
    }
  }

  void write() {
    const Node& first = *chain_.front();
    const Node& last = *chain_.back();
    Names in = {e_.moved(*x_, {}), weight(input(first, kWeightIh)), weight(input(first, kWeightHh)), biases(first)};
    in.push_back(input(first, kLengths) ? e_.in(input(first, kLengths)) : "");
    in.push_back(state(input(first, kH0)));
    if (family_.has_cell) in.push_back(state(input(first, kC0)));
    std::vector<bool> wanted = {true, is_read(last, kHLast)};
    if (family_.has_cell) wanted.push_back(is_read(last, kCLast));
    while (!wanted.back()) wanted.pop_back();
    const Names y = e_.add(family_.op, in, attrs(first), wanted);
    write_sequence(e_.add("Squeeze", {y[0], e_.ints({1})}));
    for (std::size_t i = 1; i < y.size(); ++i) {
      if (wanted[i]) e_.out(last.outputs[i == 1 ? kHLast : kCLast], e_.add("Squeeze", {y[i], e_.ints({0})}));
    }
  }

 private:
  bool is_read(const Node& node, std::size_t i) const {
    const Value v = output(node, i);
    return v && e_.readers(v) > 0;
  }

  Attrs attrs(const Node& first) const {
    Attrs out = {{"hidden_size", hidden_}};
    if (is_reverse(first)) out.set("direction", std::string("reverse"));
    if (family_.chunk == "gru_chunk") out.set("linear_before_reset", std::int64_t{1});
    if (family_.chunk == "rnn_chunk" && first.attrs.text("activation", "tanh") == "relu") {
      out.set("activations", std::string("Relu"));
    }
    return out;
  }

  // With an axis of directions in front, gates in ONNX's order.
  std::string weight(Value v) {
    if (family_.order.empty()) return e_.add("Unsqueeze", {e_.in(v), e_.ints({0})});
    Shape shape = {1};
    for (const Dim& d : e_.shape(v)) shape.push_back(d);
    return e_.rearranged(v, family_.suffix, shape, family_.order);
  }

  std::string biases(const Node& node) {
    const Value ih = input(node, kBiasIh);
    const Value hh = input(node, kBiasHh);
    if (!ih && !hh) return {};
    const std::string zeros = ih && hh ? std::string() : no_bias(e_.shape(ih ? ih : hh));
    return e_.add("Concat", {ih ? weight(ih) : zeros, hh ? weight(hh) : zeros}, {{"axis", std::int64_t{1}}});
  }

  std::string no_bias(const Shape& shape) {
    std::string name = fmt::format("/no_bias/{}", shape.count());
    if (e_.has_name(name)) return name;
    const std::vector<float> zeros(static_cast<std::size_t>(shape.count()));
    return e_.constant(name, {DType::kF32, {1, shape.count()}}, std::as_bytes(std::span(zeros)));
  }

  std::string state(Value v) { return v ? e_.add("Unsqueeze", {e_.in(v), e_.ints({0})}) : std::string(); }

  // [time, batch, hidden], in pieces where the chunks are.
  void write_sequence(const std::string& name) {
    if (chain_.size() == 1) return e_.out(chain_[0]->outputs[kH], name);
    const auto whole = std::make_shared<const Made>(Made{name, {}, {x_->shape[0], x_->shape[1], hidden_}});
    for (const Node* node : chain_) {
      const Piece& x = *e_.piece(node->inputs[kX]);
      e_.out(node->outputs[kH], Piece{whole, x.start, x.end, node->name});
    }
  }

  Emitter& e_;
  const Family& family_;
  Chain chain_;
  MadePtr x_;
  std::int64_t hidden_ = 0;
};

void chunk(Emitter& e, const Node& node) {
  if (!e.is_made(node.outputs[kH])) Layer(e, node).write();  // else it went into the node of the first chunk
}

constexpr EmitEntry kRules[] = {{"lstm_chunk", chunk}, {"gru_chunk", chunk}, {"rnn_chunk", chunk}};

}  // namespace

std::span<const EmitEntry> emit_recurrent() { return kRules; }

}  // namespace neap::onnx
