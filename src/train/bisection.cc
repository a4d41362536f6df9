#include "train/bisection.h"

#include <algorithm>
#include <cstdlib>

namespace neap {

std::int64_t Bisection::run(std::int64_t start, std::int64_t low) {
  low_ = low;
  for (std::int64_t size = std::clamp(start, low + 1, most_); low_ + 1 < high_; size = next()) {
    (fits(size) ? low_ : high_) = size;
  }
  return low_;
}

const Need& Bisection::of(std::int64_t size) {
  const auto known = known_.find(size);
  return known != known_.end() ? known->second : known_.emplace(size, need_(size)).first->second;
}

bool Bisection::fits(std::int64_t size) {
  const Need& n = of(size);
  return n.refusal.empty() && n.bytes <= budget_;
}

std::int64_t Bisection::next() {
  ++rounds_;
  const std::int64_t middle = high_ > most_ ? low_ * 2 : low_ + (high_ - low_) / 2;
  std::int64_t guess = middle;
  const bool is_line = rounds_ % 3 != 0 && known_.size() > 1;  // every third time halves, whatever the line says
  if (is_line) guess = on_the_line().value_or(middle);
  return std::clamp(guess, low_ + 1, high_ - 1);
}

std::optional<std::int64_t> Bisection::on_the_line() const {
  const std::pair<const std::int64_t, Need>* a = nullptr;
  const std::pair<const std::int64_t, Need>* b = nullptr;
  for (const auto& each : known_) {  // the two that are nearest to the budget
    if (!each.second.refusal.empty()) continue;
    const auto away = [&](const auto* p) { return std::abs(p->second.bytes - budget_); };
    if (a == nullptr || away(&each) < away(a)) {
      b = a;
      a = &each;
    } else if (b == nullptr || away(&each) < away(b)) {
      b = &each;
    }
  }
  if (b == nullptr || a->second.bytes == b->second.bytes) return std::nullopt;
  const double slope =
      static_cast<double>(a->second.bytes - b->second.bytes) / static_cast<double>(a->first - b->first);
  if (!(slope > 0)) return std::nullopt;
  const double guess = static_cast<double>(a->first) + static_cast<double>(budget_ - a->second.bytes) / slope;
  return static_cast<std::int64_t>(std::clamp(guess, 1.0, static_cast<double>(most_)));
}

}  // namespace neap
