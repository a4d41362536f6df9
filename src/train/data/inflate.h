// Decompression piece by piece, so that the caller says how much may come out.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <span>
#include <string>

namespace neap {

// A gzip stream (of one or several members) or a raw deflate stream that takes all of `input`. UserError with `label`
// when it is corrupt, ends early or is followed by other bytes.
class Inflater {
 public:
  enum class Format { kGzip, kDeflate };
  // No deflate stream is longer than this many times its input, so a larger claim is a lie.
  static constexpr std::size_t kMaxRatio = 1032;

  Inflater(std::span<const std::byte> input, Format format, std::string label);
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Fills `out`; how much of it was filled is less only when the stream is at its end. Check sums hold by then.
  std::size_t read(std::span<std::byte> out);
  // UserError unless the stream ends here.
  void expect_end();

 private:
  [[noreturn]] void fail(const char* what) const;
  void finish_member();

  std::span<const std::byte> input_;  // not yet given to zlib
  Format format_;
  std::string label_;
  z_stream stream_{};
  bool ended_ = false;
};

bool is_gzip(std::span<const std::byte> bytes);

}  // namespace neap
