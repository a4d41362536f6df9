// A trace in the JSON that Perfetto (ui.perfetto.dev) and chrome://tracing read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace neap {

// Text as a JSON string, with its quotes.
std::string json_string(std::string_view text);

// Events of one process. Times are nanoseconds of the steady clock; `args` is the text of a JSON object, or empty.
class Trace {
 public:
  explicit Trace(std::string_view process);

  // A track is a row of spans that lie behind or inside each other.
  void name_track(int track, std::string_view name);
  struct Span {
    int track = 0;
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = 0;
    std::string_view name;
    std::string_view category;
  };
  void span(const Span& span, std::string_view args = {});
  void counter(std::string_view name, std::int64_t at_ns, std::string_view unit, std::int64_t value);
  // One of the things that come and go in the place `id`, which gets a row of its own in its category.
  void stay(const Span& span, std::int64_t id, std::string_view args = {});

  // The events so far, as a file that is there whole or not at all. UserError.
  void write(const std::filesystem::path& path) const;
  std::string text() const;

 private:
  void event(std::string_view kind, const Span& span, std::string_view rest, std::string_view args);
  double us(std::int64_t ns);

  std::int64_t start_ns_ = -1;  // of the first event: times in the file are small numbers
  std::string events_;
};

}  // namespace neap
