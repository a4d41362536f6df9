// Plans between which the simulator cannot judge for sure, run in turn: the one whose shortest steps are the shortest
// stays. What a transfer takes from the calls beside it, no time of a call alone can say.
// Who began a round ends it, too: where the machine has become faster or slower meanwhile, that says so, and the round
// is run again.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "plan/plan.h"

namespace neap {

class Race {
 public:
  // At least two, valid and within the budget; the first runs.
  explicit Race(std::vector<Plan> plans);

  const Plan& running() const { return runners_[at_].plan; }
  // A step of it has taken so long. True: running() is another plan now, and waits to be swapped in.
  bool add(double ms);
  bool is_waiting() const { return is_waiting_; }
  void swapped_in() { is_waiting_ = false; }
  std::int64_t bytes() const;  // that the plans take
  // running() has won.
  bool is_over() const { return is_over_; }
  // What it has cost so far: as many steps of the fastest as all of them took longer.
  double lost_steps() const;

 private:
  struct Runner {
    Plan plan;
    std::vector<double> ms;   // of rounds that count
    std::vector<double> now;  // of this one
    bool is_out = false;
    double takes() const;  // of those steps
    void drop_out();       // its plan takes no memory any more
  };
  void end_visit();
  void end_round();
  bool is_disturbed() const;
  void count_round();
  std::size_t next() const;
  std::size_t fastest() const;
  void drop_the_hopeless();
  void drop_all_but(std::size_t count);
  std::size_t left() const;

  std::vector<Runner> runners_;
  std::size_t at_ = 0;
  std::size_t first_ = 0;        // who began the round
  bool is_closing_ = false;      // and runs again to end it
  std::vector<double> closing_;  // what it takes then
  int visit_ = 0;                // steps of this one
  int round_ = 0;
  int repeats_ = 0;
  double total_ms_ = 0;  // of all steps, those that pay for a change included
  int steps_ = 0;
  bool is_over_ = false;
  bool is_waiting_ = false;
};

// Who runs within `limit` bytes, the first to begin: the plan that is offered, its rivals, what runs now, so that no
// new plan stays that is slower in fact, and what ran before. Not what the simulator (`ms`) calls much worse than what
// runs now, since that is no matter of noise; but about the link it may be wrong, so rivals that spill do. Of plans
// that decide the same and take as long by the simulator one runs: what runs now, if it is one of them. Four at most,
// and fewer where they themselves would take more than `room`: those that spill before those that do not, what ran
// before last.
std::vector<Plan> entrants_of(std::vector<Plan> offered, const Plan& present, std::optional<Plan> former,
                              std::int64_t limit, const std::function<double(const Plan&)>& ms,
                              std::int64_t room = std::numeric_limits<std::int64_t>::max());

// From one race to the next: until what the last one has cost is a hundredth of the steps, and longer every time, since
// machines that are never quiet would race without end.
class RaceRest {
 public:
  void begin(std::int64_t step, double lost_steps);  // after a race that has ended before that step
  bool is_over(std::int64_t step) const { return step >= until_; }
  void forget() { *this = {}; }  // what raced was for something else

 private:
  std::int64_t races_ = 0;
  std::int64_t until_ = 0;
};

}  // namespace neap
