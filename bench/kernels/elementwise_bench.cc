// Times memory-bound kernels beside memcpy over the same threads, in rounds that take turns: GB/s of what is read and
// written, and as a share of memcpy's.
//   OMP_NUM_THREADS=2 build/bench/elementwise_bench [part of a name]
#include <fmt/format.h>
#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "core/random.h"
#include "ops/evaluate.h"

namespace {

using neap::Attrs;
using neap::DType;
using neap::Shape;
using neap::TensorType;

class HostStream final : public neap::Stream {};

struct Case {
  std::string label;
  std::string op;
  std::vector<TensorType> inputs;
  Attrs attrs = {};
  bool in_place = false;  // output 0 over input 0
};

// In huge pages, as the arena is.
class Block {
 public:
  explicit Block(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {
    constexpr std::size_t kPage = std::size_t{2} << 20;
    data_ = static_cast<std::byte*>(std::aligned_alloc(kPage, (bytes_ / kPage + 1) * kPage));
    madvise(data_, (bytes_ / kPage + 1) * kPage, MADV_HUGEPAGE);
    std::memset(data_, 0, bytes_);
  }
  ~Block() { std::free(data_); }
  Block(const Block&) = delete;
  Block(Block&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  Block& operator=(const Block&) = delete;

  std::byte* get() const { return data_; }
  void fill(const TensorType& type) {
    neap::RandomStream random(1);
    auto* floats = reinterpret_cast<float*>(data_);
    for (std::int64_t i = 0; type.dtype == DType::kF32 && i < type.elements(); ++i) {
      floats[i] = static_cast<float>(6 * random.uniform() - 3);
    }
    for (std::size_t i = 0; type.dtype != DType::kF32 && i < bytes_; ++i) data_[i] = std::byte(random.next() & 1U);
  }

 private:
  std::byte* data_;
  std::size_t bytes_;
};

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

template <class F>
double timed(F call) {
  const double start = seconds();
  call();
  return seconds() - start;
}

void copy_on_all_threads(std::byte* dst, const std::byte* src, std::int64_t bytes) {
#pragma omp parallel
  {
    const std::int64_t threads = omp_get_num_threads();
    const std::int64_t first = bytes * omp_get_thread_num() / threads;
    const std::int64_t last = bytes * (omp_get_thread_num() + 1) / threads;
    std::memcpy(dst + first, src + first, static_cast<std::size_t>(last - first));
  }
}

void run(const Case& c) {
  neap::OpCall call{.op = &neap::op_named(c.op), .attrs = c.attrs};
  for (const TensorType& type : c.inputs) call.inputs.emplace_back(type);
  call.outputs = call.op->infer(call);
  const auto kernel = neap::prepare_cpu_kernel(call);
  std::vector<Block> blocks;
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  for (const TensorType& type : c.inputs) {
    blocks.emplace_back(type.bytes()).fill(type);
    in.push_back(blocks.back().get());
  }
  for (const TensorType& type : call.outputs) out.push_back(blocks.emplace_back(type.bytes()).get());
  if (c.in_place) out[0] = const_cast<std::byte*>(in[0]);
  const Block workspace(kernel->workspace_bytes() + 64);
  const std::int64_t bytes = c.inputs[0].bytes();
  const Block from(bytes);
  const Block to(bytes);
  HostStream stream;
  double best = 1e9;
  double copy = 1e9;
  const double start = seconds();
  for (int i = 0; i < 15 || seconds() - start < 0.3; ++i) {
    copy = std::min(copy, timed([&] { copy_on_all_threads(to.get(), from.get(), bytes); }));
    best = std::min(
        best, timed([&] { kernel->launch({.inputs = in, .outputs = out, .workspace = workspace.get()}, stream); }));
  }
  const double speed = neap::traffic_of(call) / best * 1e-9;
  const double memcpy_speed = 2 * static_cast<double>(bytes) / copy * 1e-9;
  fmt::print("{:28} {:8.3f} ms {:6.1f} GB/s, memcpy {:6.1f} GB/s: {:4.2f}\n", c.label, best * 1e3, speed, memcpy_speed,
             speed / memcpy_speed);
}

std::vector<Case> cases(std::int64_t rows, std::int64_t width, const std::string& suffix) {
  const TensorType x{DType::kF32, {rows, width}};
  const TensorType bits{DType::kBits, {rows, width}};
  const TensorType hyper{DType::kF32, {8}};
  const Attrs tanh = {{"approximate", std::string("tanh")}};
  const Attrs rows_axis = {{"axes", neap::Ints{0}}, {"keepdims", 0}};
  std::vector<Case> all = {
      {"gelu", "gelu", {x}},
      {"gelu in place", "gelu", {x}, {}, true},
      {"gelu tanh", "gelu", {x}, tanh},
      {"gelu_grad", "gelu_grad", {x, x}},
      {"gelu_grad in place", "gelu_grad", {x, x}, {}, true},
      {"gelu_grad tanh in place", "gelu_grad", {x, x}, tanh, true},
      {"silu", "silu", {x}},
      {"tanh", "tanh", {x}},
      {"add", "add", {x, x}},
      {"add in place", "add", {x, x}, {}, true},
      {"add bias", "add", {x, {DType::kF32, {width}}}},
      {"add bias in place", "add", {x, {DType::kF32, {width}}}, {}, true},
      {"mul column", "mul", {x, {DType::kF32, {rows, 1}}}},
      {"relu with mask", "relu", {x}},
      {"relu with mask in place", "relu", {x}, {}, true},
      {"relu_grad in place", "relu_grad", {x, bits}, {}, true},
      {"dropout in place", "dropout", {x, {DType::kU64, {3}}}, {{"p", 0.1}, {"key", 1}}, true},
      {"cast to bf16", "cast", {x}, {{"to", std::string("bf16")}}},
      {"reduce rows", "reduce_sum", {x}, rows_axis},
      {"reduce columns", "reduce_sum", {x}, {{"axes", neap::Ints{1}}, {"keepdims", 0}}},
      {"square_sum", "square_sum", {x}},
      {"sgd_update", "sgd_update", {x, x, x, hyper}},
      {"adamw_update", "adamw_update", {x, x, x, x, hyper}},
  };
  for (Case& c : all) c.label += suffix;
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string part = argc > 1 ? argv[1] : "";
  for (const auto& [rows, width, suffix] : {std::tuple{16384, 1024, ", 64 MiB"}, std::tuple{2048, 1536, ", 12 MiB"},
                                            std::tuple{131072, 16, ", 8 MiB"}, std::tuple{256, 384, ", 384 KiB"}}) {
    for (const Case& c : cases(rows, width, suffix)) {
      if (c.label.find(part) != std::string::npos) run(c);
    }
  }
  return 0;
}
