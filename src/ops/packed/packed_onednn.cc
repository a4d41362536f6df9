#include <string_view>

#include "device/cpu/onednn.h"
#include "ops/packed/packed.h"

namespace neap::ops {
namespace {

class OneDnnPacked final : public Kernel {
 public:
  OneDnnPacked(OneDnnCall call, std::string numerics) : call_(std::move(call)), numerics_(std::move(numerics)) {}
  std::int64_t workspace_bytes() const override { return call_.scratchpad_bytes(); }
  std::string numerics() const override { return numerics_; }
  void launch(const Buffers& b, Stream& /*stream*/) override {
    call_.set(DNNL_ARG_SRC, b.in<float>(0));
    call_.set(DNNL_ARG_WEIGHTS, b.in<float>(1));
    if (b.in<float>(2) != nullptr) call_.set(DNNL_ARG_BIAS, b.in<float>(2));
    call_.set(DNNL_ARG_DST, b.out<float>(0));
    call_.run(b.workspace);
  }

 private:
  OneDnnCall call_;
  std::string numerics_;
};

}  // namespace

Prepared packed_onednn(const PackedLayer& s) {
  if (s.rows == 0) return Declined{"there are no rows"};
  const dnnl::memory::desc weights({s.in, s.out}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::BA16a64b);
  const auto x = onednn_dense({s.rows, s.in});
  const auto y = onednn_dense({s.rows, s.out});
  const auto bias = onednn_dense({1, s.out});
  try {
    const dnnl::matmul::primitive_desc chosen(
        s.bias ? dnnl::matmul::desc(x, weights, bias, y) : dnnl::matmul::desc(x, weights, y), onednn_attr(),
        onednn_engine());
    const std::string_view how = chosen.impl_info_str();
    if (!how.starts_with("brg")) return Declined{"the library would copy the weight at every call"};
    return std::make_unique<OneDnnPacked>(OneDnnCall(dnnl::matmul(chosen), chosen.scratchpad_desc(),
                                                     {{DNNL_ARG_SRC, x},
                                                      {DNNL_ARG_WEIGHTS, weights},
                                                      {DNNL_ARG_BIAS, s.bias ? bias : dnnl::memory::desc()},
                                                      {DNNL_ARG_DST, y}}),
                                          std::string(how));
  } catch (const dnnl::error&) {
    return Declined{"the library has no implementation for this layout"};
  }
}

}  // namespace neap::ops
