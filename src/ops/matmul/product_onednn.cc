#include "ops/matmul/product_onednn.h"

#include <string_view>

#include "device/cpu/bf16.h"

namespace neap::ops {
namespace {

dnnl::memory::data_type type_of(DType type) {
  return type == DType::kBF16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

bool is_f32_or_bf16(DType type) { return type == DType::kF32 || type == DType::kBF16; }

dnnl::primitive_attr attributes(const Product& p) {
  dnnl::primitive_attr attr = onednn_attr();
  if (p.alpha != 1) attr.set_output_scales(0, {p.alpha});
  if (p.accumulate) {
    dnnl::post_ops ops;
    ops.append_sum(1);
    attr.set_post_ops(ops);
  }
  return attr;
}

// A batch of `size` matrices, or one that is broadcast over it.
dnnl::memory::desc matrices(const BatchAxis& batch, std::int64_t step, std::int64_t rows, std::int64_t columns,
                            const Matrix& matrix, DType type) {
  if (batch.size == 1) return onednn_strided({rows, columns}, {matrix.row, matrix.column}, type_of(type));
  return onednn_strided({step == 0 ? 1 : batch.size, rows, columns},
                        {step == 0 ? rows * columns : step, matrix.row, matrix.column}, type_of(type));
}

}  // namespace

void ProductCall::run(const void* a, const void* b, const void* bias, void* c, std::byte* scratchpad) {
  call.set(DNNL_ARG_SRC, a);
  call.set(DNNL_ARG_WEIGHTS, b);
  if (bias != nullptr) call.set(DNNL_ARG_BIAS, bias);
  call.set(DNNL_ARG_DST, c);
  call.run(scratchpad);
}

std::optional<ProductTypes> product_types(const OpCall& call) {
  const ProductTypes types = {.operands = call.in(0).dtype,
                              .bias = call.has(2) ? call.in(2).dtype : DType::kF32,
                              .result = call.outputs[0].dtype};
  if (call.in(1).dtype != types.operands) return std::nullopt;
  if (types.operands == DType::kF32 && types.bias == DType::kF32 && types.result == DType::kF32) return types;
  const bool is_mixture = types.operands == DType::kBF16 && is_f32_or_bf16(types.bias) && is_f32_or_bf16(types.result);
  return is_mixture && has_bf16_products() ? std::optional(types) : std::nullopt;
}

std::optional<ProductCall> onednn_product(const Product& p) {
  if (p.m == 0 || p.n == 0 || p.k == 0 || p.batch.size == 0) return std::nullopt;
  const auto a = matrices(p.batch, p.batch.a_step, p.m, p.k, p.a, p.types.operands);
  const auto b = matrices(p.batch, p.batch.b_step, p.k, p.n, p.b, p.types.operands);
  const auto c = matrices(p.batch, p.m * p.n, p.m, p.n, {p.n, 1}, p.types.result);
  const auto row = type_of(p.types.bias);
  const auto bias = p.batch.size == 1 ? onednn_dense({1, p.n}, row) : onednn_dense({1, 1, p.n}, row);
  try {
    const dnnl::matmul::primitive_desc chosen(p.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c),
                                              attributes(p), onednn_engine());
    const std::string_view how = chosen.impl_info_str();
    if (how.starts_with("ref")) return std::nullopt;
    return ProductCall{.call = OneDnnCall(dnnl::matmul(chosen), chosen.scratchpad_desc(),
                                          {{DNNL_ARG_SRC, a},
                                           {DNNL_ARG_WEIGHTS, b},
                                           {DNNL_ARG_BIAS, p.bias ? bias : dnnl::memory::desc()},
                                           {DNNL_ARG_DST, c}}),
                       .numerics = std::string(how)};
  } catch (const dnnl::error&) {
    return std::nullopt;  // no implementation for these strides
  }
}

}  // namespace neap::ops
