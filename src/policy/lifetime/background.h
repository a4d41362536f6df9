// One retraining at a time on a thread of lowest priority, beside training.
#pragma once

#include <atomic>
#include <optional>
#include <thread>

#include "policy/lifetime/retraining.h"

namespace neap {

class BackgroundRetraining {
 public:
  BackgroundRetraining() = default;
  ~BackgroundRetraining();  // gives up what runs
  BackgroundRetraining(const BackgroundRetraining&) = delete;
  BackgroundRetraining& operator=(const BackgroundRetraining&) = delete;

  void start(SeenSteps steps, NetworkWeights active, const FitOptions& options);
  bool is_busy() const { return thread_.joinable(); }  // until its result was taken
  // What has been found, once; none while it runs. An exception of the thread comes out here.
  std::optional<Retraining> result();
  // The same, after waiting for it.
  std::optional<Retraining> wait();

 private:
  std::thread thread_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> is_done_ = false;
  std::optional<Retraining> found_;  // the thread's until it is done
  std::exception_ptr error_;
};

}  // namespace neap
