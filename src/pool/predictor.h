// What guesses how long each activation of a step will be needed. A guess never decides what is alive: it only says
// where bytes lie and what leaves, so a bad one costs bytes and time, never a result.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "plan/plan.h"

namespace neap {

// A block is asked for.
struct AllocationEvent {
  std::uint32_t site = 0;   // where in the program: layer, op, output and phase, hashed; the same for every length
  std::uint32_t layer = 0;  // hashed
  std::uint32_t op = 0;     // hashed
  std::uint8_t phase = 0;   // a Phase; of a second run: backward
  std::int64_t bytes = 0;
  Tick tick = 0;
  Tick ticks = 0;           // instructions of the step
  std::int64_t length = 0;  // of this batch
  friend bool operator==(const AllocationEvent&, const AllocationEvent&) = default;
};

// Quantiles of the lifespan, in ticks.
struct Lifetime {
  double p10 = 0;
  double p50 = 0;
  double p90 = 0;
  friend bool operator==(const Lifetime&, const Lifetime&) = default;
};

class LifetimePredictor {
 public:
  virtual ~LifetimePredictor() = default;
  virtual std::string_view name() const = 0;
  // The events of one step in program order, before it runs; one lifetime an event.
  virtual void predict(std::span<const AllocationEvent> step, std::span<Lifetime> out) = 0;
  // After it ran.
  virtual void observe(std::span<const AllocationEvent> step, std::span<const Tick> lifespans) = 0;
  // That it takes itself, where that is worth counting.
  virtual std::int64_t own_bytes() const { return 0; }
};

}  // namespace neap
