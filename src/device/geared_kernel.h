// A kernel that can run a call in several ways, all of them with the same bits: the caller says which, call by call.
#pragma once

#include "device/kernel.h"

namespace neap {

class GearedKernel : public Kernel {
 public:
  // What the numbers mean is between the kernel and those who know it (recurrent/gear.h); 0 is its own choice. Any of
  // them fits into workspace_bytes().
  virtual void launch_in(std::uint32_t gear, const Buffers& buffers, Stream& stream) = 0;
  void launch(const Buffers& buffers, Stream& stream) final { launch_in(0, buffers, stream); }
};

// One that is one function.
class GearedFunction final : public GearedKernel {
 public:
  using Function = std::function<void(const Buffers&, std::uint32_t gear)>;
  GearedFunction(Function run, std::int64_t workspace) : run_(std::move(run)), workspace_(workspace) {}
  std::int64_t workspace_bytes() const override { return workspace_; }
  void launch_in(std::uint32_t gear, const Buffers& buffers, Stream& /*stream*/) override { run_(buffers, gear); }

 private:
  Function run_;
  std::int64_t workspace_;
};

}  // namespace neap
