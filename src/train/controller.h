// Plans beside training: a thread of low priority makes and validates them, the trainer swaps them in between two
// steps. Nobody waits for it, but for a plan that was asked for ahead when its step has come.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "policy/policy.h"
#include "runtime/prepare.h"
#include "train/rounded.h"
#include "train/stepper.h"

namespace neap {

// By which it is settled what is rounded: nothing that was measured, nor learnt.
struct Guesses {
  Costs costs;
  Link link;
  StoredLevels levels;  // to choose from
};

// All that planning reads, as it was when the plan was asked for.
struct PlanRequest {
  BatchShape shape;
  std::shared_ptr<const Program> program;  // its graph; not its costs, which go on changing
  Costs costs;
  Link link;
  StateLayout layout;
  std::shared_ptr<const Policy> policy;
  std::optional<std::int64_t> budget;
  bool stores_all = false;         // the budget leaves room for everything
  bool is_measured = true;         // the costs are: they may improve upon the plan by guesses
  std::optional<Guesses> guesses;  // given: these settle anew what is rounded
  std::optional<Rounded> rounded;  // given: what the plan has to round
  std::optional<Plan> present;     // given: what runs, to start from
};

struct PlanAnswer {
  BatchShape shape;
  std::optional<std::int64_t> budget;
  std::optional<Plan> plan;  // valid; none: `error` says why, or nothing better that rounds alike was found
  std::vector<Plan> rivals;  // that may be faster in fact
  std::optional<Rounded> rounded;
  std::string error;
  double planning_ms = 0;
  std::int64_t bytes() const;  // of its plans
};

PlanAnswer answer(const PlanRequest& request);

class Controller {
 public:
  using Ticket = std::uint64_t;

  struct Options {
    bool is_synchronous = false;  // ask() answers before it returns
    int delay_ms = 0;             // before each plan that the thread makes
  };

  // Other than the default for tests alone: when a plan is swapped in may change no bit.
  explicit Controller(const Options& options) : options_(options) {}
  ~Controller();
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  // In place of a request for the same shape and budget that still waits. The thread starts with the first.
  void ask(PlanRequest request);
  // The next plan that is there. Takes no lock when there is none.
  std::optional<PlanAnswer> take();
  bool has_answers() const { return has_answers_; }

  // For a step that is known to come. These are made first, and answered to wait() alone.
  Ticket ask_ahead(PlanRequest request);
  // Until it is made. None: it was given up, since too many others were asked for meanwhile.
  std::optional<PlanAnswer> wait(Ticket ticket);
  // Nobody will wait for it.
  void forget(Ticket ticket);

  // A plan is being made, or about to be: the thread takes time from the calls.
  bool is_busy() const { return is_busy_; }
  // Until it is not.
  void rest();
  // Of the plans that are made and not in use yet.
  std::int64_t bytes();
  // Processor time of the thread besides planning.
  double overhead_ms() const { return overhead_ms_; }

 private:
  static constexpr Ticket kNone = 0;
  struct Job {
    PlanRequest request;
    Ticket ticket = kNone;
  };

  void start();
  void run();
  void keep(const Job& job, PlanAnswer answer);

  Options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;  // those of tickets first
  Ticket running_ = kNone;
  Ticket last_ = kNone;
  std::map<Ticket, PlanAnswer> ahead_;
  std::deque<PlanAnswer> answers_;
  std::atomic<bool> has_answers_ = false;
  std::atomic<bool> is_busy_ = false;
  std::atomic<double> overhead_ms_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace neap
