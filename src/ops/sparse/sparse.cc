//   pack_sparse(weight [out, in]; kept, transposed = 0: it is [in, out]) -> values f32, index u64
//   linear_sparse(x [..., in], values, index, bias?; in, out, kept) -> y [..., out]
//   pack_listed(weight; count, transposed) -> values f32[count], index u16[count], start i32[out + 1]
//   linear_listed(x, values, index, start, bias?; in, out) -> y
// Weights are packed as they are: what is to be skipped is 0 already. No gradients.
#include "ops/sparse/sparse.h"

#include "ops/matmul/checks.h"

namespace neap::ops {
namespace {

constexpr std::int64_t kMostInputs = 1 << 16;  // that 16 bits tell apart

DenseWeight dense_of(const OpCall& call) {
  need_f32(call, 0);
  const Shape& w = call.shape(0);
  need(w.is_static() && w.rank() == 2, "takes a matrix of fixed size");
  const bool transposed = call.attrs.integer("transposed", 0) != 0;
  return {w.size(transposed ? 0 : 1), w.size(transposed ? 1 : 0), transposed};
}

SparseWeight checked(std::int64_t in, std::int64_t out, std::int64_t kept) {
  need(in > 0 && in % SparseWeight::kGroup == 0 && out > 0, "takes groups of eight inputs");
  need(kept >= 1 && kept < SparseWeight::kGroup, "keeps 1 to 7 of eight");
  return {.in = in, .out = out, .kept = kept};
}

Types packed_types(const SparseWeight& w) {
  return {{DType::kF32, {w.vectors(), SparseWeight::kLanes}}, {DType::kU64, {w.vectors()}}};
}

Types infer_pack(const OpCall& call) {
  const DenseWeight d = dense_of(call);
  return packed_types(checked(d.in, d.out, call.attrs.integer("kept")));
}

void pack_group(const SparseWeight& w, const DenseWeight& d, const Buffers& b, std::int64_t o, std::int64_t g) {
  std::int64_t n = 0;
  const std::int64_t lane = o % SparseWeight::kLanes;
  for (std::int64_t i = 0; i < SparseWeight::kGroup; ++i) {
    const float value = b.in<float>(0)[d.at(o, g * SparseWeight::kGroup + i)];
    if (value == 0) continue;
    require(n < w.kept, "the weight has the pattern that it is packed by");
    const std::int64_t v = w.vector(o / SparseWeight::kLanes, g, n++);
    b.out<float>(0)[v * SparseWeight::kLanes + lane] = value;
    b.out<std::uint64_t>(1)[v] |= static_cast<std::uint64_t>(i) << SparseWeight::bit(lane);
  }
}

Prepared pack_cpu(const OpCall& call) {
  const DenseWeight d = dense_of(call);
  return function_kernel([d, w = checked(d.in, d.out, call.attrs.integer("kept"))](const Buffers& b) {
    std::fill_n(b.out<float>(0), w.vectors() * SparseWeight::kLanes, 0.0F);
    std::fill_n(b.out<std::uint64_t>(1), w.vectors(), std::uint64_t{0});
    for (std::int64_t o = 0; o < w.out; ++o) {
      for (std::int64_t g = 0; g < w.groups(); ++g) pack_group(w, d, b, o, g);
    }
  });
}

Prepared pack_cuda(const OpCall& call) {
  if (pack_sparse_cuda == nullptr) return not_linked();
  const DenseWeight d = dense_of(call);
  return pack_sparse_cuda(d, checked(d.in, d.out, call.attrs.integer("kept")));
}

std::int64_t rows_of(const Shape& x) {
  std::int64_t rows = 1;
  for (int i = 0; i + 1 < x.rank(); ++i) rows *= x.size(i);
  return rows;
}

// x [..., in] to [..., out], a bias behind the packed tensors.
Types infer_layer(const OpCall& call, const Types& packed) {
  need_f32(call, 0);
  for (std::size_t i = 0; i < packed.size(); ++i) {
    if (call.in(1 + i) != packed[i]) {
      throw UserError(fmt::format("input {} must be {}, not {}", 1 + i, packed[i].text(), call.in(1 + i).text()));
    }
  }
  const std::int64_t out = call.attrs.integer("out");
  const bool fits = call.shape(0).rank() >= 1 && may_equal(call.shape(0)[-1], call.attrs.integer("in"));
  need(fits, "the input has another number of features");
  if (call.has(1 + packed.size())) {
    need_same_shape(call.shape(1 + packed.size()), {out}, "the bias must have one number an output");
  }
  Shape y = leading(call.shape(0), 1);
  y.push_back(out);
  return {{DType::kF32, y}};
}

SparseWeight weight_of(const OpCall& call) {
  return checked(call.attrs.integer("in"), call.attrs.integer("out"), call.attrs.integer("kept"));
}
Types infer_sparse(const OpCall& call) { return infer_layer(call, packed_types(weight_of(call))); }

SparseLayer layer_of(const OpCall& call) {
  return {.weight = weight_of(call), .rows = rows_of(call.shape(0)), .bias = call.has(3)};
}
template <Prepared (*kPrepare)(const SparseLayer&)>
Prepared prepare(const OpCall& call) {
  return kPrepare(layer_of(call));
}
Prepared cuda(const OpCall& call) { return sparse_cuda != nullptr ? sparse_cuda(layer_of(call)) : not_linked(); }
double flops(const OpCall& call) {
  const SparseLayer s = layer_of(call);
  return 2.0 * static_cast<double>(s.rows * s.weight.vectors() * SparseWeight::kLanes);
}

Types listed_types(std::int64_t count, std::int64_t in, std::int64_t out) {
  need(count >= 0 && in > 0 && in <= kMostInputs && out > 0, "the weight has another size");
  return {{DType::kF32, {count}}, {DType::kU16, {count}}, {DType::kI32, {out + 1}}};
}

Types infer_list(const OpCall& call) {
  const DenseWeight d = dense_of(call);
  return listed_types(call.attrs.integer("count"), d.in, d.out);
}

Prepared list_cpu(const OpCall& call) {
  return function_kernel([d = dense_of(call), count = call.attrs.integer("count")](const Buffers& b) {
    std::int64_t n = 0;
    for (std::int64_t o = 0; o < d.out; ++o) {
      b.out<std::int32_t>(2)[o] = static_cast<std::int32_t>(n);
      for (std::int64_t i = 0; i < d.in; ++i) {
        const float value = b.in<float>(0)[d.at(o, i)];
        if (value == 0) continue;
        require(n < count, "the weight has as many zeros as it is packed by");
        b.out<float>(0)[n] = value;
        b.out<std::uint16_t>(1)[n++] = static_cast<std::uint16_t>(i);
      }
    }
    b.out<std::int32_t>(2)[d.out] = static_cast<std::int32_t>(n);
    for (; n < count; ++n) {
      b.out<float>(0)[n] = 0;
      b.out<std::uint16_t>(1)[n] = 0;
    }
  });
}

Prepared list_cuda(const OpCall& call) {
  return pack_listed_cuda != nullptr ? pack_listed_cuda(dense_of(call), call.attrs.integer("count")) : not_linked();
}

Types infer_listed(const OpCall& call) {
  const std::int64_t count = call.shape(1).rank() == 1 ? call.shape(1).size(0) : -1;
  return infer_layer(call, listed_types(count, call.attrs.integer("in"), call.attrs.integer("out")));
}
ListedLayer listed_layer(const OpCall& call) {
  return {.rows = rows_of(call.shape(0)),
          .in = call.attrs.integer("in"),
          .out = call.attrs.integer("out"),
          .bias = call.has(4)};
}
template <Prepared (*kPrepare)(const ListedLayer&)>
Prepared prepare_listed(const OpCall& call) {
  return kPrepare(listed_layer(call));
}
Prepared cuda_listed(const OpCall& call) {
  return listed_cuda != nullptr ? listed_cuda(listed_layer(call)) : not_linked();
}
double flops_listed(const OpCall& call) {
  return 2.0 * static_cast<double>(rows_of(call.shape(0)) * call.shape(1).size(0));
}

constexpr KernelEntry kPack[] = {{"cuda", DeviceKind::kCuda, pack_cuda}, {"ref", DeviceKind::kCpu, pack_cpu}};
constexpr KernelEntry kList[] = {{"cuda", DeviceKind::kCuda, list_cuda}, {"ref", DeviceKind::kCpu, list_cpu}};
constexpr KernelEntry kSparse[] = {{"cuda", DeviceKind::kCuda, cuda},
                                   {"simd", DeviceKind::kCpu, prepare<sparse_simd>},
                                   {"ref", DeviceKind::kCpu, prepare<sparse_ref>}};
constexpr KernelEntry kListed[] = {{"cuda", DeviceKind::kCuda, cuda_listed},
                                   {"simd", DeviceKind::kCpu, prepare_listed<listed_simd>},
                                   {"ref", DeviceKind::kCpu, prepare_listed<listed_ref>}};

}  // namespace

extern constinit const OpDef pack_sparse = {
    .name = "pack_sparse", .infer = infer_pack, .kernels = kPack, .kernel_count = std::size(kPack)};
extern constinit const OpDef linear_sparse = {.name = "linear_sparse",
                                              .infer = infer_sparse,
                                              .kernels = kSparse,
                                              .kernel_count = std::size(kSparse),
                                              .flops = flops};
extern constinit const OpDef pack_listed = {
    .name = "pack_listed", .infer = infer_list, .kernels = kList, .kernel_count = std::size(kList)};
extern constinit const OpDef linear_listed = {.name = "linear_listed",
                                              .infer = infer_listed,
                                              .kernels = kListed,
                                              .kernel_count = std::size(kListed),
                                              .flops = flops_listed};

}  // namespace neap::ops
