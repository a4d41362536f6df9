#include "parameters.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <set>

#include "neap/error.h"

namespace neap {
namespace {

// A thousand layers are planned within seconds (recurrent ones, in chunks: half a minute). No product of the others
// comes near 2^63 bytes.
constexpr double kMostLayers = 1000;
constexpr double kMostUnits = 1 << 20;
constexpr double kMostOthers = 1 << 24;

double most_of(std::string_view name) {
  if (name == "layers") return kMostLayers;
  return name == "width" || name == "hidden" ? kMostUnits : kMostOthers;
}

bool is_allowed(std::string_view name, double value) {
  if (name == "dropout") return value >= 0 && value < 1;
  return value >= 1 && value <= most_of(name) && value == std::floor(value);
}

std::string what_is_allowed(std::string_view name) {
  if (name == "dropout") return "a share from 0 on and below 1";
  return fmt::format("a whole number from 1 to {:.0f}", most_of(name));
}

double number_of(const ModelInfo& info, std::string_view name, std::string_view text) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = status == std::errc() && end == text.data() + text.size() && std::isfinite(value);
  if (is_number && is_allowed(name, value)) return value;
  throw UserError(fmt::format("model '{}': '{}' is not a value for '{}'; it takes {}", info.name, text, name,
                              what_is_allowed(name)));
}

[[noreturn]] void unknown_parameter(const ModelInfo& info, std::string_view name) {
  std::string known;
  for (const ModelParameter& p : info.parameters) known += fmt::format("{}{}", known.empty() ? "" : ", ", p.name);
  throw UserError(
      fmt::format("model '{}' has no parameter '{}'; it has {}", info.name, name, known.empty() ? "none" : known));
}

void check_heads(const ModelInfo& info, const std::map<std::string, double>& parameters) {
  const auto heads = parameters.find("heads");
  const auto width = parameters.find("width");
  if (heads == parameters.end() || width == parameters.end() || std::fmod(width->second, heads->second) == 0) return;
  throw UserError(fmt::format("model '{}': 'heads' must divide 'width', and {:.0f} does not divide {:.0f}; give both",
                              info.name, heads->second, width->second));
}

}  // namespace

std::map<std::string, double> read_parameters(const ModelInfo& info, std::string_view text) {
  std::map<std::string, double> out;
  for (const ModelParameter& p : info.parameters) out[std::string(p.name)] = p.value;
  std::set<std::string> given;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    const std::size_t equals = part.find('=');
    const std::string name(part.substr(0, equals));
    const auto at = out.find(name);
    if (at == out.end()) unknown_parameter(info, name);
    if (!given.insert(name).second) {
      throw UserError(fmt::format("model '{}': '{}' is given twice; give it once", info.name, name));
    }
    at->second = number_of(info, name, equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1));
  }
  check_heads(info, out);
  return out;
}

}  // namespace neap
