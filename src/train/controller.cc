#include "train/controller.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>

#include "plan/simulate.h"
#include "plan/validate.h"
#include "policy/spill.h"
#include "train/settle.h"
#include "train/thread_clock.h"

namespace neap {
namespace {

// Nice and no idle class: under full load that one gets next to nothing, and plans would come when nobody needs them.
// All cores are busy with training: at the lowest priority a plan would come a hundred steps later. What planning takes
// is lost to training either way. Relative to the run's own niceness, which may be far from 0.
constexpr int kNicer = 5;

void be_modest() {
  const auto self = static_cast<id_t>(gettid());
  setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + kNicer);
}

void settle(const PlanRequest& r, PlanAnswer& out) {
  const Guesses& g = *r.guesses;
  out.plan = settling_plan(*r.policy, {r.program->graph, g.costs, g.link, &r.layout, &g.levels}, r.budget);
  out.rounded = rounded_by(*out.plan, r.program->graph, g.levels);
}

// From measured times, within what is settled: the best of what there is and what is found, and beside it the others.
void improve_rounded(const PlanRequest& r, std::vector<Plan> plans, const PlanningProblem& problem, PlanAnswer& out) {
  const Graph& graph = r.program->graph;
  const std::int64_t budget = r.budget.value_or(kNoBudget);
  if (!out.plan) out.plan = r.present;
  // What is settled leaves little to a search: often it is the same plan with other transfers.
  if (out.plan && !out.plan->slots.empty()) {
    std::optional<TimedPlan> anew = spilled_anew(problem, *out.plan, budget);
    if (anew && !validate(anew->plan, graph, r.costs)) plans.push_back(std::move(anew->plan));
  }
  std::erase_if(plans, [&](const Plan& p) { return p.peak_bytes > budget || !rounds_alike(p, graph, *out.rounded); });
  const auto ms = [&](const Plan& p) { return simulate(p, r.costs, r.link).ms; };
  for (Plan& plan : plans) {
    if (!out.plan) out.plan.emplace();
    const bool is_better =
        out.plan->instructions.empty() || !r.policy->is_after_time_alone() || ms(plan) < ms(*out.plan);
    if (is_better) std::swap(*out.plan, plan);
    if (!r.policy->is_after_time_alone()) return;
  }
  if (!out.plan || r.guesses) return;
  for (Plan& plan : plans) {
    if (!plan.instructions.empty()) out.rivals.push_back(std::move(plan));
  }
}

void improve(const PlanRequest& r, PlanAnswer& out) {
  const PlanningProblem problem{r.program->graph, r.costs, r.link, &r.layout,
                                out.rounded ? &out.rounded->levels : nullptr};
  std::vector<Plan> plans = plans_within(*r.policy, problem, r.stores_all ? std::nullopt : r.budget);
  if (out.rounded) return improve_rounded(r, std::move(plans), problem, out);
  out.plan = std::move(plans.front());
  plans.erase(plans.begin());
  out.rivals = std::move(plans);
}

constexpr std::size_t kMostAhead = 16;

}  // namespace

std::int64_t PlanAnswer::bytes() const {
  std::int64_t out = plan ? own_bytes(*plan) : 0;
  for (const Plan& each : rivals) out += own_bytes(each);
  return out;
}

PlanAnswer answer(const PlanRequest& r) {
  PlanAnswer out{.shape = r.shape, .budget = r.budget, .plan = {}, .rivals = {}, .rounded = r.rounded, .error = {}};
  const double start = thread_ms();
  try {
    if (r.guesses) settle(r, out);
    if (r.is_measured) improve(r, out);
  } catch (const std::exception& e) {
    out.error = e.what();
  }
  out.planning_ms = thread_ms() - start;
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

// With the lock held.
void Controller::start() {
  is_busy_ = true;
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
}

void Controller::ask(PlanRequest request) {
  if (options_.is_synchronous) return keep({}, answer(request));
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(jobs_, [&](const Job& job) {
      return job.ticket == kNone && job.request.shape == request.shape && job.request.budget == request.budget;
    });
    jobs_.push_back({.request = std::move(request)});
    start();
  }
  changed_.notify_all();
}

Controller::Ticket Controller::ask_ahead(PlanRequest request) {
  const Ticket ticket = ++last_;
  if (options_.is_synchronous) {
    PlanAnswer made = answer(request);
    keep({.request = {}, .ticket = ticket}, std::move(made));
    return ticket;
  }
  {
    const std::lock_guard lock(mutex_);
    const auto behind = std::find_if(jobs_.begin(), jobs_.end(), [](const Job& job) { return job.ticket == kNone; });
    jobs_.insert(behind, {.request = std::move(request), .ticket = ticket});
    start();
  }
  changed_.notify_all();
  return ticket;
}

std::optional<PlanAnswer> Controller::wait(Ticket ticket) {
  std::unique_lock lock(mutex_);
  const auto is_coming = [&] {
    return running_ == ticket ||
           std::any_of(jobs_.begin(), jobs_.end(), [&](const Job& job) { return job.ticket == ticket; });
  };
  changed_.wait(lock, [&] { return ahead_.contains(ticket) || !is_coming(); });
  const auto found = ahead_.extract(ticket);
  return found ? std::optional(std::move(found.mapped())) : std::nullopt;
}

void Controller::forget(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  std::erase_if(jobs_, [&](const Job& job) { return job.ticket == ticket; });
  ahead_.erase(ticket);
  if (running_ == ticket) running_ = kNone;
}

std::optional<PlanAnswer> Controller::take() {
  if (!has_answers_) return std::nullopt;
  const std::lock_guard lock(mutex_);
  PlanAnswer out = std::move(answers_.front());
  answers_.pop_front();
  has_answers_ = !answers_.empty();
  return out;
}

void Controller::rest() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !is_busy_; });
}

std::int64_t Controller::bytes() {
  const std::lock_guard lock(mutex_);
  std::int64_t out = 0;
  for (const PlanAnswer& each : answers_) out += each.bytes();
  for (const auto& [ticket, each] : ahead_) out += each.bytes();
  return out;
}

// With the lock held, or where there is no thread.
void Controller::keep(const Job& job, PlanAnswer answer) {
  if (job.ticket == kNone) {
    answers_.push_back(std::move(answer));
    has_answers_ = true;
    return;
  }
  ahead_.emplace(job.ticket, std::move(answer));
  if (ahead_.size() > kMostAhead) ahead_.erase(ahead_.begin());
}

void Controller::run() {
  be_modest();
  double planned = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    overhead_ms_ = thread_ms() - planned;
    is_busy_ = !jobs_.empty();
    if (!is_busy_) changed_.notify_all();
    changed_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
    if (stop_) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    running_ = job.ticket;
    lock.unlock();
    if (options_.delay_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(options_.delay_ms));
    PlanAnswer done = answer(job.request);
    planned += done.planning_ms;
    lock.lock();
    const bool is_wanted = running_ == job.ticket;
    running_ = kNone;
    if (is_wanted) keep(job, std::move(done));
    changed_.notify_all();
  }
}

}  // namespace neap
