// Problems that look like recorded training steps, made without a model: for tests and for bench/remat_bench.cc. A tape
// of forward ops is unrolled backwards as an eager framework does it: one backward op a forward op, gradients added up
// where a tensor is read more than once, gradients of weights kept.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "remat/problem.h"

namespace neap::remat {

// resnet32, densenet121, unet, transformer, lstm, treelstm, inception, chain; `scale` multiplies depth or length.
Problem make_trace(std::string_view name, double scale = 1);
std::vector<std::string> trace_names();

}  // namespace neap::remat
