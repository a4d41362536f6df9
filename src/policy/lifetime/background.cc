#include "policy/lifetime/background.h"

#include <sys/resource.h>
#include <unistd.h>

#include <exception>
#include <utility>

#include "neap/error.h"

namespace neap {
namespace {

// On Linux a priority is a thread's own. Without it the training only gets more of the processor than it should.
void give_way() {
  constexpr int kLowest = 19;
  static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kLowest));
}

}  // namespace

BackgroundRetraining::~BackgroundRetraining() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

void BackgroundRetraining::start(SeenSteps steps, NetworkWeights active, const FitOptions& options) {
  require(!is_busy(), "one retraining at a time");
  is_done_ = false;
  thread_ = std::thread([this, steps = std::move(steps), active = std::move(active), options] {
    give_way();
    try {
      found_ = retrain(steps, active, options, &stop_);
    } catch (...) {
      error_ = std::current_exception();
    }
    is_done_ = true;
  });
}

std::optional<Retraining> BackgroundRetraining::result() {
  if (!is_busy() || !is_done_) return std::nullopt;
  return wait();
}

std::optional<Retraining> BackgroundRetraining::wait() {
  if (!is_busy()) return std::nullopt;
  thread_.join();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return std::exchange(found_, std::nullopt);
}

}  // namespace neap
