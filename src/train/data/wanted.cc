#include "train/data/wanted.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/file.h"
#include "neap/error.h"

namespace neap {
namespace {

template <std::size_t N>
bool is_one_of(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::array<std::string_view, 5> kImageNames = {"image", "images", "x", "input", "inputs"};
constexpr std::array<std::string_view, 4> kTargetNames = {"target", "targets", "label", "labels"};

// The only field other than the target for which `holds`.
template <class Predicate>
std::optional<std::size_t> only(std::span<const Field> wanted, const Predicate& holds) {
  std::optional<std::size_t> out;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (is_target_name(wanted[i].name) || !holds(wanted[i])) continue;
    if (out) return std::nullopt;
    out = i;
  }
  return out;
}

}  // namespace

bool is_integer(DType type) { return !is_float(type) && type != DType::kBits; }

bool is_target_name(std::string_view name) { return is_one_of(name, kTargetNames); }

Roles roles_of(std::span<const Field> wanted) {
  const auto is_tokens = [](const Field& f) { return is_integer(f.dtype) && f.sample_shape.rank() == 1; };
  Roles out;
  out.image = only(wanted, [](const Field& f) { return f.dtype == DType::kF32 && f.sample_shape.rank() == 3; });
  out.tokens = only(wanted, is_tokens);
  if (!out.tokens) out.tokens = only(wanted, [&](const Field& f) { return is_tokens(f) && f.bound > 0; });
  out.input = only(wanted, [](const Field&) { return true; });
  for (std::size_t i = 0; i < wanted.size() && !out.target; ++i) {
    if (is_target_name(wanted[i].name)) out.target = i;
  }
  return out;
}

std::optional<std::size_t> wanted_for(std::string_view name, std::span<const Field> wanted, const Roles& roles) {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].name == name) return i;
  }
  if (is_target_name(name) || name == "y") return roles.target;
  if (is_one_of(name, kImageNames)) return roles.image ? roles.image : roles.input;
  return std::nullopt;
}

std::string list_of(std::span<const Field> fields) {
  std::string out;
  for (const Field& f : fields) {
    out += fmt::format("{}{} {}{}", out.empty() ? "" : ", ", printable(f.name), name(f.dtype), f.sample_shape.text());
  }
  return out;
}

void nothing_for(const Field& field, const std::string& data, const std::string& has) {
  throw UserError(fmt::format("data '{}' have nothing for the model's input '{}' ({}{} a sample), only {}", data,
                              printable(field.name), name(field.dtype), field.sample_shape.text(),
                              has.empty() ? "nothing" : printable(has)));
}

}  // namespace neap
