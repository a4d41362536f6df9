// Plans beside training: a thread of the lowest priority makes and validates them, the trainer swaps them in between
// two steps. Nobody ever waits for it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "policy/policy.h"
#include "runtime/prepare.h"
#include "train/stepper.h"

namespace neap {

// All that planning reads, as it was when the plan was asked for.
struct PlanRequest {
  BatchShape shape;
  std::shared_ptr<const Program> program;  // its graph; not its costs, which go on changing
  Costs costs;
  Link link;
  StateLayout layout;
  std::shared_ptr<const Policy> policy;
  std::optional<std::int64_t> budget;
  bool stores_all = false;             // the budget leaves room for everything
  std::optional<StoredLevels> levels;  // none: exact
};

struct PlanAnswer {
  BatchShape shape;
  std::optional<std::int64_t> budget;
  std::optional<Plan> plan;  // valid; none: `error` says why
  std::vector<Plan> rivals;  // that may be faster in fact
  std::string error;
  double planning_ms = 0;
};

PlanAnswer answer(const PlanRequest& request);

class Controller {
 public:
  // Synchronous: ask() answers before it returns. For tests, where the moment of a swap must not depend on timing.
  explicit Controller(bool is_synchronous) : is_synchronous_(is_synchronous) {}
  ~Controller();
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  // In place of a request for the same shape and budget that still waits. The thread starts with the first.
  void ask(PlanRequest request);
  // The next plan that is there. Takes no lock when there is none.
  std::optional<PlanAnswer> take();
  // A plan is being made, or about to be: the thread takes time from the calls.
  bool is_busy() const { return is_busy_; }
  // Processor time of the thread besides planning.
  double overhead_ms() const { return overhead_ms_; }

 private:
  void run();

  bool is_synchronous_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<PlanRequest> requests_;
  std::deque<PlanAnswer> answers_;
  std::atomic<bool> has_answers_ = false;
  std::atomic<bool> is_busy_ = false;
  std::atomic<double> overhead_ms_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace neap
