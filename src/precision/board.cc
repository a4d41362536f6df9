#include "precision/board.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "precision/variance.h"

namespace neap::precision {
namespace {

// Levels that would save less than this share of the bytes stay as they are.
constexpr double kWorthwhile = 0.03;
// A share of bytes that is spent on precision where it does most, target or not: small tensors then cost next to
// nothing and err hardly at all.
constexpr double kSpare = 0.04;
// Room below the target, so that noise does not move levels to and fro.
constexpr double kRoom = 0.9;

}  // namespace

LevelBoard::LevelBoard(PrecisionConfig config, std::vector<BoardTensor> tensors)
    : config_(std::move(config)), tensors_(std::move(tensors)), last_(tensors_.size()) {
  check(config_);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    sensitivity_.push_back(assumed_sensitivity(tensors_[i].op_class));
    keepers_.emplace_back(config_, tensors_[i].op_class);
    keepers_[i].set_sensitivity(weight(i));
    levels_.push_back(keepers_[i].level());
  }
}

bool LevelBoard::is_profile_step(std::int64_t step) const {
  return step <= config_.profiling_window || step % config_.profiling_granularity.batches == 0;
}

bool LevelBoard::is_profiled(std::size_t tensor, std::int64_t step) const {
  return is_profile_step(step) && tensors_[tensor].layer % config_.profiling_granularity.layers == 0;
}

void LevelBoard::observe(std::size_t tensor, const Statistics& statistics) {
  keepers_[tensor].observe(statistics);
  const bool is_finite = statistics.nan + statistics.infinite == 0;
  last_[tensor] = is_finite ? std::optional(statistics) : std::nullopt;
}

void LevelBoard::report(std::size_t tensor, unsigned encode_flags) { keepers_[tensor].report(encode_flags); }

void LevelBoard::set_sensitivity(std::size_t tensor, double sensitivity) {
  sensitivity_[tensor] = sensitivity;
  keepers_[tensor].set_sensitivity(weight(tensor));
}

double LevelBoard::error_at(std::size_t tensor, Level level) const {
  if (level == Level::kFp32 || !last_[tensor]) return 0;
  const double relative = relative_variance(level, *last_[tensor]);
  return std::isinf(relative) ? relative : relative * weight(tensor);
}

double LevelBoard::error(std::size_t tensor, Level level) const {
  return last_[tensor] ? error_at(tensor, level) : assumed_variance(level) * weight(tensor);
}

double LevelBoard::total_error() const {
  double out = 0;
  for (std::size_t i = 0; i < size(); ++i) out += error(i);
  return out;
}

std::int64_t LevelBoard::bytes_of(const std::vector<Level>& levels) const {
  std::int64_t out = 0;
  for (std::size_t i = 0; i < size(); ++i) out += encoded_bytes(levels[i], tensors_[i].elements);
  return out;
}

// Tensors without a profile, and those that must stay exact, are as their keepers say.
std::vector<Level> LevelBoard::distribute() const {
  std::vector<Level> out;
  std::vector<AllocationItem> items;
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < size(); ++i) {
    const Level gate = keepers_[i].level();
    out.push_back(gate);
    if (gate == Level::kFp32 || !last_[i]) continue;
    AllocationItem item{.elements = tensors_[i].elements};
    for (const Level level : kAllLevels) {
      item.variance[index_of(level)] = level > gate ? std::numeric_limits<double>::infinity() : error_at(i, level);
    }
    items.push_back(item);
    which.push_back(i);
  }
  Allocation found = allocate_greedily(items, config_.precision_levels, kRoom * config_.target_accuracy);
  const auto most = static_cast<std::int64_t>((1 + kSpare) * static_cast<double>(found.bytes));
  found = with_spare_bytes(items, config_.precision_levels, std::move(found), most);
  for (std::size_t k = 0; k < which.size(); ++k) out[which[k]] = found.levels[k];
  return out;
}

void LevelBoard::write(WordWriter& out) const {
  for (std::size_t i = 0; i < size(); ++i) {
    keepers_[i].write(out);
    out.put(sensitivity_[i]);
    out.put(static_cast<int>(levels_[i]));
    out.put(last_[i] ? 1 : 0);
    if (last_[i]) precision::write(out, *last_[i]);
  }
}

void LevelBoard::read(WordReader& in) {
  for (std::size_t i = 0; i < size(); ++i) {
    keepers_[i].read(in);
    sensitivity_[i] = in.real();
    levels_[i] = static_cast<Level>(in.integer(0, kLevels - 1));
    const bool is_known = in.integer(0, 1) == 1;
    last_[i] = is_known ? std::optional(read_statistics(in)) : std::nullopt;
  }
}

bool LevelBoard::settle() {
  std::vector<Level> next;
  for (const LevelKeeper& keeper : keepers_) next.push_back(keeper.level());
  bool must_change = false;
  if (config_.mode == ChoiceMode::kThreshold) {
    // Levels that are too coarse by their own statistics, or all together, cannot wait; finer ones than needed can.
    double known = 0;
    for (std::size_t i = 0; i < size(); ++i) {
      must_change |= levels_[i] > next[i];
      known += error_at(i, levels_[i]);
    }
    must_change |= known > config_.target_accuracy;
    next = distribute();
    const auto now = static_cast<double>(bytes_of(levels_));
    if (!must_change && static_cast<double>(bytes_of(next)) > (1 - kWorthwhile) * now) return false;
  }
  if (next == levels_) return false;
  levels_ = std::move(next);
  return true;
}

}  // namespace neap::precision
