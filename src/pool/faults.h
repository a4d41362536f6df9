// Faults that tests inject into a spill store. They go on counting when a store is replaced by the next.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace neap {

struct SpillFaults {
  // By number of the write or read (the first is 1); 0: none. Every attempt at that read fails.
  std::int64_t fail_write = 0;
  std::int64_t fail_read = 0;
  std::int64_t corrupt_read = 0;
  // From write number `full_from` to `full_to` the file takes no byte at or above this offset; negative: it has room.
  std::int64_t full_bytes = -1;
  std::int64_t full_from = 1;
  std::int64_t full_to = INT64_MAX;
  // From write number `bad_from` on this byte of the file cannot be written; negative: all can.
  std::int64_t bad_place = -1;
  std::int64_t bad_from = 1;
  // From this transfer on everything takes ten times as long; 0: never.
  std::int64_t slow_from = 0;

  // From this growth of the arena on the device has no more memory; 0: it has. Not of the store, but told the same way.
  std::int64_t fail_growth = 0;

  std::int64_t writes = 0;  // so far
  std::int64_t reads = 0;
  std::int64_t growths = 0;
};

// "fail-write:3", "fail-read:3", "corrupt-read:3", "full:8MiB", "full:8MiB@20", "full:8MiB@20-25", "bad:8MiB@20",
// "slow:40", "fail-growth:1"; null for an empty text. UserError for anything else.
std::shared_ptr<SpillFaults> parse_spill_faults(const std::string& text);

}  // namespace neap
