// Named attributes of a node: numbers, strings and lists of them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "neap/shape.h"

namespace neap {

using Ints = std::vector<std::int64_t>;
using AttrValue = std::variant<std::int64_t, double, std::string, Ints, std::vector<double>, Shape>;

class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<const std::string, AttrValue>> values) : values_(values) {}

  bool has(std::string_view name) const { return values_.find(name) != values_.end(); }
  void set(const std::string& name, AttrValue value) { values_[name] = std::move(value); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  std::size_t size() const { return values_.size(); }

  // UserError when the attribute is missing (no fallback given) or of another type.
  std::int64_t integer(std::string_view name) const;
  std::int64_t integer(std::string_view name, std::int64_t fallback) const;
  double real(std::string_view name) const;
  double real(std::string_view name, double fallback) const;
  std::string text(std::string_view name, std::string_view fallback) const;
  Ints ints(std::string_view name) const;
  Ints ints(std::string_view name, const Ints& fallback) const;
  // A list of reals; one of integers is taken as such.
  std::vector<double> reals(std::string_view name) const;
  std::vector<double> reals(std::string_view name, const std::vector<double>& fallback) const;
  Shape shape(std::string_view name) const;

  friend bool operator==(const Attrs&, const Attrs&) = default;

 private:
  template <class T>
  const T* find(std::string_view name) const;
  std::map<std::string, AttrValue, std::less<>> values_;
};

}  // namespace neap
