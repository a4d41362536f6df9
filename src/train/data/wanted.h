// Which input of a model a piece of data is for: by name, or by what both are.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/data/dataset.h"

namespace neap {

bool is_integer(DType type);  // bool is one

// Indices of fields that can be told without their names.
struct Roles {
  std::optional<std::size_t> image;   // the only f32 of rank 3 (without the batch) that is no target
  std::optional<std::size_t> tokens;  // the only integer of rank 1 that is no target; else the only one with a bound
  std::optional<std::size_t> target;  // named target, targets, label or labels
  std::optional<std::size_t> input;   // the only one that is no target
};
Roles roles_of(std::span<const Field> wanted);

bool is_target_name(std::string_view name);

// The wanted field for data of this name: the one of the same name; else for "image" or "x" and "label" or "y" (and
// names like these) the one with that role. None: the data are not needed.
std::optional<std::size_t> wanted_for(std::string_view name, std::span<const Field> wanted, const Roles& roles);

// "ids i64[128], target i64[]"
std::string list_of(std::span<const Field> fields);

// UserError: `data` have nothing for that field.
[[noreturn]] void nothing_for(const Field& field, const std::string& data, const std::string& has);

}  // namespace neap
