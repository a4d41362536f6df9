#include "observe/hal.h"

#include <algorithm>
#include <chrono>
#include <list>
#include <unordered_map>

#include "graph/op.h"

namespace neap {
namespace {

// Tensors that share their memory, as one: the first of them.
std::vector<std::uint32_t> roots_of(const Graph& graph) {
  std::vector<std::uint32_t> out(graph.tensors.size());
  for (std::uint32_t i = 0; i < out.size(); ++i) out[i] = i;
  for (const Node& node : graph.nodes) {
    if (node.op->view_offset == nullptr || !node.op->view_offset(call_of(graph, node))) continue;
    out[node.outputs[0].index] = out[node.inputs[0].index];
  }
  return out;
}

// Tensors by the time of their last touch, the latest in front.
class Stack {
 public:
  // Bytes from the front to this tensor, with it; negative where it has never been touched.
  double depth(std::uint32_t tensor) const {
    const auto found = at_.find(tensor);
    if (found == at_.end()) return -1;
    double sum = 0;
    for (auto each = order_.begin(); each != std::next(found->second); ++each) sum += each->bytes;
    return sum;
  }
  void touch(std::uint32_t tensor, double bytes) {
    const auto found = at_.find(tensor);
    if (found != at_.end()) order_.erase(found->second);
    order_.push_front({tensor, bytes});
    at_[tensor] = order_.begin();
  }

 private:
  struct Entry {
    std::uint32_t tensor;
    double bytes;
  };
  std::list<Entry> order_;
  std::unordered_map<std::uint32_t, std::list<Entry>::iterator> at_;
};

class Model {
 public:
  Model(const Graph& graph, const Caches& caches)
      : graph_(graph), caches_(caches), roots_(roots_of(graph)), made_by_(graph.tensors.size()) {}

  // The second of two steps: the first finds nothing.
  std::vector<MemoryTraffic> run() {
    run_step();
    run_step();
    return std::move(traffic_);
  }

 private:
  void run_step() {
    traffic_.assign(graph_.nodes.size(), {});
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (!node.outputs.empty() && roots_[node.outputs[0].index] != node.outputs[0].index) continue;  // a view
      for (const TensorId id : node.inputs) {
        if (id) read(id, i);
      }
      for (const TensorId id : node.outputs) write(id, i);
    }
  }

  double bytes_of(TensorId id) const { return static_cast<double>(graph_.at(id).type.bytes()); }

  void read(TensorId id, std::uint32_t node) {
    const std::uint32_t root = roots_[id.index];
    const double depth = stack_.depth(root);
    const double bytes = bytes_of(id);
    MemoryTraffic& traffic = traffic_[node];
    const auto holds = [&](std::int64_t cache) { return depth >= 0 && depth <= static_cast<double>(cache); };
    if (holds(caches_.l1_bytes)) {
      traffic.from_l1 += bytes;
    } else if (holds(caches_.l2_bytes)) {
      traffic.from_l2 += bytes;
    } else if (holds(caches_.l3_bytes)) {
      traffic.from_l3 += bytes;
    } else {
      traffic.from_memory += bytes;
      if (made_by_[root]) traffic_[*made_by_[root]].to_memory += bytes;
    }
    made_by_[root].reset();  // what goes out goes once
    stack_.touch(root, bytes);
  }

  void write(TensorId id, std::uint32_t node) {
    const std::uint32_t root = roots_[id.index];
    made_by_[root] = node;
    stack_.touch(root, bytes_of(id));
  }

  const Graph& graph_;
  const Caches& caches_;
  std::vector<std::uint32_t> roots_;
  std::vector<std::optional<std::uint32_t>> made_by_;  // of what nobody has read since
  Stack stack_;
  std::vector<MemoryTraffic> traffic_;
};

Reading share(double part, double whole, Source source) {
  return whole > 0 ? Reading{part / whole, source} : Reading{};
}

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

#if defined(__x86_64__)
constexpr int kChain = 64;
// A chain of additions, each waiting for the one before.
void add_in_turn(int rounds) {
  std::uint64_t sum = 0;
  for (int i = 0; i < rounds; ++i) {
    __asm__ volatile(".rept 64\n\tadd $1, %0\n\t.endr" : "+r"(sum));
  }
}
#else
constexpr int kChain = 0;
void add_in_turn(int /*rounds*/) {}
#endif

}  // namespace

std::string_view name(Source source) {
  switch (source) {
    case Source::kHardware: return "hw";
    case Source::kModelled: return "modelled";
    case Source::kAbsent: break;
  }
  return "absent";
}

MemoryTraffic& MemoryTraffic::operator+=(const MemoryTraffic& other) {
  from_l1 += other.from_l1;
  from_l2 += other.from_l2;
  from_l3 += other.from_l3;
  from_memory += other.from_memory;
  to_memory += other.to_memory;
  return *this;
}

std::vector<MemoryTraffic> modelled_traffic(const Graph& graph, const Caches& caches) {
  return Model(graph, caches).run();
}

MemoryActivity activity_of(const MemoryTraffic& m, const std::optional<CounterReading>& counted) {
  const double beyond_l1 = m.read() - m.from_l1;
  MemoryActivity out{.l1_hit_rate = share(m.from_l1, m.read(), Source::kModelled),
                     .l2_hit_rate = share(m.from_l2, beyond_l1, Source::kModelled),
                     .l3_hit_rate = share(m.from_l3, beyond_l1 - m.from_l2, Source::kModelled),
                     .memory_bytes = {m.from_memory + m.to_memory, Source::kModelled}};
  if (!counted) return out;
  constexpr double kLine = 64;
  const auto number = [](std::uint64_t n) { return static_cast<double>(n); };
  if (counted->l1_reads > 0) {
    out.l1_hit_rate = {1 - number(counted->l1_misses) / number(counted->l1_reads), Source::kHardware};
  }
  if (counted->cache_references > 0) {
    out.l3_hit_rate = {1 - number(counted->cache_misses) / number(counted->cache_references), Source::kHardware};
  }
  out.memory_bytes = {number(counted->cache_misses) * kLine, Source::kHardware};
  return out;
}

Reading core_clock_mhz(const HardwareCounters* counters) {
  if (kChain == 0) return {};
  constexpr int kRounds = 20'000;
  double best = 0;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const CounterReading before = counters != nullptr ? counters->read() : CounterReading{};
    const auto start = Clock::now();
    add_in_turn(kRounds);
    const double seconds = seconds_since(start);
    const double cycles = counters != nullptr ? static_cast<double>((counters->read() - before).cycles)
                                              : static_cast<double>(kRounds) * kChain;
    best = std::max(best, cycles / seconds * 1e-6);
  }
  return {best, counters != nullptr ? Source::kHardware : Source::kModelled};
}

}  // namespace neap
