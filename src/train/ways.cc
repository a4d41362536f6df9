#include "train/ways.h"

#include <algorithm>

namespace neap {
namespace {

constexpr std::size_t kFew = 3;

Way way_of(std::vector<const Optimization*> passes) {
  Way out{.name = passes.empty() ? "nothing" : "", .passes = std::move(passes)};
  for (const Optimization* each : out.passes) {
    out.name += (out.name.empty() ? "" : "+") + std::string(each->name);
    out.tolerance += each->tolerance;
    out.strategy = each == out.passes.front() || each->strategy == out.strategy ? each->strategy : Strategy::kHybrid;
  }
  return out;
}

}  // namespace

std::vector<Way> ways_of(const std::vector<const Optimization*>& library) {
  std::vector<Way> out = {way_of({})};
  for (const Optimization* each : library) out.push_back(way_of({each}));
  const std::size_t sets = library.size() <= kFew ? std::size_t{1} << library.size() : 0;
  for (std::size_t set = 0; set < sets; ++set) {
    std::vector<const Optimization*> passes;
    for (std::size_t i = 0; i < library.size(); ++i) {
      if ((set >> i & 1) != 0) passes.push_back(library[i]);
    }
    if (passes.size() > 1) out.push_back(way_of(std::move(passes)));
  }
  if (sets == 0) out.push_back(way_of(library));
  return out;
}

}  // namespace neap
