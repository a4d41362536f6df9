// Sizes in bytes: alignment, and the units that people read and write.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace neap {

inline constexpr std::int64_t kKiB = 1024;
inline constexpr std::int64_t kMiB = 1024 * kKiB;
inline constexpr std::int64_t kGiB = 1024 * kMiB;

// Every block in an arena starts at a multiple of this: a cache line, and a full AVX-512 vector.
inline constexpr std::int64_t kAlignment = 64;
// What a disk past the cache, and the system's memory, come in.
inline constexpr std::int64_t kPage = 4096;

constexpr std::int64_t align_up(std::int64_t bytes, std::int64_t alignment = kAlignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// "512", "512MiB", "2GB", "1.5 GiB"; UserError when malformed or too large.
std::int64_t parse_bytes(std::string_view text);
std::string human_bytes(std::int64_t bytes);

}  // namespace neap
