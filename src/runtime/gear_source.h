// Who says how kernels with gears run (device/geared_kernel.h), call by call while a step runs.
#pragma once

#include <cstdint>

namespace neap {

// Is told of its calls as they come, on the thread that runs the step. Must not throw, and should not allocate.
class GearSource {
 public:
  virtual ~GearSource() = default;
  // The gear of a call that is about to run.
  virtual std::uint32_t gear_for(std::uint32_t call) = 0;
  virtual void has_run(std::uint32_t call) = 0;
};

}  // namespace neap
