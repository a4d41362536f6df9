// What this machine can do at best, measured once: the roof of the roofline.
#pragma once

namespace neap {

struct Ceilings {
  double gflops = 0;            // f32 multiply-adds in registers, all threads; two operations each
  double bytes_per_second = 0;  // copying through memory, read plus written, all threads
};

// Takes about 50 ms the first time, nothing after that.
const Ceilings& measure_ceilings();

}  // namespace neap
