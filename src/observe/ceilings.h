// What this machine can do at best: the roof of the roofline.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/device.h"

namespace neap {

struct CacheCeiling {
  std::string name;             // L1, L2, L3
  std::int64_t bytes = 0;       // that all threads together have of it
  double bytes_per_second = 0;  // copying inside it, read plus written, all threads
};

struct Ceilings {
  double gflops = 0;                 // f32 multiply-adds in registers, all threads; two operations each
  double bytes_per_second = 0;       // copying through memory, read plus written, all threads
  std::vector<CacheCeiling> caches;  // the smallest first; those whose size the system tells
};

// Takes about 80 ms the first time, nothing after that.
const Ceilings& measure_ceilings();

// Of the GPU, as its clocks and widths have it: to measure would take memory beside the arena. Null in a program
// without CUDA.
[[gnu::weak]] const Ceilings& cuda_ceilings();

const Ceilings& ceilings_of(DeviceKind kind);

}  // namespace neap
