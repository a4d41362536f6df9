#include "plan/pack_validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace neap {
namespace {

bool meet(std::int64_t a, std::int64_t a_end, std::int64_t b, std::int64_t b_end) { return a < b_end && b < a_end; }

std::string find_collision(const PackProblem& problem, const Packing& packing) {
  const auto& items = problem.items;
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return items[a].lower < items[b].lower; });
  for (std::size_t x = 0; x < order.size(); ++x) {
    const std::size_t i = order[x];
    const std::int64_t end = packing.offsets[i] + items[i].size;
    for (std::size_t y = x + 1; y < order.size() && items[order[y]].lower < items[i].upper; ++y) {
      const std::size_t j = order[y];
      if (meet(packing.offsets[i], end, packing.offsets[j], packing.offsets[j] + items[j].size)) {
        return fmt::format("items {} and {} share bytes while both are alive", i, j);
      }
    }
  }
  return "";
}

}  // namespace

std::string find_fault(const PackProblem& problem, const Packing& packing) {
  if (packing.offsets.size() != problem.items.size()) return "not one offset an item";
  std::int64_t highest = 0;
  for (std::size_t i = 0; i < problem.items.size(); ++i) {
    const std::int64_t at = packing.offsets[i];
    if (at < 0 || at % problem.alignment != 0) return fmt::format("item {} has offset {}", i, at);
    highest = std::max(highest, at + problem.items[i].size);
  }
  if (highest != packing.height) return fmt::format("the height is {}, not {}", highest, packing.height);
  if (packing.fits != (highest <= problem.capacity)) return "wrong about whether it fits";
  if (packing.fits != packing.reason.empty()) return "a reason is given if and only if it does not fit";
  return find_collision(problem, packing);
}

}  // namespace neap
