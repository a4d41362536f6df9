#include "policy/lifetime/recording.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "graph/graph.h"
#include "neap/error.h"

namespace neap {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;
constexpr const char* kMark = "neap_lifetimes";

struct Column {
  const char* name;
  std::int64_t most;
};
constexpr Column kColumns[] = {{"site", UINT32_MAX}, {"layer", UINT32_MAX}, {"op", UINT32_MAX},      {"phase", 2},
                               {"bytes", INT64_MAX}, {"tick", UINT32_MAX},  {"lifespan", UINT32_MAX}};
constexpr std::size_t kColumnCount = std::size(kColumns);

// A number in [0, most]; UserError says which one is not.
std::int64_t number(const Json& value, const char* name, std::int64_t most) {
  const bool fits = value.is_number_unsigned() && value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most);
  if (!fits) throw UserError(fmt::format("{} is not a whole number from 0 to {}", name, most));
  return value.get<std::int64_t>();
}

std::int64_t member(const Json& object, const char* name, std::int64_t most) {
  const auto at = object.find(name);
  if (at == object.end()) throw UserError(fmt::format("there is no \"{}\"", name));
  return number(*at, name, most);
}

void add_event(RecordedStep& step, const Json& row, std::int64_t length, std::int64_t ticks) {
  if (!row.is_array() || row.size() != kColumnCount) {
    throw UserError(fmt::format("event {} does not have {} numbers", step.events.size() + 1, kColumnCount));
  }
  std::int64_t values[kColumnCount];
  for (std::size_t i = 0; i < kColumnCount; ++i) values[i] = number(row[i], kColumns[i].name, kColumns[i].most);
  const std::int64_t tick = values[5];
  const std::int64_t lifespan = values[6];
  const bool is_inside = tick < ticks && lifespan > 0 && tick + lifespan <= ticks;
  const bool is_in_order = step.events.empty() || tick >= static_cast<std::int64_t>(step.events.back().tick);
  if (!is_inside) {
    throw UserError(fmt::format("event {} lives from tick {} for {}, in a step of {}", step.events.size() + 1, tick,
                                lifespan, ticks));
  }
  if (!is_in_order) throw UserError(fmt::format("event {} is earlier than the one before", step.events.size() + 1));
  step.events.push_back({.site = static_cast<std::uint32_t>(values[0]),
                         .layer = static_cast<std::uint32_t>(values[1]),
                         .op = static_cast<std::uint32_t>(values[2]),
                         .phase = static_cast<std::uint8_t>(values[3]),
                         .bytes = values[4],
                         .tick = static_cast<Tick>(tick),
                         .ticks = static_cast<Tick>(ticks),
                         .length = length});
  step.lifespans.push_back(static_cast<Tick>(lifespan));
}

RecordedStep step_of(const Json& line) {
  RecordedStep step;
  const std::int64_t length = member(line, "length", INT64_MAX);
  const std::int64_t ticks = member(line, "ticks", UINT32_MAX);
  const auto events = line.find("events");
  if (events == line.end() || !events->is_array()) throw UserError("there is no list \"events\"");
  for (const Json& row : *events) add_event(step, row, length, ticks);
  if (step.events.empty()) throw UserError("the step has no events");
  return step;
}

std::string model_of(const Json& line) {
  const auto version = line.find(kMark);
  if (version == line.end()) throw UserError("this is no recording of lifetimes (neap profile --record writes one)");
  if (*version != kVersion) throw UserError(fmt::format("version {} is not known, only {}", version->dump(), kVersion));
  const auto model = line.find("model");
  if (model == line.end() || !model->is_string()) throw UserError("there is no \"model\"");
  return model->get<std::string>();
}

}  // namespace

RecordingWriter::RecordingWriter(const std::filesystem::path& path, const std::string& model) : file_(path) {
  file_.write(Json{{kMark, kVersion}, {"model", model}}.dump() + "\n");
}

void RecordingWriter::add(std::span<const AllocationEvent> step, std::span<const Tick> lifespans) {
  require(!step.empty() && step.size() == lifespans.size(), "a step with its lifespans");
  std::string line = fmt::format(R"({{"length":{},"ticks":{},"events":[)", step[0].length, step[0].ticks);
  for (std::size_t i = 0; i < step.size(); ++i) {
    const AllocationEvent& e = step[i];
    line += fmt::format("{}[{},{},{},{},{},{},{}]", i > 0 ? "," : "", e.site, e.layer, e.op, e.phase, e.bytes, e.tick,
                        lifespans[i]);
  }
  file_.write(line + "]}\n");
}

void write_recording(const std::filesystem::path& path, const Recording& recording) {
  RecordingWriter writer(path, recording.model);
  for (const RecordedStep& step : recording.steps) writer.add(step.events, step.lifespans);
  writer.commit();
}

Recording read_recording(const std::filesystem::path& path) {
  const MappedFile file(path);
  std::string_view rest(reinterpret_cast<const char*>(file.bytes().data()), file.size());
  Recording out;
  bool has_head = false;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view text = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    try {
      const Json line = Json::parse(text, nullptr, false);
      if (!line.is_object()) throw UserError(fmt::format("'{}' is no JSON object", printable(text)));
      if (has_head) {
        out.steps.push_back(step_of(line));
      } else {
        out.model = model_of(line);
        has_head = true;
      }
    } catch (const UserError& error) {
      throw UserError(fmt::format("{}:{}: {}", path.string(), number, error.what()));
    }
  }
  if (!has_head) throw UserError(fmt::format("{}: the file is empty", path.string()));
  if (out.steps.empty()) throw UserError(fmt::format("{}: there are no steps in it", path.string()));
  return out;
}

}  // namespace neap
