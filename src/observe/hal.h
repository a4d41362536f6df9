// The hardware abstraction layer: what caches, memory and clock do while calls run. Every reading says where it comes
// from: counted by the processor, or, where it cannot be counted, modelled from the operands and the order of calls.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "observe/hardware_counters.h"

namespace neap {

enum class Source : std::uint8_t { kHardware, kModelled, kAbsent };
std::string_view name(Source source);  // hw, modelled, absent

struct Reading {
  double value = 0;
  Source source = Source::kAbsent;
};

// Where the bytes that a call reads come from, and what its writes send out to memory.
struct MemoryTraffic {
  double from_l1 = 0, from_l2 = 0, from_l3 = 0, from_memory = 0;
  double to_memory = 0;

  double read() const { return from_l1 + from_l2 + from_l3 + from_memory; }
  MemoryTraffic& operator+=(const MemoryTraffic& other);
};

// Of each node when the graph runs step after step in program order. A tensor is found in the smallest cache that holds
// it and everything touched since it was touched last (an LRU cache of whole tensors); a result goes out to memory if
// the largest cache has lost it before it is read. The caches' bytes are those of all threads together.
std::vector<MemoryTraffic> modelled_traffic(const Graph& graph, const Caches& caches);

// What the caches and the memory did for some calls. A hit rate is the share of reads that did not go further out.
struct MemoryActivity {
  Reading l1_hit_rate, l2_hit_rate, l3_hit_rate;
  Reading memory_bytes;
};
// `counted`: what the processor counted meanwhile, where it does. It does not tell of L2 in a way that all share.
MemoryActivity activity_of(const MemoryTraffic& modelled, const std::optional<CounterReading>& counted);

// The clock of the calling thread's core while it is busy: cycles counted, or the time of a chain of additions, which
// take a cycle each. Takes 2 ms. Absent where neither can be.
Reading core_clock_mhz(const HardwareCounters* counters);

}  // namespace neap
