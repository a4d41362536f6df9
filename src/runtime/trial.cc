#include "runtime/trial.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "core/bytes.h"
#include "graph/op.h"

namespace neap {
namespace {

// Bytes of the arena that no block has at one tick.
class Holes {
 public:
  Holes(const Plan& plan, Tick tick) {
    std::vector<std::pair<std::int64_t, std::int64_t>> taken = {{0, align_up(plan.state_bytes)}};
    for (const Block& b : plan.blocks) {
      const bool is_alive = b.lower <= tick && tick < b.upper;
      if (is_alive && b.bytes > 0) taken.emplace_back(b.offset, b.offset + b.bytes);
    }
    std::sort(taken.begin(), taken.end());
    std::int64_t at = 0;
    for (const auto& [begin, end] : taken) {
      if (begin > at) free_.emplace_back(at, begin);
      at = std::max(at, end);
    }
    if (plan.peak_bytes > at) free_.emplace_back(at, plan.peak_bytes);
  }

  std::optional<std::int64_t> take(std::int64_t bytes) {
    for (auto& [begin, end] : free_) {
      if (end - begin < bytes) continue;
      const std::int64_t out = begin;
      begin = std::min(end, align_up(begin + bytes));
      return out;
    }
    return std::nullopt;
  }

 private:
  std::vector<std::pair<std::int64_t, std::int64_t>> free_;
};

// Room for a second run of instruction t.
std::optional<Trial> with_room(const Plan& plan, const Graph& graph, Tick t, std::size_t input) {
  const Instruction& in = plan.instructions[t];
  const Node& node = graph.at(in.node);
  Holes holes(plan, t);
  const auto copy = holes.take(graph.at(node.inputs[input]).type.bytes());
  if (!copy) return std::nullopt;
  Trial out{.launch = t,
            .input = input,
            .watched = node.outputs.size(),
            .elements = graph.at(node.inputs[input]).type.elements(),
            .copy = *copy};
  for (std::size_t o = 0; o < node.outputs.size(); ++o) {
    out.outputs.push_back(0);
    if (!in.outputs[o].block) continue;
    const TensorType& type = graph.at(node.outputs[o]).type;
    const auto place = holes.take(type.bytes());
    if (!place) return std::nullopt;
    out.outputs[o] = *place;
    if (type.dtype != DType::kF32 || out.watched < o) continue;
    out.watched = o;
    out.watched_elements = type.elements();
  }
  return out.watched < node.outputs.size() ? std::optional(out) : std::nullopt;
}

// Sums are taken in parts, so many whatever the number of threads.
constexpr int kParts = 16;
std::int64_t begin_of(int part, std::int64_t elements) { return elements * part / kParts; }

std::uint64_t mixed(std::uint64_t x) {  // splitmix64
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

}  // namespace

std::optional<Trial> find_trial(const Plan& plan, const Graph& graph, TensorId tensor) {
  const std::vector<Window> views = find_views(graph);
  for (Tick t = 0; t < plan.instructions.size(); ++t) {
    const Instruction& in = plan.instructions[t];
    const Node& node = graph.at(in.node);
    if (in.action != Action::kRun || node.phase != Phase::kBackward || node.op->side_effects()) continue;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] && views[node.inputs[i].index].root == tensor) return with_room(plan, graph, t, i);
    }
  }
  return std::nullopt;
}

void disturb(const float* src, std::int64_t elements, std::uint64_t key, float* dst) {
  std::array<double, kParts> squares{};
#pragma omp parallel for schedule(static)
  for (int p = 0; p < kParts; ++p) {
    double sum = 0;
    for (std::int64_t i = begin_of(p, elements); i < begin_of(p + 1, elements); ++i) {
      sum += static_cast<double>(src[i]) * static_cast<double>(src[i]);
    }
    squares[static_cast<std::size_t>(p)] = sum;
  }
  const double square = std::accumulate(squares.begin(), squares.end(), 0.0);
  // Uniform in [-a, a] has variance a^2 / 3.
  const double reach = std::sqrt(3 * kTrialNoise * square / static_cast<double>(std::max<std::int64_t>(elements, 1)));
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < elements; ++i) {
    const auto bits = mixed(key * 0x2545F4914F6CDD1DU + static_cast<std::uint64_t>(i)) >> 40U;  // 24 of them
    dst[i] = src[i] + static_cast<float>(reach * (static_cast<double>(bits) * 0x1p-23 - 1));
  }
}

TrialResult judge(const Trial& trial, const float* disturbed, const float* output) {
  std::array<TrialResult, kParts> parts{};
#pragma omp parallel for schedule(static)
  for (int p = 0; p < kParts; ++p) {
    TrialResult& part = parts[static_cast<std::size_t>(p)];
    const std::int64_t end = begin_of(p + 1, trial.watched_elements);
    for (std::int64_t i = begin_of(p, trial.watched_elements); i < end; ++i) {
      const double x = static_cast<double>(output[i]);
      part.square += x * x;
      const std::uint64_t bits = mixed(static_cast<std::uint64_t>(i));
      part.sketch[bits & 0xFFU] += (bits >> 63U) != 0 ? x : -x;
      if (!trial.is_disturbed) continue;
      const double d = static_cast<double>(disturbed[i]) - x;
      part.change += d * d;
    }
  }
  TrialResult out;
  for (const TrialResult& part : parts) {
    out.square += part.square;
    out.change += part.change;
    for (std::size_t k = 0; k < out.sketch.size(); ++k) out.sketch[k] += part.sketch[k];
  }
  return out;
}

}  // namespace neap
