#include "ops/op_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "graph/op.h"
#include "ops/elementwise/element.h"

namespace neap {

HostTensor random_tensor(const TensorType& type, std::uint64_t key, double low, double high, std::int64_t bound) {
  HostTensor t(type);
  RandomStream random(key);
  const std::int64_t n = type.elements();
  const auto integer = [&] { return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(bound))); };
  for (std::int64_t i = 0; i < n; ++i) {
    switch (type.dtype) {
      case DType::kF32: t.as<float>()[i] = static_cast<float>(low + (high - low) * random.uniform()); break;
      case DType::kI32: t.as<std::int32_t>()[i] = static_cast<std::int32_t>(integer()); break;
      case DType::kI64: t.as<std::int64_t>()[i] = integer(); break;
      case DType::kU64: t.as<std::uint64_t>()[i] = random.next(); break;
      case DType::kBool: t.as<std::uint8_t>()[i] = random.next() & 1U; break;
      case DType::kBits: t.as<std::uint8_t>()[i / 8] = static_cast<std::uint8_t>(random.next()); break;
      default:
        ops::set_real(type.dtype, t.data.data(), i,
                      is_float(type.dtype) ? low + (high - low) * random.uniform() : static_cast<double>(integer()));
        break;
    }
  }
  return t;
}

namespace {

struct Setup {
  Builder g;
  Values inputs;
  Values outputs;
  std::map<std::string, HostTensor> leaves;

  explicit Setup(const OpCase& c) {
    const OpDef& op = op_named(c.op);
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
      if (std::find(c.absent.begin(), c.absent.end(), i) != c.absent.end()) {
        inputs.emplace_back();
        continue;
      }
      const std::string name = fmt::format("x{}", i);
      const bool is_mutated = std::find(op.mutates.begin(), op.mutates.end(), i) != op.mutates.end();
      inputs.push_back(is_mutated ? g.buffer(name, c.inputs[i].shape)
                                  : g.input(name, c.inputs[i].dtype, c.inputs[i].shape));
      const auto given = c.given.find(i);
      leaves[name] =
          given != c.given.end() ? given->second : random_tensor(c.inputs[i], 100 + i, c.low, c.high, c.integer_bound);
    }
    outputs = g.add(c.op, inputs, c.attrs, "y");
  }
};

bool is_near(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= tolerance * (1 + std::abs(b));
}

std::string describe(const OpCase& c) {
  std::string text = c.op;
  for (const TensorType& t : c.inputs) text += " " + t.text();
  return text;
}

// sum of dy * y over the outputs that gradients flow through
double weighted_sum(const OpCase& c, const Setup& s, const std::map<std::string, HostTensor>& leaves,
                    const std::map<std::size_t, HostTensor>& dy) {
  const auto values = evaluate(const_cast<Setup&>(s).g.graph(), leaves, "ref");
  double sum = 0;
  for (const std::size_t o : c.flows) {
    const HostTensor& y = values[s.outputs[o].index];
    const HostTensor& w = dy.at(o);
    for (std::int64_t i = 0; i < y.type.elements(); ++i) sum += static_cast<double>(y.floats()[i]) * w.floats()[i];
  }
  return sum;
}

}  // namespace

void expect_same(const HostTensor& got, const HostTensor& want, double tolerance, const std::string& what) {
  if (want.type.dtype == DType::kBF16) {
    // A rounding that falls the other way is one part in 128.
    tolerance = std::max(tolerance, 1.0 / 64);
    int bad = 0;
    for (std::int64_t i = 0; i < want.type.elements() && bad < 5; ++i) {
      const double a = ops::real_at(DType::kBF16, got.data.data(), i);
      const double b = ops::real_at(DType::kBF16, want.data.data(), i);
      if (is_near(a, b, tolerance)) continue;
      ++bad;
      ADD_FAILURE() << what << " [" << i << "]: " << a << ", reference " << b;
    }
    return;
  }
  if (want.type.dtype != DType::kF32) {
    EXPECT_EQ(got.data, want.data) << what;
    return;
  }
  int bad = 0;
  for (std::int64_t i = 0; i < want.type.elements() && bad < 5; ++i) {
    if (is_near(got.floats()[i], want.floats()[i], tolerance)) continue;
    ++bad;
    ADD_FAILURE() << what << " [" << i << "]: " << got.floats()[i] << ", reference " << want.floats()[i];
  }
}

std::vector<HostTensor> run_op(const OpCase& c, std::string_view kernel) {
  Setup s(c);
  const auto values = evaluate(s.g.graph(), s.leaves, kernel);
  std::vector<HostTensor> out;
  for (const Value v : s.outputs) out.push_back(values[v.index]);
  for (const std::uint8_t i : op_named(c.op).mutates) {  // what the node changed counts as output too
    if (i < s.inputs.size() && s.inputs[i]) out.push_back(values[s.inputs[i].index]);
  }
  return out;
}

