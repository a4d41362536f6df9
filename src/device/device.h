// A device: where the arena lies and kernels run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace neap {

class ActivityLog;

enum class DeviceKind : std::uint8_t { kNull, kCpu, kCuda };

std::string_view name(DeviceKind kind);

// In-order queue of work.
class Stream {
 public:
  virtual ~Stream() = default;
};

// The one piece of memory that everything lives in: addresses for `capacity`, of which the first `bytes` may be used.
class Arena {
 public:
  virtual ~Arena() = default;
  virtual std::byte* base() = 0;  // null on a device without memory
  virtual std::int64_t bytes() const = 0;
  virtual std::int64_t capacity() const = 0;
  // What lies at or above `bytes` (at most the capacity) is lost. Where the memory is the arena's own its pages go back
  // to the system, and touching them faults until the arena has grown again.
  virtual void resize(std::int64_t bytes) = 0;
  // Of physical memory, now.
  virtual std::int64_t resident_bytes() const = 0;
};

// Times of pieces of work on a device's stream.
class Timer {
 public:
  virtual ~Timer() = default;
  virtual void mark() = 0;                         // a piece ends here and the next begins; waits for nothing
  virtual void read(std::vector<double>& ms) = 0;  // milliseconds between the marks so far, which are then forgotten
};

// Work that was noted once and runs again as a whole.
class Replay {
 public:
  virtual ~Replay() = default;
  virtual void run() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  // What results may depend on: instruction set, library version, threads.
  virtual std::string numerics() const = 0;
  // All of it may be used at first. With `guard`, touching a byte behind the last page faults.
  virtual std::unique_ptr<Arena> make_arena(std::int64_t capacity, bool guard) = 0;
  // The part of somebody else's memory, which outlives it, that begins at a multiple of kAlignment. UserError when the
  // device cannot use it.
  virtual std::unique_ptr<Arena> arena_in(std::span<std::byte> memory) = 0;
  virtual Stream& stream() = 0;
  virtual void write(std::byte* dst, const void* src, std::int64_t bytes) = 0;  // host to device
  virtual void read(void* dst, const std::byte* src, std::int64_t bytes) = 0;   // device to host, after all work
  virtual void synchronise() = 0;
  // By the host's clock unless the device has a better one.
  virtual std::unique_ptr<Timer> make_timer();
  // Notes, without running it, what `launch` puts on the stream; null where a device gains nothing from that.
  virtual std::unique_ptr<Replay> capture(const std::function<void()>& /*launch*/) { return nullptr; }
  // Of what runs on the device (device/activity.h). Null where there is none; `why` is then a line for people, or empty
  // when the device needs none: its work is done when a call returns.
  virtual ActivityLog* activities(std::string& /*why*/) { return nullptr; }
  // What the device's driver takes beside the arenas.
  virtual std::int64_t context_bytes() const { return 0; }
};

// What arena_in() can use of this memory.
std::span<std::byte> aligned_part(std::span<std::byte> memory);

std::unique_ptr<Device> make_cpu_device(int threads);  // 0: as many as there are
std::unique_ptr<Device> make_null_device();
// Null in a program without CUDA kernels. DeviceError when there is no GPU that can be used.
[[gnu::weak]] std::unique_ptr<Device> make_cuda_device();

}  // namespace neap
