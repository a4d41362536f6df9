// argmax, argmin (x; axis = 0, keepdims = 1, select_last_index = 0): where the best element stands, the first of equals
// (or the last), NaN before all; i64. Numbers of any type; fast for f32.
#include "ops/argmax/argmax.h"

#include <fmt/format.h>

#include "neap/error.h"
#include "ops/elementwise/element.h"
#include "ops/kernel.h"

namespace neap::ops {
namespace {

int axis_of(const OpCall& call) {
  const std::int64_t axis = call.attrs.integer("axis", 0);
  const int rank = call.shape(0).rank();
  if (axis < -rank || axis >= rank) throw UserError(fmt::format("there is no axis {}", axis));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Types infer(const OpCall& call) {
  if (!is_number(call.in(0).dtype)) throw UserError(fmt::format("takes numbers, not {}", name(call.in(0).dtype)));
  const int axis = axis_of(call);
  const Shape& shape = call.shape(0);
  if (shape[axis] == Dim(0)) throw UserError(fmt::format("axis {} of {} is empty", axis, shape.text()));
  const bool keeps_dims = call.attrs.integer("keepdims", 1) != 0;
  Shape out;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i != axis) out.push_back(shape[i]);
    if (i == axis && keeps_dims) out.push_back(1);
  }
  return {{DType::kI64, out}};
}

bool takes_last(const OpCall& call) { return call.attrs.integer("select_last_index", 0) != 0; }

ArgLine line_of(const OpCall& call) {
  const int axis = axis_of(call);
  ArgLine line = {1, 1, 1};
  for (int i = 0; i < call.shape(0).rank(); ++i) {
    (i < axis ? line.outer : i == axis ? line.length : line.inner) *= call.shape(0).size(i);
  }
  return line;
}

Prepared simd(const OpCall& call) {
  if (call.in(0).dtype != DType::kF32 || takes_last(call)) return Declined{"first index of f32 only"};
  const auto run = call.op->name == "argmax" ? argmax_table().max : argmax_table().min;
  return function_kernel(
      [run, line = line_of(call)](const Buffers& b) { run(b.in<float>(0), b.out<std::int64_t>(0), line); });
}

Prepared cuda(const OpCall& call) {
  if (call.in(0).dtype != DType::kF32) return Declined{"f32 only"};
  return argmax_cuda != nullptr ? argmax_cuda(line_of(call), call.op->name == "argmax", takes_last(call))
                                : not_linked();
}

struct Search {
  ArgLine line;
  bool is_max;
  bool takes_last;

  template <class T>
  std::int64_t best_of(const T* x) const {
    std::int64_t best = 0;
    for (std::int64_t t = 1; t < line.length; ++t) {
      const Compute<T> challenger = x[t * line.inner];
      const Compute<T> holder = x[best * line.inner];
      const bool is_nan = challenger != challenger;
      const bool ties = challenger == holder || (is_nan && holder != holder);
      const bool wins = is_max ? challenger > holder : challenger < holder;
      if (wins || (is_nan && holder == holder) || (ties && takes_last)) best = t;
    }
    return best;
  }
};

Prepared ref(const OpCall& call) {
  const Search search{.line = line_of(call), .is_max = call.op->name == "argmax", .takes_last = takes_last(call)};
  return with_type(call.in(0).dtype, [&]<class T>(Type<T>) {
    return function_kernel([search](const Buffers& b) {
      const ArgLine& line = search.line;
      for (std::int64_t o = 0; o < line.outer * line.inner; ++o) {
        const T* x = b.in<T>(0) + o / line.inner * line.length * line.inner + o % line.inner;
        b.out<std::int64_t>(0)[o] = search.best_of(x);
      }
    });
  });
}

double one_a_term(const OpCall& call) { return static_cast<double>(call.in(0).elements()); }

constexpr KernelEntry kKernels[] = {
    {"cuda", DeviceKind::kCuda, cuda}, {"simd", DeviceKind::kCpu, simd}, {"ref", DeviceKind::kCpu, ref}};

constexpr OpDef search(std::string_view name) {
  return {.name = name, .infer = infer, .kernels = kKernels, .kernel_count = std::size(kKernels), .flops = one_a_term};
}

}  // namespace

extern constinit const OpDef argmax = search("argmax");
extern constinit const OpDef argmin = search("argmin");

}  // namespace neap::ops
