// The shapes that a run has seen lately. Those not used for longest go when there are too many.
#pragma once

#include <list>
#include <memory>

#include "train/stepper.h"

namespace neap {

class Steppers {
 public:
  explicit Steppers(std::size_t most) : most_(most) {}

  // The stepper of that shape, as the one used last; null: there is none.
  Stepper* find(const BatchShape& shape);
  // The same without using it.
  Stepper* peek(const BatchShape& shape);
  // The first one stays for ever: it is the way to the state.
  Stepper& add(std::unique_ptr<Stepper> stepper);
  Stepper& first() { return *first_; }
  const Stepper& first() const { return *first_; }
  std::size_t size() const { return all_.size(); }
  auto begin() { return all_.begin(); }
  auto end() { return all_.end(); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

 private:
  std::size_t most_;
  std::list<std::unique_ptr<Stepper>> all_;  // the one used last comes first
  Stepper* first_ = nullptr;
};

}  // namespace neap
