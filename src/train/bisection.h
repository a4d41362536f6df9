// The largest size of which the bytes fit, where each size that is asked for costs a plan.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace neap {

// The bytes that a size needs, or that it cannot be had at all.
struct Need {
  std::int64_t bytes = 0;
  std::string refusal;  // empty: there is a plan
};

// Bytes grow nearly in proportion, so the line through two known sizes points at the answer; where it misleads, halves.
class Bisection {
 public:
  Bisection(std::int64_t budget, std::int64_t most, std::function<Need(std::int64_t)> need)
      : budget_(budget), most_(most), need_(std::move(need)), high_(most + 1) {}

  // The largest size above `low` that fits; `low`: none does. Begins with `start`: who only wants to know whether any
  // does begins with the next.
  std::int64_t run(std::int64_t start, std::int64_t low = 0);

  const Need& of(std::int64_t size);
  bool fits(std::int64_t size);

 private:
  std::int64_t next();
  std::optional<std::int64_t> on_the_line() const;

  std::int64_t budget_;
  std::int64_t most_;
  std::function<Need(std::int64_t)> need_;
  std::map<std::int64_t, Need> known_;
  std::int64_t low_ = 0;  // fits
  std::int64_t high_;     // does not
  int rounds_ = 0;
};

}  // namespace neap
