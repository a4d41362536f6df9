// A device that only counts: no memory, no kernels. Plans are made and walked, nothing is computed.
#include "device/device.h"

namespace neap {
namespace {

class NullStream final : public Stream {};

class NullArena final : public Arena {
 public:
  explicit NullArena(std::int64_t capacity) : capacity_(capacity), bytes_(capacity) {}
  std::byte* base() override { return nullptr; }
  std::int64_t bytes() const override { return bytes_; }
  std::int64_t capacity() const override { return capacity_; }
  void resize(std::int64_t bytes) override { bytes_ = bytes; }
  std::int64_t resident_bytes() const override { return 0; }

 private:
  std::int64_t capacity_;
  std::int64_t bytes_;
};

class NullDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::kNull; }
  std::string numerics() const override { return "null"; }
  std::unique_ptr<Arena> make_arena(std::int64_t capacity, bool /*guard*/) override {
    return std::make_unique<NullArena>(capacity);
  }
  std::unique_ptr<Arena> arena_in(std::span<std::byte> memory) override {
    return std::make_unique<NullArena>(static_cast<std::int64_t>(memory.size()));
  }
  Stream& stream() override { return stream_; }
  void write(std::byte* /*dst*/, const void* /*src*/, std::int64_t /*bytes*/) override {}
  void read(void* /*dst*/, const std::byte* /*src*/, std::int64_t /*bytes*/) override {}
  void synchronise() override {}

 private:
  NullStream stream_;
};

}  // namespace

std::unique_ptr<Device> make_null_device() { return std::make_unique<NullDevice>(); }

}  // namespace neap
