// What is known of each place in the program at which a step asks for memory: the lifespans that were seen there.
//
// A site can come up many times in a step, once a chunk of a recurrent layer, say. Its turns are counted from both
// ends: what lives until the loss depends on the turns that are still to come, what waits for a weight's last gradient
// on those that have been.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "pool/predictor.h"

namespace neap {

// Which of its site's turns an event is.
struct Turn {
  std::uint32_t from_start = 0;
  std::uint32_t from_end = 0;
};
std::vector<Turn> turns_of(std::span<const AllocationEvent> step);

// One simple way to guess a lifespan.
struct Estimate {
  bool is_known = false;
  double ticks = 0;
  double error = 1;  // |ln(truth / guess)| at this place, recent ones weigh more
  int tests = 0;     // guesses that could be checked so far
};

enum class Guess : std::uint8_t {
  kLine,           // a straight line over the instructions of the step, at the same turn
  kLastFromEnd,    // what it was the last time, that many turns before the site's last
  kLastFromStart,  // what it was the last time, at the same turn
};
inline constexpr std::size_t kGuesses = 3;
using Estimates = std::array<Estimate, kGuesses>;

// The index of the one to believe; kGuesses: none is known.
std::size_t best_of(const Estimates& estimates);

class SiteHistory {
 public:
  Estimates estimates(const AllocationEvent& event, Turn turn) const;
  void learn(std::span<const AllocationEvent> step, std::span<const Tick> lifespans);
  std::int64_t bytes() const;

 private:
  // Least squares with weights that fade, so that what changed is forgotten.
  struct Line {
    double n = 0, x = 0, y = 0, xx = 0, xy = 0;
    void add(double at, double value);
    bool is_known() const;
    double value(double at) const;
  };
  struct Record {
    double error = 1;
    int tests = 0;
    void check(double guess, double truth);
  };
  struct Place {
    Tick last = 0;  // 0: never seen
    Line line;
    Record last_record, line_record;
  };
  struct Site {
    std::vector<Place> from_start;
    std::vector<Place> from_end;  // their lines are not used
  };

  std::unordered_map<std::uint32_t, Site> sites_;
};

}  // namespace neap
