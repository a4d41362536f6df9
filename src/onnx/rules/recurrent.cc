// LSTM, GRU and RNN. The usual ones become Neap's chunks of steps; those with peepholes, clipping or other functions
// are written out step by step in plain ops, which costs speed and nothing else.
#include <fmt/format.h>

#include <algorithm>

#include "neap/error.h"
#include "onnx/context.h"
#include "onnx/limits.h"

namespace neap::onnx {
namespace {

constexpr std::int64_t kChunk = 16;

struct Family {
  std::string_view op;
  std::string_view chunk;
  std::int64_t gates;
  std::vector<std::int64_t> order;  // place in the file of each gate in Neap's order
  std::vector<std::string> functions;
  bool has_cell;
};

Family family_of(const std::string& op) {
  if (op == "LSTM") return {"LSTM", "lstm_chunk", 4, {0, 2, 3, 1}, {"Sigmoid", "Tanh", "Tanh"}, true};
  if (op == "GRU") return {"GRU", "gru_chunk", 3, {1, 0, 2}, {"Sigmoid", "Tanh"}, false};
  return {"RNN", "rnn_chunk", 1, {0}, {"Tanh"}, false};
}

struct Function {
  std::string name;
  double alpha = 0;
  double beta = 0;
};

double default_of(const std::string& function, bool is_alpha) {
  if (function == "LeakyRelu") return is_alpha ? 0.01 : 0;
  if (function == "HardSigmoid") return is_alpha ? 0.2 : 0.5;
  return is_alpha ? 1.0 : 0.0;
}

// One direction of a layer.
struct Direction {
  bool is_reverse = false;
  std::vector<Function> functions;
  Value w, r, wb, rb;  // [gates * hidden, ...] in the file's order of gates
  Value h, c;          // the state, [batch, hidden]
  Value p;             // peepholes [3 * hidden]
};

Value part(Context& c, Value x, std::int64_t axis, std::int64_t start, std::int64_t end) {
  return c.add("slice", {x}, {{"axes", Ints{axis}}, {"starts", Ints{start}}, {"ends", Ints{end}}});
}

class Layer {
 public:
  explicit Layer(Context& c) : c_(c), family_(family_of(c.node.op_type())) {
    const bool batch_first = c.integer("layout", 0) != 0;
    if (c.rank(0) != 3 || c.rank(1) != 3 || c.rank(2) != 3) throw UserError("it takes X, W and R of rank 3");
    x_ = c.moved(0, batch_first ? Perm{1, 0, 2} : Perm{});
    const Ints sizes = c.g.shape(x_).sizes();
    steps_ = sizes[0];
    batch_ = sizes[1];
    if (steps_ < 1) throw UserError("a sequence has at least one time step");
    if (steps_ > kMaxSteps) throw UserError(fmt::format("{} steps are more than {}", steps_, kMaxSteps));
    hidden_ = c.integer("hidden_size", c.shape(2).size(2));
    if (c.shape(2).size(2) != hidden_ || c.shape(1).size(1) != family_.gates * hidden_) {
      throw UserError("hidden_size does not fit W and R");
    }
    const std::string way = c.text("direction", "forward");
    if (way != "forward" && way != "reverse" && way != "bidirectional") throw UserError("the direction is unknown");
    const std::size_t count = way == "bidirectional" ? 2 : 1;
    if (c.shape(1).size(0) != static_cast<std::int64_t>(count)) throw UserError("W does not fit the direction");
    read_functions(count);
    for (std::size_t d = 0; d < count; ++d) add_direction(d, way == "reverse" || d == 1, batch_first);
    if (c.has(4)) {
      if (!(c.shape(4) == Shape{batch_})) throw UserError("sequence_lens must be one number a row");
      lengths_ = c.cast(c.in(4), DType::kI32);
    }
  }

