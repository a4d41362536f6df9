// Event files that TensorBoard reads: records of protocol buffers, appended while training runs.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace neap {

struct Scalar {
  std::string_view tag;
  double value = 0;
};

// A tensorflow.Event with these scalars, in protobuf's wire format.
std::string event_bytes(double wall_seconds, std::int64_t step, const std::vector<Scalar>& scalars);
// The first event of a file.
std::string version_event_bytes(double wall_seconds);
// A record around it: length, masked CRC-32C of the length, the bytes, masked CRC-32C of the bytes.
std::string record_bytes(std::string_view event);

class EventWriter {
 public:
  // Makes the folder where there is none. UserError when nothing can be written there.
  explicit EventWriter(const std::string& folder);
  // Readers follow the file while it grows: each event is written at once.
  void add(std::int64_t step, const std::vector<Scalar>& scalars);

 private:
  void write(const std::string& record);

  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

}  // namespace neap
