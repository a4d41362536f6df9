// Bytes of a device as the host reads them: in place where it can, else a copy, once all work before is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device.h"

namespace neap {

class HostView {
 public:
  HostView(Device& device, const std::byte* at, std::int64_t bytes, bool is_host_memory) : data_(at) {
    if (is_host_memory) return;
    copy_.resize(static_cast<std::size_t>(bytes));
    device.read(copy_.data(), at, bytes);
    data_ = copy_.data();
  }
  HostView(const HostView&) = delete;
  HostView& operator=(const HostView&) = delete;

  const std::byte* data() const { return data_; }
  const float* floats() const { return reinterpret_cast<const float*>(data_); }

 private:
  const std::byte* data_;
  std::vector<std::byte> copy_;
};

}  // namespace neap