  void run() {
    const bool batch_first = c_.integer("layout", 0) != 0;
    Values all, hs, cs;
    for (Direction& d : directions_) {
      all.push_back(c_.reshape(is_usual(d) ? run_chunks(d) : run_steps(d), {steps_, 1, batch_, hidden_}));
      hs.push_back(c_.reshape(d.h, {1, batch_, hidden_}));
      if (family_.has_cell) cs.push_back(c_.reshape(d.c, {1, batch_, hidden_}));
    }
    const auto joined = [&](const Values& parts, std::int64_t axis) {
      return parts.size() == 1 ? parts[0] : c_.add("concat", parts, {{"axis", axis}});
    };
    if (c_.wants(0)) c_.out(0, c_.transpose(joined(all, 1), batch_first ? Perm{2, 0, 1, 3} : Perm{}));
    const Perm state = batch_first ? Perm{1, 0, 2} : Perm{};
    if (c_.wants(1)) c_.out(1, c_.transpose(joined(hs, 0), state));
    if (c_.wants(2) && family_.has_cell) c_.out(2, c_.transpose(joined(cs, 0), state));
  }

 private:
  void read_functions(std::size_t directions) {
    const std::vector<std::string> names = c_.texts("activations");
    const std::vector<double> alphas = c_.reals("activation_alpha");
    const std::vector<double> betas = c_.reals("activation_beta");
    const std::size_t each = family_.functions.size();
    if (!names.empty() && names.size() != each * directions) {
      throw UserError(fmt::format("{} activations are given, not {}", names.size(), each * directions));
    }
    for (std::size_t i = 0; i < each * directions; ++i) {
      const std::string name = names.empty() ? family_.functions[i % each] : names[i];
      functions_.push_back({name, i < alphas.size() ? alphas[i] : default_of(name, true),
                            i < betas.size() ? betas[i] : default_of(name, false)});
    }
  }

  std::int64_t directions() const { return c_.shape(1).size(0); }

  Value row(std::size_t input, std::size_t direction) {
    const auto d = static_cast<std::int64_t>(direction);
    const int rank = input <= 2 ? 3 : 2;
    c_.need_rank(input, rank, rank);
    if (c_.shape(input).size(0) != directions()) {
      throw UserError(fmt::format("input {} is not for {} directions", input, directions()));
    }
    Shape shape;
    for (int i = 1; i < c_.rank(input); ++i) shape.push_back(c_.shape(input)[i]);
    const Value x = c_.in(input);
    return c_.reshape(directions() == 1 ? x : part(c_, x, 0, d, d + 1), shape);
  }

  Value state(std::size_t input, std::size_t direction, bool batch_first) {
    if (!c_.has(input)) return {};
    const auto d = static_cast<std::int64_t>(direction);
    c_.need_rank(input, 3, 3);
    const Value x = c_.moved(input, batch_first ? Perm{1, 0, 2} : Perm{});
    if (!(c_.g.shape(x) == Shape{directions(), batch_, hidden_})) {
      throw UserError(fmt::format("the first state in input {} is {}", input, c_.shape(input).text()));
    }
    return c_.reshape(directions() == 1 ? x : part(c_, x, 0, d, d + 1), {batch_, hidden_});
  }

  void add_direction(std::size_t d, bool is_reverse, bool batch_first) {
    const std::size_t each = family_.functions.size();
    Direction out{.is_reverse = is_reverse};
    out.functions.assign(functions_.begin() + static_cast<std::ptrdiff_t>(d * each),
                         functions_.begin() + static_cast<std::ptrdiff_t>((d + 1) * each));
    out.w = row(1, d);
    out.r = row(2, d);
    if (c_.has(3)) {
      const Value b = row(3, d);
      const std::int64_t half = family_.gates * hidden_;
      if (c_.shape(3).size(1) != 2 * half) throw UserError("B does not fit hidden_size");
      out.wb = part(c_, b, 0, 0, half);
      out.rb = part(c_, b, 0, half, 2 * half);
    }
    out.h = state(5, d, batch_first);
    if (family_.has_cell) out.c = state(6, d, batch_first);
    if (family_.has_cell && c_.has(7)) out.p = row(7, d);
    directions_.push_back(std::move(out));
  }