namespace {

// Each node by itself, with inputs that the reference has made.
void check_on_cuda(Graph& graph, const std::map<std::string, HostTensor>& leaves, const OpCase& c) {
  const auto values = evaluate(graph, leaves, "ref");
  const auto before = [&](TensorId id) {
    const auto leaf = leaves.find(graph.at(id).name);
    return leaf != leaves.end() ? &leaf->second : &values[id.index];
  };
  for (const Node& node : graph.nodes) {
    NodeCase n{.call = call_of(graph, node), .tolerance = c.tolerance};
    if (node.op->view_offset != nullptr && node.op->view_offset(n.call).has_value()) continue;
    for (const TensorId id : node.inputs) n.inputs.push_back(id ? before(id) : nullptr);
    for (const TensorId id : node.outputs) n.want.push_back(&values[id.index]);
    for (const std::uint8_t i : node.op->mutates) {
      if (i < node.inputs.size() && node.inputs[i]) n.want.push_back(&values[node.inputs[i].index]);
    }
    n.what = fmt::format("{} in {}", node.op->name, describe(c));
    check_node_on_cuda(n);
  }
}

// The op and its gradient as one graph.
void check_gradient_on_cuda(const OpCase& c) {
  Setup s(c);
  Values dy(s.outputs.size());
  for (const std::size_t o : c.flows) {
    const TensorType type = s.g.type(s.outputs[o]);
    dy[o] = s.g.input(fmt::format("dy{}", o), type.dtype, type.shape);
    s.leaves[fmt::format("dy{}", o)] = random_tensor(type, 900 + o);
  }
  const Node node = s.g.graph().nodes.at(0);
  std::vector<bool> wanted;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    const bool is_constant = std::find(c.constant.begin(), c.constant.end(), i) != c.constant.end();
    wanted.push_back(s.inputs[i] && c.inputs[i].dtype == DType::kF32 && !is_constant);
  }
  GradientCall call{.g = s.g, .node = node, .dy = dy, .wanted = wanted};
  node.op->gradient(call);
  check_on_cuda(s.g.graph(), s.leaves, c);
}

}  // namespace

void check_kernels(const OpCase& c) {
  const OpDef& op = op_named(c.op);
  if (check_node_on_cuda != nullptr) {
    Setup s(c);
    return check_on_cuda(s.g.graph(), s.leaves, c);
  }
  const auto want = run_op(c, "ref");
  for (std::size_t k = 0; k + 1 < op.kernel_count; ++k) {
    if (op.kernels[k].device != DeviceKind::kCpu) continue;
    const auto got = run_op(c, op.kernels[k].name);
    for (std::size_t i = 0; i < want.size(); ++i) {
      expect_same(got[i], want[i], c.tolerance, fmt::format("{} by {} output {}", describe(c), op.kernels[k].name, i));
    }
  }
}

void check_gradient(const OpCase& c) {
  if (op_named(c.op).gradient == nullptr) return;
  if (check_node_on_cuda != nullptr) return check_gradient_on_cuda(c);
  Setup plain(c);
  Setup with(c);
  std::map<std::size_t, HostTensor> seeds;
  Values dy(with.outputs.size());
  for (const std::size_t o : c.flows) {
    const TensorType type = with.g.type(with.outputs[o]);
    seeds[o] = random_tensor(type, 900 + o);
    dy[o] = with.g.input(fmt::format("dy{}", o), type.dtype, type.shape);
    with.leaves[fmt::format("dy{}", o)] = seeds[o];
  }
  const Node node = with.g.graph().nodes.at(0);
  std::vector<bool> wanted;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    const bool is_constant = std::find(c.constant.begin(), c.constant.end(), i) != c.constant.end();
    wanted.push_back(with.inputs[i] && c.inputs[i].dtype == DType::kF32 && !is_constant);
  }
  GradientCall call{.g = with.g, .node = node, .dy = dy, .wanted = wanted};
  const Values dx = node.op->gradient(call);
  const auto values = evaluate(with.g.graph(), with.leaves);
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    if (!wanted[i]) continue;
    ASSERT_LT(i, dx.size()) << describe(c);
    ASSERT_TRUE(dx[i]) << describe(c) << ": no gradient for input " << i;
    const HostTensor& got = values[dx[i].index];
    ASSERT_EQ(got.type.text(), c.inputs[i].text()) << describe(c);
    const std::string name = fmt::format("x{}", i);
    const std::int64_t n = got.type.elements();
    const std::int64_t stride = std::max<std::int64_t>(1, n / 37);  // a sample is enough for large tensors
    for (std::int64_t e = 0; e < n; e += stride) {
      auto leaves = plain.leaves;
      const float x = leaves[name].floats()[e];
      leaves[name].floats()[e] = x + static_cast<float>(c.step);
      const double up = weighted_sum(c, plain, leaves, seeds);
      leaves[name].floats()[e] = x - static_cast<float>(c.step);
      const double down = weighted_sum(c, plain, leaves, seeds);
      const double want = (up - down) / (2 * c.step);
      if (!is_near(got.floats()[e], want, c.gradient_tolerance)) {
        ADD_FAILURE() << describe(c) << ": gradient of input " << i << " [" << e << "] is " << got.floats()[e]
                      << ", differences say " << want;
        return;
      }
    }
  }
}

void check_op(const OpCase& c) {
  check_kernels(c);
  check_gradient(c);
}

}  // namespace neap
