#include "precision/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "neap/error.h"
#include "precision/codec.h"
#include "precision/variance.h"

namespace neap::precision {
namespace {

// A level is left for a coarser one only when the estimate there is below this share of the target, so that noise does
// not move it to and fro.
constexpr double kRoom = 0.8;

bool allows(const PrecisionConfig& config, Level level) {
  return std::find(config.precision_levels.begin(), config.precision_levels.end(), level) !=
         config.precision_levels.end();
}

}  // namespace

void check(const PrecisionConfig& config) {
  if (config.precision_levels.empty()) {
    throw UserError("precision_levels is empty; name at least one level, as in fp32,int8");
  }
  if (!(config.target_accuracy > 0) || std::isinf(config.target_accuracy)) {
    throw UserError(fmt::format("target_accuracy must be a number above 0, not {}", config.target_accuracy));
  }
  if (config.profiling_window < 1) {
    throw UserError(fmt::format("profiling_window must be at least 1, not {}", config.profiling_window));
  }
  if (config.profiling_granularity.layers < 1 || config.profiling_granularity.batches < 1) {
    throw UserError(fmt::format("profiling_granularity must be at least 1 layer and 1 batch, not {} and {}",
                                config.profiling_granularity.layers, config.profiling_granularity.batches));
  }
}

bool should_profile(const PrecisionConfig& config, std::int64_t layer, std::int64_t step) {
  return layer % config.profiling_granularity.layers == 0 && step % config.profiling_granularity.batches == 0;
}

Level at_least(const PrecisionConfig& config, Level wanted) {
  for (auto i = static_cast<int>(wanted); i > 0; --i) {
    if (allows(config, static_cast<Level>(i))) return static_cast<Level>(i);
  }
  return Level::kFp32;
}

Level level_by_table(const PrecisionConfig& config, OpClass op_class) {
  return at_least(config, config.table[static_cast<std::size_t>(op_class)]);
}

Estimates estimates_of(const Statistics& statistics, double sensitivity) {
  Estimates estimates{};
  for (const Level level : kAllLevels) {
    const double relative = relative_variance(level, statistics);
    estimates[index_of(level)] = std::isinf(relative) ? relative : relative * sensitivity;
  }
  return estimates;
}

Level level_by_threshold(const PrecisionConfig& config, const Estimates& estimates) {
  for (int i = kLevels - 1; i > 0; --i) {
    const auto level = static_cast<Level>(i);
    if (allows(config, level) && estimates[index_of(level)] <= config.target_accuracy) return level;
  }
  return Level::kFp32;
}

LevelKeeper::LevelKeeper(const PrecisionConfig& config, OpClass op_class)
    : config_(&config),
      start_(config.mode == ChoiceMode::kTable ? level_by_table(config, op_class)
                                               : at_least(config, config.default_precision)),
      level_(start_) {
  check(config);
  window_.resize(static_cast<std::size_t>(config.profiling_window));
}

void LevelKeeper::set_sensitivity(double sensitivity) {
  require(sensitivity >= 0, "a sensitivity is not negative");
  sensitivity_ = sensitivity;
}

void LevelKeeper::keep_exact() {
  level_ = Level::kFp32;
  seen_ = 0;
}

void LevelKeeper::report(unsigned encode_flags) {
  if (must_stay_exact(encode_flags)) keep_exact();
}

void write(WordWriter& out, const Statistics& s) {
  for (const std::int64_t v : {s.elements, s.nan, s.infinite, s.outliers}) out.put(v);
  for (const float v : {s.min, s.max, s.widest_range, s.narrowest_range}) out.put(static_cast<double>(v));
  for (const double v : {s.mean, s.deviation, s.mean_square, s.entropy, s.range_square}) out.put(v);
  for (const double v : s.between_steps) out.put(v);
}

Statistics read_statistics(WordReader& in) {
  Statistics s;
  for (std::int64_t* v : {&s.elements, &s.nan, &s.infinite, &s.outliers}) *v = in.integer();
  for (float* v : {&s.min, &s.max, &s.widest_range, &s.narrowest_range}) *v = static_cast<float>(in.real());
  for (double* v : {&s.mean, &s.deviation, &s.mean_square, &s.entropy, &s.range_square}) *v = in.real();
  for (double& v : s.between_steps) v = in.real();
  return s;
}

void LevelKeeper::write(WordWriter& out) const {
  out.put(static_cast<int>(level_));
  out.put(sensitivity_);
  out.put(seen_);
  for (const Statistics& s : window_) precision::write(out, s);
}

void LevelKeeper::read(WordReader& in) {
  level_ = static_cast<Level>(in.integer(0, kLevels - 1));
  sensitivity_ = in.real();
  seen_ = in.integer();
  for (Statistics& s : window_) s = read_statistics(in);
}

void LevelKeeper::observe(const Statistics& statistics) {
  if (statistics.nan + statistics.infinite > 0) return keep_exact();
  window_[static_cast<std::size_t>(seen_ % config_->profiling_window)] = statistics;
  ++seen_;
  const double now = estimates_of(statistics, sensitivity_)[index_of(level_)];
  if (std::isinf(now)) return keep_exact();
  if (config_->mode == ChoiceMode::kThreshold && now > config_->target_accuracy) {
    level_ = at_least(*config_, static_cast<Level>(static_cast<int>(level_) - 1));
    return;
  }
  if (seen_ < config_->profiling_window) return;
  if (config_->mode == ChoiceMode::kTable) {
    level_ = start_;
    return;
  }
  Estimates worst{};
  for (const Statistics& s : window_) {
    const Estimates e = estimates_of(s, sensitivity_ / kRoom);
    for (std::size_t l = 0; l < e.size(); ++l) worst[l] = std::max(worst[l], e[l]);
  }
  level_ = std::max(level_, level_by_threshold(*config_, worst));
}

}  // namespace neap::precision
