#include "device/factored_kernel.h"

#include <algorithm>
#include <span>

#include "core/clock.h"

namespace neap {
namespace {

constexpr double kWorthwhile = 0.97;  // of the first factor's time: less is noise

}  // namespace

void FactorSearch::add(double ms) {
  if (is_over_) return;
  ms_[launches_ % factors_][launches_ / factors_] = ms;
  if (++launches_ < kRounds * factors_) return;
  std::size_t best = 0;
  for (std::size_t i = 1; i < factors_; ++i) best = median_ms(i) < median_ms(best) ? i : best;
  fix(median_ms(best) < kWorthwhile * median_ms(0) ? best : 0);
}

void FactorSearch::fix(std::size_t factor) {
  chosen_ = factor;
  is_over_ = true;
}

double FactorSearch::median_ms(std::size_t factor) const {
  const std::size_t rounds = launches_ / factors_ + (launches_ % factors_ > factor ? 1 : 0);
  if (rounds < 2) return 0;
  const std::span counted(ms_[factor].data() + 1, rounds - 1);
  for (const double each : counted) {
    const auto below = std::count_if(counted.begin(), counted.end(), [&](double x) { return x < each; });
    const auto above = std::count_if(counted.begin(), counted.end(), [&](double x) { return x > each; });
    if (2 * below <= static_cast<std::ptrdiff_t>(counted.size()) &&
        2 * above <= static_cast<std::ptrdiff_t>(counted.size()))
      return each;
  }
  return counted[0];
}

void FactoredKernel::launch(const Buffers& buffers, Stream& stream) {
  if (search_.is_over()) return launch_with(search_.chosen(), buffers, stream);
  const auto start = Clock::now();
  launch_with(search_.next(), buffers, stream);
  search_.add(ms_since(start));
}

}  // namespace neap