  // What the chunk kernels do.
  bool is_usual(const Direction& d) const {
    if (c_.has_attr("clip") || d.p || c_.integer("input_forget", 0) != 0) return false;
    if (family_.op == "GRU" && c_.integer("linear_before_reset", 0) == 0) return false;
    if (c_.dtype(0) != DType::kF32) return false;
    if (family_.op == "RNN") return d.functions[0].name == "Tanh" || d.functions[0].name == "Relu";
    for (std::size_t i = 0; i < d.functions.size(); ++i) {
      if (d.functions[i].name != family_.functions[i]) return false;
    }
    return true;
  }

  // Blocks of rows put into Neap's order of gates.
  Value reordered(Value rows) {
    if (!rows || family_.gates == 1) return rows;
    const Values blocks = c_.add_all("split", {rows}, {{"axis", std::int64_t{0}}, {"parts", family_.gates}});
    Values out;
    for (const std::int64_t at : family_.order) out.push_back(blocks[static_cast<std::size_t>(at)]);
    return c_.add("concat", out, {{"axis", std::int64_t{0}}});
  }

  Value run_chunks(Direction& d) {
    const Value w = reordered(d.w);
    const Value r = reordered(d.r);
    const Value wb = reordered(d.wb);
    const Value rb = reordered(d.rb);
    Values out;
    Ints starts;
    for (std::int64_t start = 0; start < steps_; start += kChunk) starts.push_back(start);
    if (d.is_reverse) std::reverse(starts.begin(), starts.end());
    for (const std::int64_t start : starts) {
      const std::int64_t end = std::min(steps_, start + kChunk);
      const Value x = starts.size() == 1 ? x_ : part(c_, x_, 0, start, end);
      Attrs attrs = {{"start", start}};
      if (d.is_reverse) attrs.set("reverse", std::int64_t{1});
      if (family_.gates == 1) attrs.set("activation", std::string(d.functions[0].name == "Relu" ? "relu" : "tanh"));
      Values in = {x, w, r, wb, rb, lengths_, d.h};
      if (family_.has_cell) in.push_back(d.c);
      const Values y = c_.add_all(family_.chunk, in, attrs);
      out.push_back(y[0]);
      d.h = y[1];
      if (family_.has_cell) d.c = y[4];
    }
    if (d.is_reverse) std::reverse(out.begin(), out.end());
    return out.size() == 1 ? out[0] : c_.add("concat", out, {{"axis", std::int64_t{0}}});
  }

  Value apply(const Function& f, Value x) {
    if (c_.has_attr("clip")) {
      const double bound = c_.real("clip", 0);
      x = c_.add("clip", {x}, {{"min", -bound}, {"max", bound}});
    }
    if (f.name == "Sigmoid") return c_.add("sigmoid", {x});
    if (f.name == "Tanh") return c_.add("tanh", {x});
    if (f.name == "Relu") return c_.add("relu", {x});
    if (f.name == "Softsign") return c_.add("softsign", {x});
    if (f.name == "Softplus") return c_.add("softplus", {x});
    if (f.name == "LeakyRelu") return c_.add("leaky_relu", {x}, {{"alpha", f.alpha}});
    if (f.name == "ThresholdedRelu") return c_.add("thresholded_relu", {x}, {{"alpha", f.alpha}});
    if (f.name == "Elu") return c_.add("elu", {x}, {{"alpha", f.alpha}});
    if (f.name == "HardSigmoid") return c_.add("hard_sigmoid", {x}, {{"alpha", f.alpha}, {"beta", f.beta}});
    const Value scaled = c_.add("mul", {x, c_.g.scalar(f.name == "ScaledTanh" ? f.beta : f.alpha)});
    if (f.name == "ScaledTanh") return c_.add("mul", {c_.add("tanh", {scaled}), c_.g.scalar(f.alpha)});
    if (f.name == "Affine") return c_.add("add", {scaled, c_.g.scalar(f.beta)});
    throw UserError(fmt::format("the activation '{}' is not supported", f.name));
  }

