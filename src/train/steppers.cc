#include "train/steppers.h"

#include <algorithm>

namespace neap {

Stepper* Steppers::find(const BatchShape& shape) {
  const auto at = std::find_if(all_.begin(), all_.end(), [&](const auto& s) { return s->shape() == shape; });
  if (at == all_.end()) return nullptr;
  all_.splice(all_.begin(), all_, at);
  return at->get();
}

Stepper* Steppers::peek(const BatchShape& shape) {
  const auto at = std::find_if(all_.begin(), all_.end(), [&](const auto& s) { return s->shape() == shape; });
  return at == all_.end() ? nullptr : at->get();
}

Stepper& Steppers::add(std::unique_ptr<Stepper> stepper) {
  if (first_ == nullptr) first_ = stepper.get();
  constexpr std::size_t kFewest = 3;  // the first, the one whose turn it was, and this one
  while (all_.size() >= std::max(most_, kFewest)) {
    const auto oldest = std::find_if(all_.rbegin(), all_.rend(), [&](const auto& s) { return s.get() != first_; });
    all_.erase(std::next(oldest).base());
  }
  all_.push_front(std::move(stepper));
  return *all_.front();
}

}  // namespace neap
