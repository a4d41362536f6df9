//   pack_linear(weight [out, in]; transposed = 0: it is [in, out]) -> f32 [panels, depth, 64]
//   linear_packed(x [..., in], packed, bias?; in, out) -> y [..., out], to the bits of linear's kernel of the same name
// No gradients.
#include "ops/packed/packed.h"

#include <omp.h>

#include <algorithm>

#include "device/cpu/gemm.h"
#include "ops/linear/linear_simd.h"
#include "ops/matmul/checks.h"

namespace neap::ops {
namespace {

struct Dense {
  PackedLayer layer;
  bool transposed;
};

Dense dense_of(const OpCall& call) {
  need_f32(call, 0);
  const Shape& w = call.shape(0);
  need(w.is_static() && w.rank() == 2 && w.size(0) > 0 && w.size(1) > 0, "takes a matrix of fixed size");
  const bool transposed = call.attrs.integer("transposed", 0) != 0;
  return {{.in = w.size(transposed ? 0 : 1), .out = w.size(transposed ? 1 : 0)}, transposed};
}

Types packed_type(const PackedLayer& s) { return {{DType::kF32, {s.panels(), s.depth(), PackedLayer::kPanel}}}; }
Types infer_pack(const OpCall& call) { return packed_type(dense_of(call).layer); }

Prepared pack_cpu(const OpCall& call) {
  return function_kernel([d = dense_of(call)](const Buffers& b) {
    const PackedLayer& s = d.layer;
    auto* to = b.out<float>(0);
    std::fill_n(to, s.panels() * s.depth() * PackedLayer::kPanel, 0.0F);
    for (std::int64_t o = 0; o < s.out; ++o) {
      for (std::int64_t i = 0; i < s.in; ++i) {
        to[s.at(o, i)] = b.in<float>(0)[d.transposed ? i * s.out + o : o * s.in + i];
      }
    }
  });
}

PackedLayer layer_of(const OpCall& call) {
  std::int64_t rows = 1;
  for (int i = 0; i + 1 < call.shape(0).rank(); ++i) rows *= call.shape(0).size(i);
  return {.rows = rows, .in = call.attrs.integer("in"), .out = call.attrs.integer("out"), .bias = call.has(2)};
}

Types infer(const OpCall& call) {
  need_f32(call, 0);
  const PackedLayer s{.in = call.attrs.integer("in"), .out = call.attrs.integer("out")};
  need(s.in > 0 && s.out > 0 && call.in(1) == packed_type(s)[0], "the weight has another size");
  need(call.shape(0).rank() >= 1 && may_equal(call.shape(0)[-1], s.in), "the input has another number of features");
  if (call.has(2)) need_same_shape(call.shape(2), {s.out}, "the bias must have one number an output");
  Shape y = leading(call.shape(0), 1);
  y.push_back(s.out);
  return {{DType::kF32, y}};
}

double flops(const OpCall& call) {
  const PackedLayer s = layer_of(call);
  return 2.0 * static_cast<double>(s.rows) * static_cast<double>(s.in) * static_cast<double>(s.out);
}

Prepared onednn(const OpCall& call) { return packed_onednn != nullptr ? packed_onednn(layer_of(call)) : not_linked(); }
Prepared own(const OpCall& call) { return packed_own(layer_of(call)); }
Prepared ref(const OpCall& call) { return packed_ref(layer_of(call)); }

constexpr KernelEntry kPack[] = {{"ref", DeviceKind::kCpu, pack_cpu}};
constexpr KernelEntry kLinear[] = {
    {"onednn", DeviceKind::kCpu, onednn}, {"simd", DeviceKind::kCpu, own}, {"ref", DeviceKind::kCpu, ref}};

}  // namespace

// A panel is an ordinary matrix for our own product.
Prepared packed_own(const PackedLayer& s) {
  const GemmShape panel = {.m = s.rows, .n = PackedLayer::kPanel, .k = s.in};
  const auto scratch = static_cast<std::int64_t>(gemm_scratch_bytes(panel));
  const auto run = [s, scratch](const Buffers& b) {
    auto* y = b.out<float>(0);
    if (s.bias) linear_table().fill_rows(b.in<float>(2), y, s.rows, s.out);
#pragma omp parallel for schedule(static)
    for (std::int64_t p = 0; p < s.panels(); ++p) {
      const std::int64_t o = p * PackedLayer::kPanel;
      gemm({.m = s.rows, .n = std::min(PackedLayer::kPanel, s.out - o), .k = s.in}, {b.in<float>(0), s.in, false},
           {b.in<float>(1) + s.at(o, 0), PackedLayer::kPanel, false}, {y + o, s.out, s.bias},
           reinterpret_cast<float*>(b.workspace + omp_get_thread_num() * scratch));
    }
  };
  return function_kernel(run, omp_get_max_threads() * scratch);
}

Prepared packed_ref(const PackedLayer& s) {
  return function_kernel([s](const Buffers& b) {
    for (std::int64_t r = 0; r < s.rows; ++r) {
      for (std::int64_t o = 0; o < s.out; ++o) {
        double sum = s.bias ? b.in<float>(2)[o] : 0.0;
        for (std::int64_t i = 0; i < s.in; ++i) {
          sum += static_cast<double>(b.in<float>(0)[r * s.in + i]) * b.in<float>(1)[s.at(o, i)];
        }
        b.out<float>(0)[r * s.out + o] = static_cast<float>(sum);
      }
    }
  });
}

extern constinit const OpDef pack_linear = {
    .name = "pack_linear", .infer = infer_pack, .kernels = kPack, .kernel_count = std::size(kPack)};
extern constinit const OpDef linear_packed = {
    .name = "linear_packed", .infer = infer, .kernels = kLinear, .kernel_count = std::size(kLinear), .flops = flops};

}  // namespace neap::ops
