// Adam's steps of several parameters in one launch.
#include "device/cuda/launch.cuh"
#include "ops/merge_cuda.h"
#include "ops/update/steps.cuh"

namespace neap::ops {
namespace {

constexpr std::size_t kMostSteps = 16;
constexpr std::int64_t kBlockElements = kThreads * 4 * 2;

struct AdamSteps {
  struct One {
    float *param, *m, *v;
    const float* grad;
    std::int64_t elements;
    unsigned first_block;
  };
  One each[kMostSteps];
  int count;
  const float *hyper, *clip;
  bool decoupled;
};

__global__ void __launch_bounds__(kThreads) adam_steps_kernel(const __grid_constant__ AdamSteps t) {
  if (t.hyper[7] == 0) return;  // put off
  const Adam adam(t.hyper, t.clip, t.decoupled);
  int i = 0;
  while (i + 1 < t.count && blockIdx.x >= t.each[i + 1].first_block) ++i;
  const AdamSteps::One& p = t.each[i];
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x - p.first_block) * kBlockElements;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const std::int64_t at = first + (k * kThreads + static_cast<int>(threadIdx.x)) * 4;
    if (at + 4 <= p.elements) {
      adam.step4(p.param + at, p.grad + at, p.m + at, p.v + at);
    } else {
      for (std::int64_t j = at; j < p.elements; ++j) adam.step(p.param[j], p.grad[j], p.m[j], p.v[j]);
    }
  }
}

bool is_adam(const BoundCall& c) {
  return (is_call_of(c, "adamw_update") || is_call_of(c, "adam_update")) && c.call.in(0).elements() > 0 &&
         are_aligned(c);
}

const std::byte* clip_of(const BoundCall& c) { return c.buffers.in<std::byte>(5); }

bool is_another(BoundCalls calls, const BoundCall& next) {
  return is_adam(next) && next.call.op == calls[0]->call.op && next.buffers.inputs[4] == calls[0]->buffers.inputs[4] &&
         clip_of(next) == clip_of(*calls[0]);
}

MergedRun make_steps(BoundCalls calls) {
  AdamSteps t{.count = 0,
              .hyper = calls[0]->buffers.in<float>(4),
              .clip = calls[0]->buffers.in<float>(5),
              .decoupled = calls[0]->call.op->name == "adamw_update"};
  unsigned blocks = 0;
  for (const BoundCall* c : calls) {
    const std::int64_t elements = c->call.in(0).elements();
    t.each[t.count++] = {.param = c->buffers.state<float>(0),
                         .m = c->buffers.state<float>(2),
                         .v = c->buffers.state<float>(3),
                         .grad = c->buffers.in<float>(1),
                         .elements = elements,
                         .first_block = blocks};
    blocks += static_cast<unsigned>((elements + kBlockElements - 1) / kBlockElements);
  }
  return [t, blocks](Stream& stream) {
    adam_steps_kernel<<<blocks, kThreads, 0, handle_of(stream)>>>(t);
    check_launch("adam_steps");
  };
}

}  // namespace

// An update may wait: nothing behind it in the step reads the parameter. What takes the gradient's place ends the wait.
constinit const MergeRule kAdamSteps = {.starts = is_adam,
                                        .takes = is_another,
                                        .make = make_steps,
                                        .most = kMostSteps,
                                        .reach = 6,
                                        .at = MergeRule::At::kLast};

}  // namespace neap::ops
