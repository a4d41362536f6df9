// A kernel whose loops can be cut in several ways, all with the same bits: how much of them is unrolled into one block.
// The first launches try all factors in turn, in calls that count; then the fastest stays. What is booked and what
// comes out depend on none of that.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "device/kernel.h"

namespace neap {

class FactorSearch {
 public:
  static constexpr std::size_t kMost = 4;    // factors
  static constexpr std::size_t kRounds = 6;  // of each; the first is cold and does not count

  // The first is what runs where the clock sees no difference.
  explicit FactorSearch(std::size_t factors) : factors_(factors) {}

  // Which is next.
  std::size_t next() const { return is_over_ ? chosen_ : launches_ % factors_; }
  bool is_over() const { return is_over_; }
  // What that took.
  void add(double ms);
  void fix(std::size_t factor);
  std::size_t chosen() const { return chosen_; }
  // Of the launches that counted; 0: there was none.
  double median_ms(std::size_t factor) const;

 private:
  std::size_t factors_;
  std::array<std::array<double, kRounds>, kMost> ms_{};  // a launch does not allocate
  std::size_t launches_ = 0, chosen_ = 0;
  bool is_over_ = false;
};

class FactoredKernel : public Kernel {
 public:
  virtual std::vector<std::string> factor_names() const = 0;
  virtual void launch_with(std::size_t factor, const Buffers& buffers, Stream& stream) = 0;
  void launch(const Buffers& buffers, Stream& stream) final;

  const FactorSearch& search() const { return search_; }
  void fix_factor(std::size_t factor) { search_.fix(factor); }

 protected:
  // Before the first launch.
  void set_factors(std::size_t count) { search_ = FactorSearch(count); }

 private:
  FactorSearch search_{1};
};

}  // namespace neap
