// Times transpose on the shapes of training, in GB/s of what is read and written, beside memcpy on all threads.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <vector>

#include "graph/op.h"
#include "ops/evaluate.h"

namespace {

using neap::DType;
using neap::Ints;
using neap::Shape;

struct Case {
  const char* name;
  Shape shape;
  Ints perm;
  DType dtype = DType::kF32;
};

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double time_of(const std::function<void()>& call) {
  call();
  double best = 1e30;
  for (int round = 0; round < 20; ++round) {
    const double start = seconds();
    call();
    best = std::min(best, seconds() - start);
  }
  return best;
}

class NoStream final : public neap::Stream {};

void run(const Case& t) {
  neap::OpCall call{
      .op = &neap::op_named("transpose"), .attrs = {{"perm", t.perm}}, .inputs = {neap::TensorType{t.dtype, t.shape}}};
  call.outputs = call.op->infer(call);
  const auto kernel = neap::prepare_cpu_kernel(call);
  std::vector<std::byte> src(static_cast<std::size_t>(call.in(0).bytes()), std::byte{1});
  std::vector<std::byte> dst(src.size());
  const std::byte* in[] = {src.data()};
  std::byte* out[] = {dst.data()};
  NoStream stream;
  const double own = time_of([&] { kernel->launch({.inputs = in, .outputs = out}, stream); });
  const double copy = time_of([&] {
#pragma omp parallel
    {
      const std::size_t parts = static_cast<std::size_t>(omp_get_num_threads());
      const std::size_t part = static_cast<std::size_t>(omp_get_thread_num());
      const std::size_t from = src.size() * part / parts;
      std::memcpy(dst.data() + from, src.data() + from, src.size() * (part + 1) / parts - from);
    }
  });
  const double bytes = 2.0 * static_cast<double>(src.size());
  std::printf("%-24s %-24s %9.1f %9.1f\n", t.name, call.in(0).text().c_str(), bytes / own / 1e9, bytes / copy / 1e9);
}

}  // namespace

int main() {
  std::printf("%d threads\n%-24s %-24s %9s %9s\n", omp_get_max_threads(), "", "", "GB/s", "memcpy");
  for (const Case& t : std::vector<Case>{
           {"matrix", {2048, 2048}, {1, 0}},
           {"last two axes", {64, 256, 256}, {0, 2, 1}},
           {"last two axes, in cache", {4, 256, 256}, {0, 2, 1}},
           {"heads", {8, 256, 6, 64}, {0, 2, 1, 3}},
           {"heads back", {8, 6, 256, 64}, {0, 2, 1, 3}},
           {"keys", {8, 256, 6, 64}, {0, 2, 3, 1}},
           {"NCHW to NHWC", {32, 64, 56, 56}, {0, 2, 3, 1}},
           {"NHWC to NCHW", {32, 56, 56, 64}, {0, 3, 1, 2}},
           {"images to NHWC", {32, 3, 224, 224}, {0, 2, 3, 1}},
           {"reversed", {128, 64, 96}, {2, 1, 0}},
           {"bf16", {2048, 2048}, {1, 0}, DType::kBF16},
           {"bytes", {2048, 2048}, {1, 0}, DType::kU8},
           {"i64", {2048, 1024}, {1, 0}, DType::kI64},
       }) {
    run(t);
  }
  return 0;
}
