#include "train/controller.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <exception>

namespace neap {
namespace {

double thread_cpu_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

// Nice and no idle class: under full load that one gets next to nothing, and plans would come when nobody needs them.
// All cores are busy with training: at the lowest priority a plan would come a hundred steps later. What planning takes
// is lost to training either way. Relative to the run's own niceness, which may be far from 0.
constexpr int kNicer = 5;

void be_modest() {
  const auto self = static_cast<id_t>(gettid());
  setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + kNicer);
}

}  // namespace

PlanAnswer answer(const PlanRequest& r) {
  PlanAnswer out{.shape = r.shape, .budget = r.budget};
  const double start = thread_cpu_ms();
  try {
    const PlanningProblem problem{r.program->graph, r.costs, r.link, &r.layout, r.levels ? &*r.levels : nullptr};
    std::vector<Plan> plans = plans_within(*r.policy, problem, r.stores_all ? std::nullopt : r.budget);
    out.plan = std::move(plans.front());
    plans.erase(plans.begin());
    if (!r.levels) out.rivals = std::move(plans);  // what is rounded follows from the plan: times may not choose it
  } catch (const std::exception& e) {
    out.error = e.what();
  }
  out.planning_ms = thread_cpu_ms() - start;
  return out;
}

Controller::~Controller() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Controller::ask(PlanRequest request) {
  if (is_synchronous_) {
    answers_.push_back(answer(request));
    has_answers_ = true;
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(requests_,
                  [&](const PlanRequest& r) { return r.shape == request.shape && r.budget == request.budget; });
    requests_.push_back(std::move(request));
    is_busy_ = true;
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  changed_.notify_all();
}

std::optional<PlanAnswer> Controller::take() {
  if (!has_answers_) return std::nullopt;
  const std::lock_guard lock(mutex_);
  PlanAnswer out = std::move(answers_.front());
  answers_.pop_front();
  has_answers_ = !answers_.empty();
  return out;
}

void Controller::run() {
  be_modest();
  double planned = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    overhead_ms_ = thread_cpu_ms() - planned;
    is_busy_ = !requests_.empty();
    changed_.wait(lock, [&] { return stop_ || !requests_.empty(); });
    if (stop_) return;
    const PlanRequest request = std::move(requests_.front());
    requests_.pop_front();
    lock.unlock();
    PlanAnswer done = answer(request);
    planned += done.planning_ms;
    lock.lock();
    answers_.push_back(std::move(done));
    has_answers_ = true;
  }
}

}  // namespace neap
