// What all kernels on oneDNN share: one engine, one stream, primitives whose arguments are prepared once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <utility>
#include <vector>

namespace neap {

dnnl::engine& onednn_engine();
dnnl::stream& onednn_stream();
std::string onednn_version();  // "onednn 2.6.3 avx512_core_bf16"

// Attributes that make the library ask for its scratch instead of allocating it.
dnnl::primitive_attr onednn_attr();

// A dense row-major description of f32 (or another type's) elements.
dnnl::memory::desc onednn_dense(const std::vector<std::int64_t>& sizes,
                                dnnl::memory::data_type type = dnnl::memory::data_type::f32);
// With strides given in elements.
dnnl::memory::desc onednn_strided(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides,
                                  dnnl::memory::data_type type = dnnl::memory::data_type::f32);
// Any layout: the primitive chooses.
dnnl::memory::desc onednn_any(const std::vector<std::int64_t>& sizes,
                              dnnl::memory::data_type type = dnnl::memory::data_type::f32);

// A memory object without memory: its handle is set at every launch.
dnnl::memory onednn_memory(const dnnl::memory::desc& desc);

// A primitive with its arguments.
class OneDnnCall {
 public:
  OneDnnCall() = default;
  // `args` are DNNL_ARG_* with their descriptions; the scratchpad is added when the primitive wants one.
  OneDnnCall(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad,
             std::initializer_list<std::pair<int, dnnl::memory::desc>> args);

  explicit operator bool() const { return !exec_.empty(); }
  std::int64_t scratchpad_bytes() const { return scratchpad_bytes_; }

  // Where argument `arg` lies from now on. Arguments that the primitive does not take are ignored.
  void set(int arg, const void* at);
  // `scratchpad` has scratchpad_bytes() bytes.
  void run(std::byte* scratchpad);

 private:
  dnnl::primitive primitive_;
  std::vector<std::pair<int, dnnl::memory>> memories_;
  std::vector<dnnl_exec_arg_t> exec_;
  std::int64_t scratchpad_bytes_ = 0;
};

}  // namespace neap
