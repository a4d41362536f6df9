// Checksums of bytes that leave the arena, about as fast as memory. They never leave the process, so that each
// instruction set may have a function of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cpu/isa.h"

namespace neap {

struct ChecksumTable {
  std::uint64_t (*sum)(const std::byte* data, std::int64_t bytes);
};
NEAP_ISA_TABLE(ChecksumTable, checksum_table)

inline std::uint64_t checksum(const std::byte* data, std::int64_t bytes) { return checksum_table().sum(data, bytes); }

}  // namespace neap
