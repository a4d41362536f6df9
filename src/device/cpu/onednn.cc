#include "device/cpu/onednn.h"

#include <fmt/format.h>

#include "neap/error.h"

namespace neap {
namespace {

const char* isa_text() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41: return "sse41";
    case dnnl::cpu_isa::avx: return "avx";
    case dnnl::cpu_isa::avx2: return "avx2";
    case dnnl::cpu_isa::avx2_vnni: return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core: return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni: return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16: return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx: return "avx512_core_amx";
    default: return "other";
  }
}

}  // namespace

dnnl::engine& onednn_engine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::stream& onednn_stream() {
  static dnnl::stream stream(onednn_engine());
  return stream;
}

std::string onednn_version() {
  const dnnl::version_t* v = dnnl::version();
  return fmt::format("onednn {}.{}.{} {}", v->major, v->minor, v->patch, isa_text());
}

dnnl::primitive_attr onednn_attr() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

dnnl::memory::desc onednn_dense(const std::vector<std::int64_t>& sizes, dnnl::memory::data_type type) {
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t step = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step *= sizes[i];
  }
  return {sizes, type, strides};
}

dnnl::memory::desc onednn_strided(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides,
                                  dnnl::memory::data_type type) {
  return {sizes, type, strides};
}

dnnl::memory::desc onednn_any(const std::vector<std::int64_t>& sizes, dnnl::memory::data_type type) {
  return {sizes, type, dnnl::memory::format_tag::any};
}

dnnl::memory onednn_memory(const dnnl::memory::desc& desc) { return {desc, onednn_engine(), DNNL_MEMORY_NONE}; }

OneDnnCall::OneDnnCall(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad,
                       std::initializer_list<std::pair<int, dnnl::memory::desc>> args)
    : primitive_(primitive), scratchpad_bytes_(static_cast<std::int64_t>(scratchpad.get_size())) {
  for (const auto& [arg, desc] : args) {
    if (desc.get_size() > 0) memories_.emplace_back(arg, onednn_memory(desc));
  }
  if (scratchpad_bytes_ > 0) memories_.emplace_back(DNNL_ARG_SCRATCHPAD, onednn_memory(scratchpad));
  for (const auto& [arg, memory] : memories_) exec_.push_back({arg, memory.get()});
}

void OneDnnCall::set(int arg, const void* at) {
  for (auto& [known, memory] : memories_) {
    if (known == arg) memory.set_data_handle(const_cast<void*>(at));
  }
}

void OneDnnCall::run(std::byte* scratchpad) {
  set(DNNL_ARG_SCRATCHPAD, scratchpad);
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive_.get(), onednn_stream().get(), static_cast<int>(exec_.size()), exec_.data());
  if (status != dnnl_success)
    throw DeviceError(fmt::format("oneDNN: a primitive failed with status {}", static_cast<int>(status)));
}

}  // namespace neap
