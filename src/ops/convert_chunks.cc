// Elementwise ops on bf16, some elements at a time: a chunk is widened, computed and narrowed while it is in the
// caches.
#include <algorithm>
#include <array>
#include <cstring>

#include "core/bytes.h"
#include "neap/error.h"
#include "ops/convert_kernel.h"

namespace neap {
namespace {

// Elements: three tensors of f32 lie in the second-level caches of two cores. A multiple of 8, for bits.
constexpr std::int64_t kChunk = std::int64_t{1} << 16;
constexpr std::size_t kMost = 8;  // inputs or outputs of a call

enum class Way : std::uint8_t { kAbsent, kElements, kWhole, kKey };

struct Part {
  Way way = Way::kAbsent;
  DType type = DType::kF32;
  std::int64_t at = -1;  // in the workspace, of a widened chunk
};

std::int64_t bytes_of(DType type, std::int64_t elements) { return TensorType{type, {elements}}.bytes(); }

class ChunkedKernel final : public Kernel {
 public:
  ChunkedKernel(std::vector<Part> in, std::vector<Part> out, std::int64_t n)
      : in_(std::move(in)), out_(std::move(out)), n_(n) {
    for (std::vector<Part>* parts : {&in_, &out_}) {
      for (Part& p : *parts) {
        if (p.way != Way::kElements || p.type != DType::kBF16) continue;
        p.at = chunks_bytes_;
        chunks_bytes_ += align_up(std::min(kChunk, n_) * static_cast<std::int64_t>(sizeof(float)));
      }
    }
  }

  // `call` for `elements` of its elements.
  static OpCall piece(const OpCall& call, const std::vector<Part>& in, std::int64_t elements) {
    OpCall out = widened(call);
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (in[i].way == Way::kElements) out.inputs[i]->shape = {elements};
    }
    for (TensorType& t : out.outputs) t.shape = {elements};
    return out;
  }

  void set_kernels(std::shared_ptr<Kernel> whole, std::shared_ptr<Kernel> last) {
    whole_ = std::move(whole);
    last_ = std::move(last);
  }

  std::int64_t workspace_bytes() const override {
    return chunks_bytes_ + std::max(whole_->workspace_bytes(), last_->workspace_bytes());
  }
  std::string numerics() const override { return whole_->numerics(); }
  void launch(const Buffers& b, Stream& stream) override {
    for (std::int64_t first = 0; first < n_; first += kChunk) run(b, first, stream);
  }

 private:
  void run(const Buffers& b, std::int64_t first, Stream& stream) {
    const std::int64_t count = std::min(kChunk, n_ - first);
    std::array<const std::byte*, kMost> in{};
    std::array<std::byte*, kMost> out{};
    std::array<std::uint64_t, 3> key{};
    for (std::size_t i = 0; i < in_.size(); ++i) {
      const Part& p = in_[i];
      if (p.way == Way::kAbsent || b.inputs[i] == nullptr) continue;
      in[i] = b.inputs[i] + (p.way == Way::kElements ? bytes_of(p.type, first) : 0);
      if (p.way == Way::kKey) {
        std::memcpy(key.data(), in[i], sizeof key);
        key[2] += static_cast<std::uint64_t>(first);
        in[i] = reinterpret_cast<const std::byte*>(key.data());
      }
      if (p.at < 0) continue;
      widen_cpu(in[i], reinterpret_cast<float*>(b.workspace + p.at), count);
      in[i] = b.workspace + p.at;
    }
    for (std::size_t i = 0; i < out_.size(); ++i) {
      if (b.outputs[i] == nullptr) continue;
      out[i] = out_[i].at >= 0 ? b.workspace + out_[i].at : b.outputs[i] + bytes_of(out_[i].type, first);
    }
    (count == kChunk ? whole_ : last_)
        ->launch({.inputs = {in.data(), in_.size()},
                  .outputs = {out.data(), out_.size()},
                  .workspace = b.workspace + chunks_bytes_},
                 stream);
    for (std::size_t i = 0; i < out_.size(); ++i) {
      if (out[i] == nullptr || out_[i].at < 0) continue;
      narrow_cpu(reinterpret_cast<const float*>(out[i]), b.outputs[i] + bytes_of(DType::kBF16, first), count);
    }
  }

  std::vector<Part> in_, out_;
  std::int64_t n_;
  std::int64_t chunks_bytes_ = 0;
  std::shared_ptr<Kernel> whole_, last_;
};

// How the inputs are taken; nothing where an element of the result needs more than one of theirs.
std::optional<std::vector<Part>> parts_of(const OpCall& call) {
  std::vector<Part> parts;
  for (const auto& t : call.inputs) {
    Part p;
    if (t) {
      p.type = t->dtype;
      const bool is_key = call.op->random && t->dtype == DType::kU64;
      const bool is_whole = t->elements() == 1 && t->dtype != DType::kBF16;
      const bool is_alike = t->shape == call.outputs[0].shape;
      p.way = is_key ? Way::kKey : is_alike ? Way::kElements : Way::kWhole;
      if (!is_key && !is_alike && !is_whole) return std::nullopt;
    }
    parts.push_back(p);
  }
  return parts;
}

}  // namespace

std::shared_ptr<Kernel> chunked_kernel(const OpCall& call, const PrepareWide& prepare) {
  if (!call.op->elementwise || call.inputs.size() > kMost || call.outputs.size() > kMost) return nullptr;
  const std::int64_t n = call.outputs[0].elements();
  auto in = parts_of(call);
  if (!in || n == 0) return nullptr;
  std::vector<Part> out;
  for (const TensorType& t : call.outputs) {
    if (!(t.shape == call.outputs[0].shape)) return nullptr;
    out.push_back({.way = Way::kElements, .type = t.dtype});
  }
  const std::int64_t rest = n % kChunk == 0 ? kChunk : n % kChunk;
  const OpCall whole = ChunkedKernel::piece(call, *in, std::min(n, kChunk));
  const OpCall last = ChunkedKernel::piece(call, *in, rest);
  if (!is_native(whole) || !is_native(last)) return nullptr;  // its attributes say more of its shape
  auto kernel = std::make_shared<ChunkedKernel>(std::move(*in), std::move(out), n);
  kernel->set_kernels(prepare(whole), prepare(last));
  return kernel;
}

}  // namespace neap
