// Settings of how activations are stored between forward and backward.
#pragma once

#include <cstdint>
#include <string>

namespace neap {

struct PrecisionOptions {
  // exact: lossless forms only. Else the gradient variance that storing in fewer bits may add, relative to the
  // minibatch's own: a number (target_accuracy), or default (0.1).
  std::string tolerance = "exact";
  std::string levels = "fp32,bf16,int8,int4";  // that may be chosen: fp32, fp16, bf16, int8, int4
  std::string default_precision = "int8";      // until there is a profile
  std::string choice = "threshold";            // by computed variance, or by table
  std::string table;                    // CLASS=LEVEL,...: classes product, norm, activation, attention, recurrent
  std::int64_t profiling_window = 4;    // profiles that a choice looks back on
  std::int64_t profiling_layers = 1;    // every so many layers,
  std::int64_t profiling_batches = 16;  // and every so many steps
  std::string carried;          // level of the state that recurrent layers carry on; empty: fp32, with a tolerance bf16
  bool flow_quantized = false;  // forward computes with what was rounded, too
  bool quantize_recompute_inputs = false;  // also tensors from which others are made again
};

}  // namespace neap
