#include "train/duel.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "train/median.h"

namespace neap {
namespace {

constexpr double kBurst = 1.3;          // times its median: a node does not take that by itself
constexpr double kWorthwhile = 0.01;    // of a step
constexpr double kSame = 0.01;          // of a step: closer than that is a tie
constexpr double kPriorPairs = 4;       // that the first guess of how the rest explains the part weighs
constexpr double kShift = 3;            // errors: the rest differs after all
constexpr double kLeastError = 0.0005;  // of a step: no clock is better
constexpr std::size_t kManyPairs = 8;   // with fewer the median deviation says too little

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// In the middle of all; of an even number the mean of two.
double center(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

// Of the median of so many values.
double error_of(const std::vector<double>& values) {
  constexpr double kOfNormal = 1.4826;  // deviation over median deviation
  constexpr double kOfMedian = 1.2533;  // its error over that of a mean
  const std::size_t n = values.size();
  const double middle = center(values);
  std::vector<double> off;
  double squares = 0;
  for (const double value : values) {
    off.push_back(std::abs(value - middle));
    squares += off.back() * off.back();
  }
  if (n < 2) return std::abs(middle);
  const double deviation = n < kManyPairs ? std::sqrt(squares / static_cast<double>(n - 1)) : kOfNormal * center(off);
  return kOfMedian * deviation / std::sqrt(static_cast<double>(n));
}

// Errors beyond which a difference is one: more with few pairs, and for having looked often.
double sure_at(std::size_t pairs) {
  const auto more = static_cast<double>(pairs) - 2;
  return 3 + 12 / std::pow(more, 1.5);
}

// How much of a change of the rest goes along with one of the part: at first as much as their sizes say.
double slope_of(const std::vector<double>& part, const std::vector<double>& rest, double prior) {
  const double part_mean = mean(part);
  const double rest_mean = mean(rest);
  double xy = 0;
  double xx = 0;
  for (std::size_t i = 0; i < part.size(); ++i) {
    xy += (part[i] - part_mean) * (rest[i] - rest_mean);
    xx += (rest[i] - rest_mean) * (rest[i] - rest_mean);
  }
  if (xx <= 0) return 0;
  const auto n = static_cast<double>(part.size());
  return std::clamp((n * xy / xx + kPriorPairs * prior) / (n + kPriorPairs), 0.0, prior);
}

std::vector<double> limits_of(const std::vector<std::vector<double>>& rounds) {
  std::vector<double> out = medians(rounds);
  for (double& each : out) each *= kBurst;
  return out;
}

}  // namespace

void Duel::add(bool is_fresh, std::vector<double> nodes) {
  Rounds& side = is_fresh ? fresh_ : old_;
  side.push_back(std::move(nodes));
  (is_fresh ? fresh_limit_ : old_limit_) = limits_of(side);
}

Duel::Series Duel::series(std::size_t first, std::size_t last) const {
  Series out;
  for (std::size_t round = 0; round < pairs(); ++round) {
    double part = 0;
    double rest = 0;
    double old_part = 0;
    double old_rest = 0;
    for (std::size_t i = 0; i < differs_.size(); ++i) {
      const bool is_inside = i >= first && i < last;
      if (differs_[i] && !is_inside) continue;
      const double old_ms = std::min(old_[round][i], old_limit_[i]);
      const double fresh_ms = std::min(fresh_[round][i], fresh_limit_[i]);
      (differs_[i] ? part : rest) += fresh_ms - old_ms;
      (differs_[i] ? old_part : old_rest) += old_ms;
    }
    out.part.push_back(part);
    out.rest.push_back(rest);
    out.part_ms += old_part;
    out.rest_ms += old_rest;
  }
  out.part_ms /= static_cast<double>(pairs());
  out.rest_ms /= static_cast<double>(pairs());
  return out;
}

Difference Duel::whole() const {
  Difference out = of(0, differs_.size());
  const Series all = series(0, differs_.size());
  out.old_ms = all.part_ms + all.rest_ms;
  const double floor = kLeastError * out.old_ms;
  const double rest_error = std::max(error_of(all.rest), floor);
  if (std::abs(center(all.rest)) > kShift * rest_error && pairs() >= kManyPairs) {  // caches, or where things lie
    std::vector<double> sums(all.part);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += all.rest[i];
    out.ms = center(sums);
    out.error_ms = error_of(sums);
  }
  out.error_ms = std::max(out.error_ms, floor);
  return out;
}

Difference Duel::of(std::size_t first, std::size_t last) const {
  const Series all = series(first, last);
  Difference out{.old_ms = all.part_ms};
  const bool has_rest = all.rest_ms > 0 && all.part_ms > 0;
  const double slope = has_rest ? slope_of(all.part, all.rest, all.part_ms / all.rest_ms) : 0;
  std::vector<double> left(all.part);
  for (std::size_t i = 0; i < left.size(); ++i) left[i] -= slope * all.rest[i];
  out.ms = std::max(center(left), -out.old_ms);
  out.error_ms = error_of(left);
  return out;
}

std::vector<double> Duel::old_nodes() const { return medians(old_); }

std::vector<double> Duel::fresh_nodes() const { return medians(fresh_); }

Verdict verdict_of(const Difference& d, std::size_t pairs, double step_ms) {
  constexpr std::size_t kLeastPairs = 3;
  if (pairs < kLeastPairs) return Verdict::kOpen;
  const double sure = sure_at(pairs) * d.error_ms;
  if (d.ms > sure) return Verdict::kSlower;
  if (-d.ms > sure && -d.ms > kWorthwhile * step_ms) return Verdict::kFaster;
  const bool is_close = pairs > 2 * kLeastPairs && std::abs(d.ms) + 2 * d.error_ms < kSame * step_ms;
  return is_close ? Verdict::kSame : Verdict::kOpen;
}

Verdict last_verdict_of(const Difference& d, double step_ms) {
  if (-d.ms > std::max(kWorthwhile * step_ms, d.error_ms)) return Verdict::kFaster;
  return d.ms > std::max(kWorthwhile * step_ms, d.error_ms) ? Verdict::kSlower : Verdict::kSame;
}

}  // namespace neap
