#include "observe/trace.h"

#include <fmt/format.h>

#include <iterator>

#include "core/file.h"

namespace neap {

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

Trace::Trace(std::string_view process) {
  events_ = fmt::format(R"({{"ph":"M","pid":1,"name":"process_name","args":{{"name":{}}}}})", json_string(process));
}

void Trace::name_track(int track, std::string_view name) {
  events_ += fmt::format(",\n{{\"ph\":\"M\",\"pid\":1,\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":{}}}}}",
                         track, json_string(name));
  events_ += fmt::format(
      ",\n{{\"ph\":\"M\",\"pid\":1,\"tid\":{0},\"name\":\"thread_sort_index\",\"args\":{{\"sort_index\":{0}}}}}",
      track);
}

double Trace::us(std::int64_t ns) {
  if (start_ns_ < 0) start_ns_ = ns;
  return static_cast<double>(ns - start_ns_) * 1e-3;
}

void Trace::event(std::string_view kind, const Span& s, std::string_view rest, std::string_view args) {
  fmt::format_to(std::back_inserter(events_),
                 ",\n{{\"ph\":\"{}\",\"pid\":1,\"tid\":{},\"ts\":{:.3f},\"name\":{},\"cat\":{}{}{}{}}}", kind, s.track,
                 us(s.begin_ns), json_string(s.name), json_string(s.category), rest,
                 args.empty() ? "" : ",\"args\":", args);
}

void Trace::span(const Span& s, std::string_view args) {
  const double duration = static_cast<double>(s.end_ns - s.begin_ns) * 1e-3;
  event("X", s, fmt::format(",\"dur\":{:.3f}", duration), args);
}

void Trace::counter(std::string_view name, std::int64_t at_ns, std::string_view unit, std::int64_t value) {
  event("C", {.begin_ns = at_ns, .name = name, .category = "memory"}, "",
        fmt::format("{{{}:{}}}", json_string(unit), value));
}

void Trace::stay(const Span& s, std::int64_t id, std::string_view args) {
  const std::string place = fmt::format(",\"id\":\"0x{:x}\"", id);
  event("b", s, place, args);
  Span end = s;
  end.begin_ns = s.end_ns;
  event("e", end, place, {});
}

std::string Trace::text() const { return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + events_ + "\n]}\n"; }

void Trace::write(const std::filesystem::path& path) const { write_file(path, text()); }

}  // namespace neap
