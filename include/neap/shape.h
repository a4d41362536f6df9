// Shapes whose dimensions are numbers or products of symbols ("batch", "4*time") that are bound when training starts.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace neap {

// factor * symbol * symbol...; no symbols means a plain number.
class Dim {
 public:
  static constexpr int kMaxSymbols = 4;

  constexpr Dim() = default;
  constexpr Dim(std::int64_t value) : factor_(value) {}  // NOLINT(google-explicit-constructor): numbers are dims
  static Dim symbol(std::string_view name);
  // A dimension about which nothing is known until it is bound.
  static Dim unknown();

  bool is_number() const { return symbols_[0] == 0; }
  std::int64_t number() const;  // InternalError when symbolic
  std::int64_t factor() const { return factor_; }
  std::string text() const;
  static Dim parse(std::string_view text);  // UserError when malformed

  friend Dim operator*(const Dim& a, const Dim& b);
  // Exact quotient; unknown() where it cannot be told.
  friend Dim operator/(const Dim& a, const Dim& b);
  friend bool operator==(const Dim&, const Dim&) = default;

  Dim bind(const std::map<std::string, std::int64_t>& values) const;

 private:
  std::int64_t factor_ = 0;
  std::array<std::uint16_t, kMaxSymbols> symbols_{};  // interned, sorted descending, 0 = none
};

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<Dim> dims) : dims_(dims) {}
  explicit Shape(std::vector<Dim> dims) : dims_(std::move(dims)) {}
  static Shape of(const std::vector<std::int64_t>& sizes);

  int rank() const { return static_cast<int>(dims_.size()); }
  // Negative axes count from the end.
  const Dim& operator[](int axis) const { return dims_[index(axis)]; }
  Dim& operator[](int axis) { return dims_[index(axis)]; }
  auto begin() const { return dims_.begin(); }
  auto end() const { return dims_.end(); }
  const std::vector<Dim>& dims() const { return dims_; }
  void push_back(Dim d) { dims_.push_back(d); }

  bool is_static() const;
  Dim elements() const;
  std::int64_t count() const { return elements().number(); }
  std::int64_t size(int axis) const { return (*this)[axis].number(); }
  std::vector<std::int64_t> sizes() const;
  std::string text() const;  // [batch,4*time,384]
  static Shape parse(std::string_view text);
  Shape bind(const std::map<std::string, std::int64_t>& values) const;
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::size_t index(int axis) const;
  std::vector<Dim> dims_;
};

// The shape that numpy's broadcasting rule gives; UserError when there is none.
Shape broadcast(const Shape& a, const Shape& b);

}  // namespace neap
