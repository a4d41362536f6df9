#include "observe/hardware_counters.h"

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace neap {
namespace {

constexpr std::array<std::uint64_t, 4> kEvents = {PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_INSTRUCTIONS,
                                                  PERF_COUNT_HW_CACHE_REFERENCES, PERF_COUNT_HW_CACHE_MISSES};

int open_event(std::uint64_t event, int thread, int group) {
  perf_event_attr attr{};
  attr.type = PERF_TYPE_HARDWARE;
  attr.size = sizeof attr;
  attr.config = event;
  attr.read_format = PERF_FORMAT_GROUP;
  attr.exclude_kernel = 1;
  attr.exclude_hv = 1;
  return static_cast<int>(syscall(SYS_perf_event_open, &attr, thread, -1, group, PERF_FLAG_FD_CLOEXEC));
}

std::vector<int> threads_now() {
  std::vector<int> out;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", error)) {
    out.push_back(std::atoi(entry.path().filename().c_str()));
  }
  return out;
}

}  // namespace

std::unique_ptr<HardwareCounters> HardwareCounters::open(std::string& why) {
  std::unique_ptr<HardwareCounters> out(new HardwareCounters);
  for (const int thread : threads_now()) {
    int group = -1;
    for (const std::uint64_t event : kEvents) {
      const int file = open_event(event, thread, group);
      if (file < 0) {
        why = errno == EACCES || errno == EPERM
                  ? "the system does not let us read the processor's counters (kernel.perf_event_paranoid)"
                  : fmt::format("the machine has no counters for us: {}", std::strerror(errno));
        return nullptr;
      }
      out->files_.push_back(file);
      if (group < 0) group = file;
    }
    out->groups_.push_back(group);
  }
  if (out->groups_.empty()) why = "/proc does not list the process's threads";
  return out->groups_.empty() ? nullptr : std::move(out);
}

HardwareCounters::~HardwareCounters() {
  for (const int file : files_) close(file);
}

CounterReading HardwareCounters::read() const {
  CounterReading sum;
  for (const int group : groups_) {
    std::array<std::uint64_t, 1 + kEvents.size()> values{};
    if (::read(group, values.data(), sizeof values) != static_cast<ssize_t>(sizeof values)) continue;
    sum.cycles += values[1];
    sum.instructions += values[2];
    sum.cache_references += values[3];
    sum.cache_misses += values[4];
  }
  return sum;
}

const Caches& find_caches() {
  static const Caches caches = {.l1_bytes = std::max(0L, sysconf(_SC_LEVEL1_DCACHE_SIZE)),
                                .l2_bytes = std::max(0L, sysconf(_SC_LEVEL2_CACHE_SIZE)),
                                .l3_bytes = std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE))};
  return caches;
}

double modelled_miss_rate(double traffic_bytes, const Caches& caches) {
  const auto largest = static_cast<double>(std::max({caches.l1_bytes, caches.l2_bytes, caches.l3_bytes}));
  if (traffic_bytes <= 0) return 0;
  return std::clamp((traffic_bytes - largest) / traffic_bytes, 0.0, 1.0);
}

}  // namespace neap
