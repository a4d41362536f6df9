#include "neap/shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <mutex>

#include "neap/error.h"

namespace neap {
namespace {

// Names of symbols; index 0 stands for "no symbol".
class Symbols {
 public:
  std::uint16_t intern(std::string_view name) {
    const std::scoped_lock lock(mutex_);
    const auto at = std::find(names_.begin() + 1, names_.end(), name);
    if (at != names_.end()) return static_cast<std::uint16_t>(at - names_.begin());
    require(names_.size() < 60000, "too many symbolic dimensions");
    names_.emplace_back(name);
    return static_cast<std::uint16_t>(names_.size() - 1);
  }
  std::string name(std::uint16_t id) {
    const std::scoped_lock lock(mutex_);
    return names_[id];
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> names_ = {""};
};

Symbols& symbols() {
  static Symbols table;
  return table;
}

constexpr std::string_view kUnknown = "?";

bool is_name(std::string_view text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '?';
         });
}

}  // namespace

Dim Dim::symbol(std::string_view name) {
  Dim d(1);
  d.symbols_[0] = symbols().intern(name);
  return d;
}

Dim Dim::unknown() { return symbol(kUnknown); }

std::int64_t Dim::number() const {
  if (!is_number()) throw InternalError(fmt::format("dimension {} is not bound", text()));
  return factor_;
}

std::string Dim::text() const {
  std::string out;
  if (is_number() || factor_ != 1) out = std::to_string(factor_);
  for (const std::uint16_t s : symbols_) {
    if (s == 0) break;
    if (!out.empty()) out += '*';
    out += symbols().name(s);
  }
  return out;
}

Dim Dim::parse(std::string_view text) {
  Dim product(1);
  while (true) {
    const std::size_t star = text.find('*');
    const std::string_view part = text.substr(0, star);
    std::int64_t value = 0;
    const auto [end, status] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (status == std::errc() && end == part.data() + part.size()) {
      product = product * Dim(value);
    } else if (is_name(part)) {
      product = product * symbol(part);
    } else {
      throw UserError(fmt::format("'{}' is not a dimension", text));
    }
    if (star == std::string_view::npos) return product;
    text.remove_prefix(star + 1);
  }
}

Dim operator*(const Dim& a, const Dim& b) {
  Dim out;
  if (__builtin_mul_overflow(a.factor_, b.factor_, &out.factor_)) {
    throw UserError(fmt::format("dimensions {} and {} overflow", a.text(), b.text()));
  }
  std::array<std::uint16_t, static_cast<std::size_t>(2 * Dim::kMaxSymbols)> all{};
  std::copy(a.symbols_.begin(), a.symbols_.end(), all.begin());
  std::copy(b.symbols_.begin(), b.symbols_.end(), all.begin() + Dim::kMaxSymbols);
  std::sort(all.begin(), all.end(), std::greater<>());
  if (all[Dim::kMaxSymbols] != 0) return Dim::unknown();
  std::copy_n(all.begin(), Dim::kMaxSymbols, out.symbols_.begin());
  return out;
}

Dim operator/(const Dim& a, const Dim& b) {
  if (b.factor_ == 0 || a.factor_ % b.factor_ != 0) return Dim::unknown();
  std::vector<std::uint16_t> left(a.symbols_.begin(), a.symbols_.end());
  for (const std::uint16_t s : b.symbols_) {
    if (s == 0) break;
    const auto at = std::find(left.begin(), left.end(), s);
    if (at == left.end() || symbols().name(s) == kUnknown) return Dim::unknown();
    left.erase(at);
  }
  Dim out(a.factor_ / b.factor_);
  std::copy(left.begin(), left.end(), out.symbols_.begin());
  return out;
}

Dim Dim::bind(const std::map<std::string, std::int64_t>& values) const {
  Dim out(factor_);
  for (const std::uint16_t s : symbols_) {
    if (s == 0) break;
    const std::string name = symbols().name(s);
    const auto at = values.find(name);
    out = out * (at == values.end() ? symbol(name) : Dim(at->second));
  }
  return out;
}

Shape Shape::of(const std::vector<std::int64_t>& sizes) { return Shape(std::vector<Dim>(sizes.begin(), sizes.end())); }

std::size_t Shape::index(int axis) const {
  const int at = axis < 0 ? axis + rank() : axis;
  if (at < 0 || at >= rank()) throw InternalError(fmt::format("axis {} of shape {}", axis, text()));
  return static_cast<std::size_t>(at);
}

bool Shape::is_static() const {
  return std::all_of(dims_.begin(), dims_.end(), [](const Dim& d) { return d.is_number(); });
}

Dim Shape::elements() const {
  Dim product(1);
  for (const Dim& d : dims_) product = product * d;
  return product;
}

std::vector<std::int64_t> Shape::sizes() const {
  std::vector<std::int64_t> out;
  for (const Dim& d : dims_) out.push_back(d.number());
  return out;
}

std::string Shape::text() const {
  std::string out = "[";
  for (std::size_t i = 0; i < dims_.size(); ++i) {
    if (i > 0) out += ',';
    out += dims_[i].text();
  }
  return out + "]";
}

Shape Shape::parse(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') {
    throw UserError(fmt::format("'{}' is not a shape", text));
  }
  text = text.substr(1, text.size() - 2);
  Shape out;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    out.push_back(Dim::parse(text.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (text.empty()) throw UserError("a comma ends the shape");
  }
  return out;
}

Shape Shape::bind(const std::map<std::string, std::int64_t>& values) const {
  Shape out;
  for (const Dim& d : dims_) out.push_back(d.bind(values));
  return out;
}

Shape broadcast(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::vector<Dim> out(static_cast<std::size_t>(rank), Dim(1));
  for (int i = 1; i <= rank; ++i) {
    const Dim x = i <= a.rank() ? a[-i] : Dim(1);
    const Dim y = i <= b.rank() ? b[-i] : Dim(1);
    const bool numbers_differ = x.is_number() && y.is_number() && x != y;
    if (numbers_differ && x != Dim(1) && y != Dim(1)) {
      throw UserError(fmt::format("shapes {} and {} do not broadcast", a.text(), b.text()));
    }
    out[static_cast<std::size_t>(rank - i)] = x == Dim(1) ? y : x;
  }
  return Shape(std::move(out));
}

}  // namespace neap