  Value zeros() { return c_.add("fill", {}, {{"shape", Shape{batch_, hidden_}}, {"value", 0.0}}); }
  Value add(Value a, Value b) { return !a ? b : !b ? a : c_.add("add", {a, b}); }
  Value mul(Value a, Value b) { return c_.add("mul", {a, b}); }
  Value one_minus(Value a) { return c_.add("sub", {c_.g.scalar(1), a}); }
  Value gate(Value x, std::int64_t i) { return part(c_, x, 1, i * hidden_, (i + 1) * hidden_); }
  Value block(Value rows, std::int64_t i) { return rows ? part(c_, rows, 0, i * hidden_, (i + 1) * hidden_) : Value{}; }
  Value product(Value h, Value weight) { return c_.add("matmul", {h, weight}, {{"trans_b", std::int64_t{1}}}); }

  void lstm_step(Direction& d, Value input) {
    const Value all = add(input, add(product(d.h, d.r), d.rb));
    const bool couples = c_.integer("input_forget", 0) != 0;
    const auto peep = [&](std::int64_t i, Value cell) { return d.p ? mul(block(d.p, i), cell) : Value{}; };
    const Value i = apply(d.functions[0], add(gate(all, 0), peep(0, d.c)));
    const Value f = couples ? one_minus(i) : apply(d.functions[0], add(gate(all, 2), peep(2, d.c)));
    const Value g = apply(d.functions[1], gate(all, 3));
    d.c = add(mul(f, d.c), mul(i, g));
    const Value o = apply(d.functions[0], add(gate(all, 1), peep(1, d.c)));
    d.h = mul(o, apply(d.functions[2], d.c));
  }

  void gru_step(Direction& d, Value input) {
    const auto hidden = [&](std::int64_t i, Value h) { return add(product(h, block(d.r, i)), block(d.rb, i)); };
    const Value z = apply(d.functions[0], add(gate(input, 0), hidden(0, d.h)));
    const Value r = apply(d.functions[0], add(gate(input, 1), hidden(1, d.h)));
    const bool before = c_.integer("linear_before_reset", 0) != 0;
    const Value inner = before ? mul(r, hidden(2, d.h)) : hidden(2, mul(r, d.h));
    const Value n = apply(d.functions[1], add(gate(input, 2), inner));
    d.h = add(mul(one_minus(z), n), mul(z, d.h));
  }

  // Rows that have ended keep their state and give zeros.
  Value hold(Value now, Value before, std::int64_t step) {
    if (!lengths_) return now;
    const Value is_on =
        c_.reshape(c_.add("greater", {lengths_, c_.scalar(static_cast<double>(step), DType::kI32)}), {batch_, 1});
    return c_.add("where", {is_on, now, before});
  }

  Value run_steps(Direction& d) {
    if (!d.h) d.h = zeros();
    if (family_.has_cell && !d.c) d.c = zeros();
    Values out(static_cast<std::size_t>(steps_));
    for (std::int64_t s = 0; s < steps_; ++s) {
      const std::int64_t t = d.is_reverse ? steps_ - 1 - s : s;
      const Value x = c_.reshape(part(c_, x_, 0, t, t + 1), {batch_, c_.g.shape(x_).size(2)});
      const Value input = add(product(x, d.w), d.wb);
      const Value h = d.h;
      const Value cell = d.c;
      if (family_.op == "LSTM") lstm_step(d, input);
      if (family_.op == "GRU") gru_step(d, input);
      if (family_.op == "RNN") d.h = apply(d.functions[0], add(input, add(product(d.h, d.r), d.rb)));
      const Value y = lengths_ ? hold(d.h, zeros(), t) : d.h;
      d.h = hold(d.h, h, t);
      if (family_.has_cell) d.c = hold(d.c, cell, t);
      out[static_cast<std::size_t>(t)] = c_.reshape(y, {1, batch_, hidden_});
    }
    return out.size() == 1 ? out[0] : c_.add("concat", out, {{"axis", std::int64_t{0}}});
  }

  Context& c_;
  Family family_;
  Value x_, lengths_;
  std::int64_t steps_ = 0, batch_ = 0, hidden_ = 0;
  std::vector<Function> functions_;
  std::vector<Direction> directions_;
};

void recurrent(Context& c) { Layer(c).run(); }

constexpr RuleEntry kRules[] = {{"LSTM", recurrent, 7}, {"GRU", recurrent, 7}, {"RNN", recurrent, 7}};

}  // namespace

std::span<const RuleEntry> recurrent_rules() { return kRules; }

}  // namespace neap::onnx
