// Which level a saved tensor gets: by table, or by the variance that a profile foretells.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "precision/statistics.h"
#include "precision/words.h"

namespace neap::precision {

// What the op that reads a saved tensor in backward does with it.
enum class OpClass : std::uint8_t {
  kProduct,     // linear layers, convolutions: linear in it, so that unbiased errors stay unbiased
  kNorm,        // batch, layer, group norm
  kActivation,  // gelu, silu, tanh, ...
  kAttention,   // softmax and its products
  kRecurrent,   // gates and states that are read step after step
  kOther,       // losses, embeddings, what is unknown
};
constexpr int kOpClasses = 6;
using LevelTable = std::array<Level, kOpClasses>;
inline constexpr LevelTable kDefaultTable = {Level::kInt4, Level::kInt8, Level::kInt8,
                                             Level::kInt8, Level::kBf16, Level::kFp32};

// Until it is measured. Softmax multiplies errors: what attention reads, rounded, adds seven times as much variance to
// the gradients of gpt-mini's weights as the same error in what its gelu reads.
constexpr double assumed_sensitivity(OpClass op_class) { return op_class == OpClass::kAttention ? 8 : 1; }

enum class ChoiceMode : std::uint8_t { kTable, kThreshold };

// Every how many layers and batches a tensor is profiled.
struct ProfilingGranularity {
  std::int64_t layers = 1;
  std::int64_t batches = 16;
};

struct PrecisionConfig {
  ChoiceMode mode = ChoiceMode::kThreshold;
  // The gradient variance that quantization may add, relative to the minibatch's own.
  double target_accuracy = 0.1;
  std::vector<Level> precision_levels = {Level::kFp32, Level::kBf16, Level::kInt8, Level::kInt4};
  ProfilingGranularity profiling_granularity;
  std::int64_t profiling_window = 4;  // profiles that a choice looks back on
  Level default_precision = Level::kInt8;
  LevelTable table = kDefaultTable;
};

// Throws UserError in one line: no levels, a target that is not above 0, a granularity or window below 1.
void check(const PrecisionConfig& config);

// Whether the saved tensors of this layer are profiled in this step; layers not at a multiple keep the default.
bool should_profile(const PrecisionConfig& config, std::int64_t layer, std::int64_t step);

// The coarsest allowed level that is at least as precise as `wanted`; FP32 where none is.
Level at_least(const PrecisionConfig& config, Level wanted);
Level level_by_table(const PrecisionConfig& config, OpClass op_class);

// A level's relative variance times the tensor's sensitivity, for each level.
using Estimates = std::array<double, kLevels>;
Estimates estimates_of(const Statistics& statistics, double sensitivity = 1);
// The coarsest allowed level whose estimate is within the target; FP32 where none is.
Level level_by_threshold(const PrecisionConfig& config, const Estimates& estimates);

void write(WordWriter& out, const Statistics& statistics);
Statistics read_statistics(WordReader& in);

// The level of one tensor while training goes on. It depends on what was observed and in which order, on nothing else.
class LevelKeeper {
 public:
  // `config` must outlive it.
  explicit LevelKeeper(const PrecisionConfig& config, OpClass op_class = OpClass::kOther);

  Level level() const { return level_; }
  // How much of the layer's gradient variance a unit of relative variance makes; 1 until it has been measured.
  void set_sensitivity(double sensitivity);
  double sensitivity() const { return sensitivity_; }
  // One profile. One level up when its estimate exceeds the target, FP32 when it is not finite; once the window is
  // full, down to the level that every profile of the window allows with some room. Until then default_precision is the
  // coarsest.
  void observe(const Statistics& statistics);
  // What encode reported. NaN, Inf and overflow: FP32 until a whole window of profiles is clean.
  void report(unsigned encode_flags);

  // All that it has learnt, for a keeper of the same settings.
  void write(WordWriter& out) const;
  void read(WordReader& in);

 private:
  void keep_exact();

  const PrecisionConfig* config_;
  Level start_;
  Level level_;
  double sensitivity_ = 1;
  std::vector<Statistics> window_;  // a ring
  std::int64_t seen_ = 0;           // profiles since the start, or since the tensor was last kept exact
};

}  // namespace neap::precision
