#include "train/data/inflate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "neap/error.h"

namespace neap {
namespace {

constexpr std::size_t kPiece = 1U << 30;  // zlib counts in 32 bits

constexpr int kGzipWindow = 15 + 16;  // 16 asks zlib for the gzip wrapper, a negative number for none
constexpr int kRawWindow = -15;

}  // namespace

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

Inflater::Inflater(std::span<const std::byte> input, Format format, std::string label)
    : input_(input), format_(format), label_(std::move(label)) {
  require(inflateInit2(&stream_, format == Format::kGzip ? kGzipWindow : kRawWindow) == Z_OK, "zlib did not start");
}

Inflater::~Inflater() { inflateEnd(&stream_); }

void Inflater::fail(const char* what) const { throw UserError(fmt::format("'{}': {}", label_, what)); }

void Inflater::finish_member() {
  const std::size_t rest = stream_.avail_in + input_.size();
  if (rest == 0) {
    ended_ = true;
    return;
  }
  const std::span<const std::byte> next(reinterpret_cast<const std::byte*>(stream_.next_in), rest);
  if (format_ != Format::kGzip || !is_gzip(next)) fail("bytes follow the end of the compressed data");
  require(inflateReset(&stream_) == Z_OK, "zlib did not reset");
}

std::size_t Inflater::read(std::span<std::byte> out) {
  std::size_t filled = 0;
  while (filled < out.size() && !ended_) {
    if (stream_.avail_in == 0) {
      const std::size_t piece = std::min(input_.size(), kPiece);
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(input_.data()));
      stream_.avail_in = static_cast<uInt>(piece);
      input_ = input_.subspan(piece);
    }
    const std::size_t room = std::min(out.size() - filled, kPiece);
    stream_.next_out = reinterpret_cast<Bytef*>(out.data() + filled);
    stream_.avail_out = static_cast<uInt>(room);
    const int status = inflate(&stream_, Z_NO_FLUSH);
    filled += room - stream_.avail_out;
    if (status == Z_STREAM_END) {
      finish_member();
    } else if (status == Z_BUF_ERROR) {
      fail("the compressed data are cut short");
    } else if (status != Z_OK) {
      fail("the compressed data are corrupt");
    }
  }
  return filled;
}

void Inflater::expect_end() {
  std::array<std::byte, 1> more{};
  if (read(more) != 0) fail("more data are compressed in it than its header says");
}

}  // namespace neap
