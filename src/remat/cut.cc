#include "remat/cut.h"

#include <algorithm>

#include "remat/flow.h"
#include "remat/sides.h"

namespace neap::remat {
namespace {

constexpr double kInfinite = 1e300;

class Cutter {
 public:
  Cutter(const Problem& problem, const Uses& uses, OpIndex k, std::int64_t budget)
      : p_(problem), uses_(uses), sides_(sides_of(problem, uses, k)) {
    std::int64_t room = budget - uses.input_bytes() - p_.ops[k].workspace;
    is_free_.resize(p_.tensors.size());
    for (TensorIndex t = 0; t < p_.tensors.size(); ++t) {
      const OpIndex op = p_.tensors[t].op;
      is_free_[t] = op == kNoOp || sides_[op] != Side::kBefore;
    }
    for (const TensorIndex t : p_.ops[k].inputs) {
      if (p_.tensors[t].op != kNoOp) room -= p_.tensors[t].bytes;
      is_free_[t] = true;
    }
    for (const TensorIndex t : p_.ops[k].outputs) room -= p_.tensors[t].bytes;
    room_ = static_cast<double>(room);
  }

  bool has_room() const { return room_ >= 0; }

  // The bound for one price, and the bytes that the cut keeps resident.
  double look(double price, std::int64_t work, double& resident, std::vector<bool>& is_resident) {
    const auto tensors = static_cast<std::uint32_t>(p_.tensors.size());
    const auto ops = static_cast<std::uint32_t>(p_.ops.size());
    const std::uint32_t source = tensors + ops;
    const std::uint32_t sink = source + 1;
    FlowNetwork net(tensors + ops + 2);
    for (TensorIndex t = 0; t < tensors; ++t) {
      if (is_free_[t]) continue;
      if (is_needed(t)) net.add_edge(source, t, kInfinite);
      net.add_edge(t, tensors + p_.tensors[t].op, price * static_cast<double>(p_.tensors[t].bytes));
    }
    for (OpIndex op = 0; op < ops; ++op) {
      if (sides_[op] != Side::kBefore) continue;
      net.add_edge(tensors + op, sink, p_.ops[op].recompute ? p_.ops[op].ms : kInfinite);
      for (const TensorIndex t : p_.ops[op].inputs) {
        if (!is_free_[t]) net.add_edge(tensors + op, t, kInfinite);
      }
    }
    const double flow = net.push(source, sink, work);
    const std::vector<bool> side = net.source_side(source);
    resident = 0;
    is_resident.assign(tensors, false);
    for (TensorIndex t = 0; t < tensors; ++t) {
      if (is_free_[t] || !side[t] || side[tensors + p_.tensors[t].op]) continue;
      is_resident[t] = true;
      resident += static_cast<double>(p_.tensors[t].bytes);
    }
    return flow - price * room_;
  }
  double room() const { return room_; }

 private:
  bool is_needed(TensorIndex t) const {
    for (const OpIndex reader : uses_.of(t)) {
      if (reader == p_.ops.size() || sides_[reader] == Side::kAfter) return true;
    }
    return false;
  }

  const Problem& p_;
  const Uses& uses_;
  std::vector<Side> sides_;
  std::vector<bool> is_free_;  // resident at k anyway, or not counted
  double room_ = 0;
};

}  // namespace

CutBound cut_bound(const Problem& problem, const Uses& uses, OpIndex k, std::int64_t budget, int prices,
                   std::int64_t work) {
  CutBound out{.ms = 0, .is_resident = std::vector<bool>(problem.tensors.size())};
  Cutter cutter(problem, uses, k, budget);
  if (!cutter.has_room()) return out;
  const double total = baseline_ms(problem);
  // The bound is concave in the price, and rises as long as more is resident than there is room.
  double low = 0;
  double high = total / std::max(1.0, cutter.room());
  double resident = 0;
  std::vector<bool> is_resident;
  for (int i = 0; i < prices; ++i) {
    const double price = i == 0 ? high / 64 : (low + high) / 2;
    const double ms = cutter.look(price, work / prices, resident, is_resident);
    if (ms > out.ms) out.ms = ms;
    if (resident > cutter.room()) {
      low = price;
    } else {
      high = price;
      out.is_resident = is_resident;  // fits
    }
  }
  out.ms *= 1 - 1e-9;
  return out;
}

}  // namespace neap::remat
