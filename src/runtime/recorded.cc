// Steps whose times are noted: by the host's clock, by marks on the device's stream, or by the device's own log.
#include <algorithm>
#include <chrono>

#include "runtime/executor.h"

namespace neap {
namespace {

// When each instruction ran; what is checked around it does not count.
class Recorder {
 public:
  Recorder(std::vector<InstructionTime>& times, Device& device, Checks* checks)
      : times_(times), device_(device), checks_(checks) {}
  void before(std::size_t i) {
    if (checks_ != nullptr) checks_->before(i);
    times_[i].begun_ns = now();
  }
  void after(std::size_t i) {
    device_.synchronise();
    times_[i].ended_ns = now();
    if (checks_ != nullptr) checks_->after(i);
  }

 private:
  static std::int64_t now() {
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  std::vector<InstructionTime>& times_;
  Device& device_;
  Checks* checks_;
};

// Marks around each instruction on the device's own clock, so that nothing waits for it.
class Marker {
 public:
  Marker(Timer& timer, Checks* checks) : timer_(timer), checks_(checks) {}
  void before(std::size_t i) {
    if (checks_ != nullptr) checks_->before(i);
    timer_.mark();
  }
  void after(std::size_t i) {
    timer_.mark();
    if (checks_ != nullptr) checks_->after(i);
  }

 private:
  Timer& timer_;
  Checks* checks_;
};

}  // namespace

std::string Executor::record() {
  std::string why;
  times_.resize(launches_.size());
  log_ = checks_ == nullptr ? device_.activities(why) : nullptr;
  replays_.clear();  // tags are given while a step is captured
  return why;
}

void Executor::run_recorded() {
  if (log_ != nullptr) return run_logged();
  run_with(Recorder(times_, device_, checks_.get()));
}

void Executor::run_logged() {
  NotedActivities noted(*log_);
  if (!run_again()) launch_tagged();
  activities_ = noted.take();
  place_times();
}

void Executor::launch_tagged() {
  begin_step();
  for (; done_ < launches_.size(); ++done_) {
    tag(done_);
    launch(launches_[done_]);
  }
}

// Instructions lie behind each other on the calls' stream, as the plan has them; calls that ran as one share its time.
void Executor::place_times() {
  const std::vector<TagTime> seen = times_by_tag(activities_, launches_.size());
  std::vector<std::size_t> begun_by(plan_.slots.size());  // the instruction that began a slot's last transfer
  std::int64_t now = activities_.empty() ? 0 : activities_.front().begun_ns;
  for (std::size_t i = 0; i < launches_.size(); ++i) {
    const Launch& l = launches_[i];
    times_[i] = {now, now};
    if (l.action == Action::kSpillBegin || l.action == Action::kFetchBegin) {
      begun_by[l.slot] = i;
      continue;
    }
    const bool is_wait = is_transfer(l.action);
    const TagTime& span = seen[is_wait ? begun_by[l.slot] : i];
    if (is_wait ? span.ended_ns <= now : span.ended_ns == 0) continue;
    times_[i] = {is_wait ? now : span.begun_ns, span.ended_ns};
    now = std::max(now, span.ended_ns);
  }
  if (replays_.empty()) return;
  for (const MergedCalls& piece : merged_) {
    for (const std::size_t call : piece.calls) times_[call] = times_[piece.calls.back()];
  }
}

std::string Executor::run_sampled(std::vector<double>& ms) {
  std::string why;
  ActivityLog* const before = log_;
  log_ = checks_ == nullptr ? device_.activities(why) : nullptr;
  if (log_ == nullptr) {
    run_timed(ms);
  } else {
    NotedActivities noted(*log_);
    launch_tagged();
    activities_ = noted.take();
    ms.clear();
    for (const TagTime& t : times_by_tag(activities_, launches_.size())) ms.push_back(t.busy_ms);
  }
  log_ = before;
  return why;
}

void Executor::run_timed(std::vector<double>& ms) {
  const auto timer = device_.make_timer();
  run_with(Marker(*timer, checks_.get()));
  std::vector<double> between;
  timer->read(between);
  ms.clear();
  for (std::size_t i = 0; i < between.size(); i += 2) ms.push_back(between[i]);
}

}  // namespace neap
