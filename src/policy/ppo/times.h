// What the ways to run one layer took so far, sequence by sequence.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "policy/ppo/state.h"

namespace neap::ppo {

// The least of an action's last few sequences stands for it: what else the machine does only ever adds. When that least
// jumps although the action has been seen often enough, it is the machine that changed: what is known of the other
// actions is scaled alike, and their visits no longer count.
class Times {
 public:
  void reset(std::size_t actions, std::size_t chunks);
  std::size_t chunks() const { return places_.size(); }
  std::size_t actions() const { return of_.size(); }

  // A sequence: the action of each chunk, and the microseconds a time step that it took. The first one warms up and is
  // not counted. Allocates nothing.
  void note(std::span<const std::size_t> taken, std::span<const double> us);

  // Into `measured_us` and `visits`.
  void tell(LayerState& state) const;
  // The least of all, 0 when there is none.
  double best_us() const;
  std::int64_t bytes() const {
    return static_cast<std::int64_t>(of_.size() * sizeof(Of) + places_.size() * sizeof(double));
  }

 private:
  static constexpr int kKept = 3;       // sequences
  static constexpr double kJump = 1.2;  // of the least, either way
  struct Of {
    double last[kKept] = {};
    int count = 0;   // ever
    int visits = 0;  // since the machine changed
    double sum = 0, share = 0;
    int chunks = 0;  // in the sequence that is being noted
    double least() const;
  };
  void add(std::size_t action, double us);
  void scale_others(std::size_t action, double by);
  void note_places(std::span<const double> us);

  std::vector<Of> of_;
  std::vector<double> places_;  // what a chunk at this place takes beside the mean of all: the first has no state
  bool is_warm_ = false;
};

}  // namespace neap::ppo
