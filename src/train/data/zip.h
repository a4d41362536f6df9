// The members of a ZIP archive, stored or deflated, with ZIP64; read from the central directory and nowhere else.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/file.h"

namespace neap {

struct ZipMember {
  std::string name;
  bool deflated = false;
  std::uint32_t crc = 0;
  std::uint64_t size = 0;             // when unpacked
  std::span<const std::byte> packed;  // in the file
};

// UserError when the file is no archive, cut short, encrypted, packed by another method, split over several files, or
// when its members overlap, repeat a name or reach outside.
std::vector<ZipMember> list_zip(const MappedFile& file);

// A member's bytes with their check sum verified: in place when stored, else in a buffer.
struct ZipData {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};
ZipData unpack(const ZipMember& member, const std::shared_ptr<const MappedFile>& file);

}  // namespace neap
