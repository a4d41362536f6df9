#include "device/device.h"

#include <chrono>

namespace neap {
namespace {

// For devices whose work is done when the call returns.
class HostTimer final : public Timer {
 public:
  void mark() override { marks_.push_back(Clock::now()); }
  void read(std::vector<double>& ms) override {
    ms.clear();
    for (std::size_t i = 1; i < marks_.size(); ++i) {
      ms.push_back(std::chrono::duration<double, std::milli>(marks_[i] - marks_[i - 1]).count());
    }
    marks_.clear();
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::vector<Clock::time_point> marks_;
};

}  // namespace

std::unique_ptr<Timer> Device::make_timer() { return std::make_unique<HostTimer>(); }

}  // namespace neap
