// The codec on the GPU against the reference: the same bytes, the same flags.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "core/bytes.h"
#include "device/cuda/cuda.h"
#include "precision/codec_testing.h"
#include "precision/device_codec.h"

namespace neap::precision {
namespace {

class CudaCodecTest : public testing::Test {
 protected:
  CudaCodecTest() : device_(make_cuda_device()), arena_(device_->make_arena(64 * kMiB, false)) {}

  // [src | encoded | decoded], each at a multiple of 256 bytes; bytes behind each must stay as they are.
  void check(Level level, const Floats& x, Rounding rounding, const std::string& what) {
    const auto n = static_cast<std::int64_t>(x.size());
    const CodecKey key{.seed = 5, .step = 77, .tensor = 0xABCDEF12345ULL, .rounding = rounding};
    Bytes want(static_cast<std::size_t>(encoded_bytes(level, n)), std::byte{0xEE});
    const std::size_t gap = static_cast<std::size_t>(payload_bytes(level, n));
    const std::size_t history = static_cast<std::size_t>(history_offset(level, n));
    const unsigned flags = encode_ref(level, x.data(), n, key, want.data(), want.data() + history);
    Floats back(x.size());
    decode_ref(level, want.data(), want.data() + history, n, back.data());

    const std::int64_t at = align_up(4 * n, 256);
    const std::int64_t end = at + align_up(encoded_bytes(level, n) + 1, 256);
    std::byte* base = arena_->base();
    NEAP_CHECK_CUDA(cudaMemsetAsync(base, 0xEE, 64 * kMiB, CudaContext::get().compute()));
    device_->write(base, x.data(), 4 * n);
    const auto codec = make_cuda_codec(3);
    codec->set_step(key);
    codec->start();
    codec->encode(level, reinterpret_cast<const float*>(base), n, key.tensor, base + at, 1);
    codec->finish();
    codec->decode(level, base + at, n, reinterpret_cast<float*>(base + end));
    device_->synchronise();
    EXPECT_EQ(codec->flags(0), 0U);
    EXPECT_EQ(codec->flags(1), flags) << what;
    Bytes got(want.size() + 1);
    device_->read(got.data(), base + at, static_cast<std::int64_t>(got.size()));
    EXPECT_EQ(got.back(), std::byte{0xEE}) << what << ": writes behind its block";
    for (std::size_t i = gap; i < history && i < want.size(); ++i) got[i] = want[i];  // between payload and history
    for (std::size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(got[i], want[i]) << what << ": byte " << i << " of " << want.size();
    }
    Bytes floats(x.size() * 4 + 1);
    device_->read(floats.data(), base + end, static_cast<std::int64_t>(floats.size()));
    EXPECT_EQ(std::memcmp(floats.data(), back.data(), x.size() * 4), 0) << what << ": decoded";
    EXPECT_EQ(floats.back(), std::byte{0xEE}) << what << ": decodes behind its block";
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Arena> arena_;
};

TEST_F(CudaCodecTest, SameBytesAsTheReferenceForAnyLength) {
  for (const Level level : kAllLevels) {
    for (const std::int64_t n : {1, 2, 3, 15, 31, 33, 255, 256, 257, 511, 4096, 4097, 70001}) {
      for (const Rounding rounding : {Rounding::kStochastic, Rounding::kNearest}) {
        check(level, normal_tensor(n, 3 + static_cast<std::uint64_t>(n)), rounding,
              fmt::format("{} {}", name(level), n));
      }
    }
  }
}

TEST_F(CudaCodecTest, SameBytesAndFlagsForHostileTensors) {
  for (const Level level : kAllLevels) {
    for (const std::int64_t n : {300, 9000}) {
      for (const auto& [what, x] : hostile_tensors(n, 11)) {
        check(level, x, Rounding::kStochastic, fmt::format("{} {} of {}", name(level), n, what));
      }
      check(level, wild_tensor(n, 12), Rounding::kStochastic, fmt::format("{} wild", name(level)));
    }
  }
}

// Bytes read and written, over those of a copy of the device's memory in the same time.
TEST_F(CudaCodecTest, RunsNearTheSpeedOfACopy) {
  constexpr std::int64_t kElements = 128 * kMiB;
  const auto arena = device_->make_arena(9 * kElements, false);
  std::byte* base = arena->base();
  Floats x = normal_tensor(kMiB, 4);
  for (std::int64_t at = 0; at < kElements; at += kMiB) device_->write(base + 4 * at, x.data(), 4 * kMiB);
  const auto timer = device_->make_timer();
  const auto best_ms = [&](const std::function<void()>& work) {
    for (int i = 0; i < 6; ++i) {
      timer->mark();
      work();
    }
    timer->mark();
    std::vector<double> ms;
    timer->read(ms);
    return *std::min_element(ms.begin() + 1, ms.end());
  };
  const cudaStream_t stream = CudaContext::get().compute();
  const double copy_ms = best_ms([&] {
    NEAP_CHECK_CUDA(cudaMemcpyAsync(base + 4 * kElements, base, 4 * kElements, cudaMemcpyDeviceToDevice, stream));
  });
  const double copied = 8.0 * static_cast<double>(kElements) / copy_ms;
  const auto codec = make_cuda_codec(1);
  codec->set_step({.seed = 1, .step = 2});
  codec->start();
  for (const Level level : {Level::kFp16, Level::kBf16, Level::kInt8, Level::kInt4, Level::kBit}) {
    const double bytes = static_cast<double>(4 * kElements + encoded_bytes(level, kElements));
    std::byte* const code = base + 4 * kElements;
    const double encode_ms =
        best_ms([&] { codec->encode(level, reinterpret_cast<const float*>(base), kElements, 9, code, 0); });
    const double decode_ms = best_ms([&] { codec->decode(level, code, kElements, reinterpret_cast<float*>(base)); });
    std::printf("  %s: encodes at %.0f %% and decodes at %.0f %% of a copy (%.2f TB/s)\n",
                std::string(name(level)).c_str(), 100 * bytes / encode_ms / copied, 100 * bytes / decode_ms / copied,
                copied * 1e-9);
    EXPECT_GT(bytes / encode_ms, 0.6 * copied) << name(level);
    EXPECT_GT(bytes / decode_ms, 0.6 * copied) << name(level);
  }
}

}  // namespace
}  // namespace neap::precision
