// What the processor counted of this process's threads, where the machine has counters and the system lets us read
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace neap {

struct CounterReading {
  std::uint64_t cycles = 0;
  std::uint64_t instructions = 0;
  std::uint64_t cache_references = 0;  // of the last level
  std::uint64_t cache_misses = 0;
  std::uint64_t l1_reads = 0;  // 0: this processor does not tell
  std::uint64_t l1_misses = 0;

  friend CounterReading operator-(const CounterReading& a, const CounterReading& b) {
    return {.cycles = a.cycles - b.cycles,
            .instructions = a.instructions - b.instructions,
            .cache_references = a.cache_references - b.cache_references,
            .cache_misses = a.cache_misses - b.cache_misses,
            .l1_reads = a.l1_reads - b.l1_reads,
            .l1_misses = a.l1_misses - b.l1_misses};
  }
  CounterReading& operator+=(const CounterReading& b) {
    cycles += b.cycles;
    instructions += b.instructions;
    cache_references += b.cache_references;
    cache_misses += b.cache_misses;
    l1_reads += b.l1_reads;
    l1_misses += b.l1_misses;
    return *this;
  }
};

class HardwareCounters {
 public:
  // Counts all threads that the process has now. Null where that cannot be; `why` then says so in one line.
  static std::unique_ptr<HardwareCounters> open(std::string& why);
  ~HardwareCounters();
  HardwareCounters(const HardwareCounters&) = delete;
  HardwareCounters& operator=(const HardwareCounters&) = delete;

  CounterReading read() const;  // since open(), over all threads

 private:
  HardwareCounters() = default;
  std::vector<int> groups_;     // a file descriptor a thread
  std::vector<int> l1_groups_;  // the same of the L1 cache, which not every processor has
  std::vector<int> files_;      // all of them
};

// Sizes of the data caches, from the system; 0 where it does not say.
struct Caches {
  std::int64_t l1_bytes = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t l3_bytes = 0;
};
const Caches& find_caches();

// Without counters: the share of the bytes that a call moves which come from memory, if it goes through all of them
// once and they compete for the largest cache.
double modelled_miss_rate(double traffic_bytes, const Caches& caches);

}  // namespace neap
