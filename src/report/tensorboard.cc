#include "report/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "neap/error.h"
#include "report/crc32c.h"

namespace neap {
namespace {

static_assert(std::endian::native == std::endian::little, "records are little-endian");

template <class Value>
void put_raw(std::string& out, Value value) {
  std::array<char, sizeof value> bytes{};
  std::memcpy(bytes.data(), &value, sizeof value);
  out.append(bytes.data(), bytes.size());
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

// Wire types of protocol buffers.
enum Wire : std::uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_key(std::string& out, std::uint64_t field, Wire wire) { put_varint(out, field << 3 | wire); }

void put_bytes(std::string& out, std::uint64_t field, std::string_view bytes) {
  put_key(out, field, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

// Event: wall_time = 1, step = 2, file_version = 3, summary = 5.
std::string event_head(double wall_seconds, std::int64_t step) {
  std::string out;
  put_key(out, 1, kFixed64);
  put_raw(out, wall_seconds);
  if (step != 0) {
    put_key(out, 2, kVarint);
    put_varint(out, static_cast<std::uint64_t>(step));
  }
  return out;
}

// A checksum stored beside the data that it covers; masked, since checksums of data that hold checksums are weak.
std::uint32_t masked(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U; }

double wall_seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> out{};
  return gethostname(out.data(), out.size() - 1) == 0 ? out.data() : "localhost";
}

}  // namespace

std::string event_bytes(double wall_seconds, std::int64_t step, const std::vector<Scalar>& scalars) {
  std::string summary;
  for (const Scalar& s : scalars) {  // Value: tag = 1, simple_value = 2
    std::string value;
    put_bytes(value, 1, s.tag);
    put_key(value, 2, kFixed32);
    put_raw(value, static_cast<float>(s.value));
    put_bytes(summary, 1, value);
  }
  std::string out = event_head(wall_seconds, step);
  put_bytes(out, 5, summary);
  return out;
}

std::string version_event_bytes(double wall_seconds) {
  std::string out = event_head(wall_seconds, 0);
  put_bytes(out, 3, "brain.Event:2");
  return out;
}

std::string record_bytes(std::string_view event) {
  std::string out;
  put_raw(out, static_cast<std::uint64_t>(event.size()));
  put_raw(out, masked(crc32c(out)));
  out += event;
  put_raw(out, masked(crc32c(event)));
  return out;
}

EventWriter::EventWriter(const std::string& folder) : file_(nullptr, std::fclose) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw UserError(fmt::format("--tensorboard '{}': {}", folder, error.message()));
  const double now = wall_seconds_now();
  path_ = fmt::format("{}/events.out.tfevents.{}.{}.{}", folder, std::llround(now), host_name(), getpid());
  file_.reset(std::fopen(path_.c_str(), "wb"));
  if (!file_) throw UserError(fmt::format("--tensorboard: cannot write '{}': {}", path_, std::strerror(errno)));
  write(record_bytes(version_event_bytes(now)));
}

void EventWriter::add(std::int64_t step, const std::vector<Scalar>& scalars) {
  write(record_bytes(event_bytes(wall_seconds_now(), step, scalars)));
}

void EventWriter::write(const std::string& record) {
  if (std::fwrite(record.data(), 1, record.size(), file_.get()) != record.size() || std::fflush(file_.get()) != 0) {
    throw UserError(fmt::format("--tensorboard: cannot write '{}': {}", path_, std::strerror(errno)));
  }
}

}  // namespace neap
