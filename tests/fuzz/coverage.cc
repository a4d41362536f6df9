// Coverage of g++ (-fsanitize-coverage=trace-pc: a call at every edge) as the counters that libFuzzer reads.
#include <cstdint>

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the names are those of the interface
extern "C" void __sanitizer_cov_8bit_counters_init(std::uint8_t* begin, std::uint8_t* end);

namespace {

constexpr std::uintptr_t kCounters = 1U << 17U;  // two edges that meet in one are seen as one
std::uint8_t counters[kCounters];

[[gnu::constructor]] void start() { __sanitizer_cov_8bit_counters_init(counters, counters + kCounters); }

}  // namespace

extern "C" void __wrap___sanitizer_cov_trace_pc() {
  const auto pc = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  ++counters[(pc ^ pc >> 17U) % kCounters];
}

// Comparisons of floats, which libFuzzer does not look at.
extern "C" void __sanitizer_cov_trace_cmpf(float /*a*/, float /*b*/) {}
extern "C" void __sanitizer_cov_trace_cmpd(double /*a*/, double /*b*/) {}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
