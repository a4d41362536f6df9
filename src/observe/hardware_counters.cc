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
#include <span>

namespace neap {
namespace {

struct Event {
  std::uint32_t type = PERF_TYPE_HARDWARE;
  std::uint64_t config = 0;
};
constexpr std::uint64_t l1_read(std::uint64_t result) {
  return PERF_COUNT_HW_CACHE_L1D | (PERF_COUNT_HW_CACHE_OP_READ << 8U) | (result << 16U);
}
constexpr std::array<Event, 4> kEvents = {
    Event{.config = PERF_COUNT_HW_CPU_CYCLES}, Event{.config = PERF_COUNT_HW_INSTRUCTIONS},
    Event{.config = PERF_COUNT_HW_CACHE_REFERENCES}, Event{.config = PERF_COUNT_HW_CACHE_MISSES}};
constexpr std::array<Event, 2> kL1Events = {Event{PERF_TYPE_HW_CACHE, l1_read(PERF_COUNT_HW_CACHE_RESULT_ACCESS)},
                                            Event{PERF_TYPE_HW_CACHE, l1_read(PERF_COUNT_HW_CACHE_RESULT_MISS)}};

int open_event(const Event& event, int thread, int group) {
  perf_event_attr attr{};
  attr.type = event.type;
  attr.size = sizeof attr;
  attr.config = event.config;
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

// The leader of a group of events of the thread; negative: not all of them can be had. Files that were opened stay in
// the list.
int open_group(std::span<const Event> events, int thread, std::vector<int>& files) {
  int group = -1;
  for (const Event& event : events) {
    const int file = open_event(event, thread, group);
    if (file < 0) return file;
    files.push_back(file);
    if (group < 0) group = file;
  }
  return group;
}

// The values of a group, false where they cannot be read.
template <std::size_t kCount>
bool read_group(int group, std::array<std::uint64_t, kCount>& values) {
  std::array<std::uint64_t, 1 + kCount> read{};
  if (::read(group, read.data(), sizeof read) != static_cast<ssize_t>(sizeof read)) return false;
  std::copy(read.begin() + 1, read.end(), values.begin());
  return true;
}

}  // namespace

std::unique_ptr<HardwareCounters> HardwareCounters::open(std::string& why) {
  std::unique_ptr<HardwareCounters> out(new HardwareCounters);
  for (const int thread : threads_now()) {
    const int group = open_group(kEvents, thread, out->files_);
    if (group < 0) {
      why = errno == EACCES || errno == EPERM
                ? "the system does not let us read the processor's counters (kernel.perf_event_paranoid)"
                : fmt::format("the machine has no counters for us: {}", std::strerror(errno));
      return nullptr;
    }
    out->groups_.push_back(group);
    const int l1 = open_group(kL1Events, thread, out->files_);
    if (l1 >= 0) out->l1_groups_.push_back(l1);
  }
  if (out->groups_.empty()) why = "/proc does not list the process's threads";
  return out->groups_.empty() ? nullptr : std::move(out);
}

HardwareCounters::~HardwareCounters() {
  for (const int file : files_) close(file);
}

CounterReading HardwareCounters::read() const {
  CounterReading sum;
  std::array<std::uint64_t, kEvents.size()> all{};
  for (const int group : groups_) {
    if (!read_group(group, all)) continue;
    sum += {.cycles = all[0], .instructions = all[1], .cache_references = all[2], .cache_misses = all[3]};
  }
  std::array<std::uint64_t, kL1Events.size()> l1{};
  for (const int group : l1_groups_) {
    if (read_group(group, l1)) sum += {.l1_reads = l1[0], .l1_misses = l1[1]};
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
