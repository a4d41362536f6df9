#include "train/state.h"

#include <fmt/format.h>

#include "neap/error.h"

namespace neap {

// Greedy with one point of return (the last '*'), so that no pattern takes exponential time.
bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t star = std::string_view::npos;
  std::size_t resume = 0;
  for (std::size_t t = 0; t < text.size();) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

void freeze(Graph& graph, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    int hits = 0;
    for (Tensor& t : graph.tensors) {
      if (t.role != Role::kParameter || !matches(pattern, t.name)) continue;
      t.trainable = false;
      ++hits;
    }
    if (hits == 0) throw UserError(fmt::format("--freeze '{}' matches no parameter", pattern));
  }
}

}  // namespace neap
