#include "neap/attrs.h"

#include <fmt/format.h>

#include "neap/error.h"

namespace neap {
namespace {

[[noreturn]] void missing(std::string_view name) { throw UserError(fmt::format("attribute '{}' is missing", name)); }

}  // namespace

template <class T>
const T* Attrs::find(std::string_view name) const {
  const auto at = values_.find(name);
  if (at == values_.end()) return nullptr;
  const T* value = std::get_if<T>(&at->second);
  if (value == nullptr) throw UserError(fmt::format("attribute '{}' has the wrong type", name));
  return value;
}

std::int64_t Attrs::integer(std::string_view name) const {
  const auto* v = find<std::int64_t>(name);
  return v != nullptr ? *v : (missing(name), 0);
}
std::int64_t Attrs::integer(std::string_view name, std::int64_t fallback) const {
  return has(name) ? integer(name) : fallback;
}
double Attrs::real(std::string_view name) const {
  const auto at = values_.find(name);
  if (at != values_.end() && std::holds_alternative<std::int64_t>(at->second)) {
    return static_cast<double>(std::get<std::int64_t>(at->second));
  }
  const auto* v = find<double>(name);
  return v != nullptr ? *v : (missing(name), 0.0);
}
double Attrs::real(std::string_view name, double fallback) const { return has(name) ? real(name) : fallback; }
std::string Attrs::text(std::string_view name, std::string_view fallback) const {
  const auto* v = find<std::string>(name);
  return v != nullptr ? *v : std::string(fallback);
}
Ints Attrs::ints(std::string_view name) const {
  const auto* v = find<Ints>(name);
  return v != nullptr ? *v : (missing(name), Ints());
}
Ints Attrs::ints(std::string_view name, const Ints& fallback) const { return has(name) ? ints(name) : fallback; }
std::vector<double> Attrs::reals(std::string_view name) const {
  const auto at = values_.find(name);
  if (at != values_.end() && std::holds_alternative<Ints>(at->second)) {
    const Ints& whole = std::get<Ints>(at->second);
    return {whole.begin(), whole.end()};
  }
  const auto* v = find<std::vector<double>>(name);
  return v != nullptr ? *v : (missing(name), std::vector<double>());
}
std::vector<double> Attrs::reals(std::string_view name, const std::vector<double>& fallback) const {
  return has(name) ? reals(name) : fallback;
}
Shape Attrs::shape(std::string_view name) const {
  const auto* v = find<Shape>(name);
  return v != nullptr ? *v : (missing(name), Shape());
}

}  // namespace neap
