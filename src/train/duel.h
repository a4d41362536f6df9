// Two forms of a step that run in turn, timed node by node: how much they differ, and how sure that is on a machine
// that does other things too. Bursts are cut off node by node; what slows a whole step down is seen in the nodes that
// are the same on both sides, and taken off; the rest is a median of differences between neighbouring steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace neap {

struct Difference {
  double old_ms = 0;
  double ms = 0;        // that the fresh one takes longer; below 0: that it saves
  double error_ms = 0;  // of that, one standard deviation
};

enum class Verdict : std::uint8_t { kOpen, kFaster, kSlower, kSame };

class Duel {
 public:
  Duel() = default;
  // `differs`: of each node, whether the sides do something else there.
  explicit Duel(std::vector<bool> differs) : differs_(std::move(differs)) {}

  // Whose turn it is: old, fresh, fresh, old and again, so that a steady trend strikes both alike.
  bool is_fresh_next() const {
    return (fresh_.size() + old_.size()) % 4 == 1 || (fresh_.size() + old_.size()) % 4 == 2;
  }
  // Milliseconds of each node in a step of one side.
  void add(bool is_fresh, std::vector<double> nodes);
  // Both sides have had the same number of steps.
  bool is_even() const { return !old_.empty() && old_.size() == fresh_.size(); }
  std::size_t pairs() const { return old_.size() < fresh_.size() ? old_.size() : fresh_.size(); }
  std::size_t fresh_steps() const { return fresh_.size(); }
  const std::vector<bool>& differs() const { return differs_; }

  // Of the whole step, and of the nodes [first, last). At least one pair.
  Difference whole() const;
  Difference of(std::size_t first, std::size_t last) const;
  // Of each node, over the rounds so far.
  std::vector<double> old_nodes() const;
  std::vector<double> fresh_nodes() const;

 private:
  using Rounds = std::vector<std::vector<double>>;
  struct Series {              // a value for each pair
    std::vector<double> part;  // fresh less old, over the nodes that differ
    std::vector<double> rest;  // over those that do not
    double part_ms = 0, rest_ms = 0;
  };
  Series series(std::size_t first, std::size_t last) const;

  std::vector<bool> differs_;
  Rounds old_, fresh_;
  std::vector<double> old_limit_, fresh_limit_;  // of each node: what lies above it is a burst
};

// What can be said after so many pairs; `step_ms`: of the step to which it belongs.
Verdict verdict_of(const Difference& difference, std::size_t pairs, double step_ms);
// And when there will be no more of them: never kOpen.
Verdict last_verdict_of(const Difference& difference, double step_ms);

}  // namespace neap
