// For tests: bytes of the formats, made by hand, whole or with one thing wrong.
#pragma once

#include <fmt/format.h>
#include <zlib.h>

#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "neap/error.h"
#include "train/data/dataset.h"

namespace neap::testing {

template <class T>
std::string little(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class T>
std::string little(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

template <class T>
std::string big(T value) {
  const std::string bytes = little(value);
  return {bytes.rbegin(), bytes.rend()};
}

inline std::string idx_header(int type, const std::vector<std::uint32_t>& shape) {
  std::string out = {'\0', '\0', static_cast<char>(type), static_cast<char>(shape.size())};
  for (const std::uint32_t size : shape) out += big(size);
  return out;
}

template <class T>
std::string idx(int type, const std::vector<std::uint32_t>& shape, const std::vector<T>& values) {
  std::string out = idx_header(type, shape);
  for (const T& value : values) out += big(value);
  return out;
}

// window: 15+16 gzip, -15 raw deflate.
inline std::string deflated(std::string_view text, int window) {
  z_stream stream{};
  require(deflateInit2(&stream, 6, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY) == Z_OK, "deflateInit2");
  std::string out(deflateBound(&stream, text.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  require(deflate(&stream, Z_FINISH) == Z_STREAM_END, "deflate");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline std::string gzip(std::string_view text) { return deflated(text, 15 + 16); }

inline std::string npy_raw(std::string_view header, std::string_view data, int version = 1) {
  std::string out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  out += version == 1 ? little(static_cast<std::uint16_t>(header.size()))
                      : little(static_cast<std::uint32_t>(header.size()));
  return out.append(header).append(data);
}

inline std::string npy_dict(std::string_view descr, std::string_view shape, std::string_view order = "False") {
  return fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}   \n", descr, order, shape);
}

template <class T>
std::string npy(std::string_view descr, std::string_view shape, const std::vector<T>& values) {
  return npy_raw(npy_dict(descr, shape), little(values));
}

struct ZipPart {
  std::string name;
  std::string data;
  bool deflate = false;
  bool zip64 = false;
  // Faults.
  int method = -1;
  std::uint16_t flags = 0;
  std::uint32_t crc_error = 0;
  std::int64_t size_error = 0;
};

inline std::string zip64_extra(const std::vector<std::uint64_t>& values) {
  return little<std::uint16_t>(1) + little(static_cast<std::uint16_t>(values.size() * 8)) + little(values);
}

// Archive with a central directory of one record a part.
inline std::string zip(const std::vector<ZipPart>& parts, std::string_view comment = "", bool end64 = false) {
  using U16 = std::uint16_t;
  using U32 = std::uint32_t;
  std::string out;
  std::string directory;
  for (const ZipPart& part : parts) {
    const std::string packed = part.deflate ? deflated(part.data, -15) : part.data;
    const auto crc = static_cast<U32>(crc32_z(0, reinterpret_cast<const Bytef*>(part.data.data()), part.data.size()));
    const auto method = static_cast<U16>(part.method >= 0 ? part.method : (part.deflate ? 8 : 0));
    const std::uint64_t offset = out.size();
    const std::uint64_t size = part.data.size() + static_cast<std::uint64_t>(part.size_error);
    const std::string common =
        little<U16>(20) + little(part.flags) + little(method) + little<U32>(0) + little(crc + part.crc_error);
    const std::string sizes = part.zip64 ? little<U32>(~0U) + little<U32>(~0U)
                                         : little(static_cast<U32>(packed.size())) + little(static_cast<U32>(size));
    const auto name_bytes = little(static_cast<U16>(part.name.size()));
    const std::string local_extra = part.zip64 ? zip64_extra({size, packed.size()}) : "";
    const std::string extra = part.zip64 ? zip64_extra({size, packed.size(), offset}) : "";
    out += little<U32>(0x04034b50) + common + sizes + name_bytes + little(static_cast<U16>(local_extra.size())) +
           part.name + local_extra + packed;
    directory += little<U32>(0x02014b50) + little<U16>(20) + common + sizes + name_bytes +
                 little(static_cast<U16>(extra.size())) + std::string(10, '\0') +
                 little(part.zip64 ? ~0U : static_cast<U32>(offset)) + part.name + extra;
  }
  const std::uint64_t start = out.size();
  const std::uint64_t count = parts.size();
  out += directory;
  if (end64) {
    const std::uint64_t at = out.size();
    out += little<U32>(0x06064b50) + little<std::uint64_t>(44) + std::string(12, '\0') + little(count) + little(count) +
           little<std::uint64_t>(directory.size()) + little(start);
    out += little<U32>(0x07064b50) + little<U32>(0) + little(at) + little<U32>(1);
  }
  out += little<U32>(0x06054b50) + little<U32>(0) + little(static_cast<U16>(end64 ? 0xffff : count)) +
         little(static_cast<U16>(end64 ? 0xffff : count)) + little(end64 ? ~0U : static_cast<U32>(directory.size())) +
         little(end64 ? ~0U : static_cast<U32>(start)) + little(static_cast<U16>(comment.size()));
  return out.append(comment);
}

// A field of these samples.
template <class T>
std::vector<T> values(const Dataset& data, std::string_view name, const std::vector<std::uint64_t>& indices,
                      const Augment& augment = {}) {
  const std::size_t field = data.field(name);
  std::vector<T> out(static_cast<std::size_t>(sample_bytes(data.fields()[field])) / sizeof(T) * indices.size());
  std::memset(out.data(), 0xff, out.size() * sizeof(T));  // NaN: what is not written shows
  data.fill(indices, field, reinterpret_cast<std::byte*>(out.data()), augment);
  return out;
}

// Pixels as they are, so that tests can name them.
inline DatasetOptions plain_pixels() {
  DatasetOptions options;
  options.mean = {0};
  options.deviation = {1.0F / 255.0F};
  return options;
}

inline std::vector<int> rounded(const std::vector<float>& floats) {
  std::vector<int> out;
  for (const float f : floats) out.push_back(static_cast<int>(std::lround(f)));
  return out;
}

}  // namespace neap::testing
