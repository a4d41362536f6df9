// What really ran on a device and when, as its own clock says: kernels and copies, side by side where they were.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace neap {

enum class ActivityKind : std::uint8_t { kKernel, kFill, kCopyInside, kCopyIn, kCopyOut };  // in: from the host

inline constexpr bool is_on_link(ActivityKind kind) {
  return kind == ActivityKind::kCopyIn || kind == ActivityKind::kCopyOut;
}

struct Activity {
  static constexpr std::uint32_t kNoTag = UINT32_MAX;

  ActivityKind kind = ActivityKind::kKernel;
  std::uint32_t tag = kNoTag;  // of the work that asked for it
  std::uint32_t stream = 0;
  std::int64_t begun_ns = 0;  // of the steady clock
  std::int64_t ended_ns = 0;
  std::int64_t bytes = 0;  // of a copy or a fill
  std::string name;        // of a kernel
};

// Notes activities while it is on; off, it costs nothing.
class ActivityLog {
 public:
  virtual ~ActivityLog() = default;
  virtual void start() = 0;
  // What this thread asks for from now on, or captures, has this tag. kNoTag: none.
  virtual void tag(std::uint32_t tag) = 0;
  // Waits for the device. All since start(), in the order in which they began.
  virtual std::vector<Activity> stop() = 0;
};

// A log that is on while this lives, and what it noted.
class NotedActivities {
 public:
  explicit NotedActivities(ActivityLog& log) : log_(log) { log_.start(); }
  ~NotedActivities() {
    if (is_on_) log_.stop();
  }
  NotedActivities(const NotedActivities&) = delete;
  NotedActivities& operator=(const NotedActivities&) = delete;
  std::vector<Activity> take() {
    is_on_ = false;
    log_.tag(Activity::kNoTag);
    return log_.stop();
  }

 private:
  ActivityLog& log_;
  bool is_on_ = true;
};

// A kernel's name as source code has it, without its parameters.
std::string readable_kernel(const std::string& mangled);

// How long something ran, however much of it at once.
struct Busy {
  double link_ms = 0;     // copies between host and device
  double compute_ms = 0;  // all else
  double overlap_ms = 0;  // both
  std::int64_t link_bytes = 0;
};
Busy busy_of(std::span<const Activity> activities);

// The span of time from the first to the last activity of each tag below `tags`; both 0: it has none.
struct TagTime {
  std::int64_t begun_ns = 0;
  std::int64_t ended_ns = 0;
  double busy_ms = 0;  // summed over its activities
};
std::vector<TagTime> times_by_tag(std::span<const Activity> activities, std::size_t tags);

}  // namespace neap
