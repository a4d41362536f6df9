// The levels of all saved tensors of a net together, while training goes on.
//
// A keeper for each tensor says which levels its own statistics allow (choice.h). Among those, bits are distributed so
// that all tensors together take the fewest bytes while the variance that they add to the net's gradient, relative to
// the minibatch's own, stays within the target (allocate.h). A tensor's part in it is its relative variance, times its
// sensitivity (measured while training goes on; assumed until then), times its reach: the share of the net's gradients
// that an error in it gets into. All of it depends on what was observed and in which order, on nothing else.
#pragma once

#include <optional>
#include <vector>

#include "precision/allocate.h"
#include "precision/choice.h"

namespace neap::precision {

struct BoardTensor {
  std::int64_t elements = 0;
  OpClass op_class = OpClass::kOther;
  double reach = 1;
  std::int64_t layer = 0;  // its number, for profiling_granularity
};

class LevelBoard {
 public:
  // UserError: see check().
  LevelBoard(PrecisionConfig config, std::vector<BoardTensor> tensors);
  LevelBoard(const LevelBoard&) = delete;
  LevelBoard& operator=(const LevelBoard&) = delete;

  const PrecisionConfig& config() const { return config_; }
  std::size_t size() const { return tensors_.size(); }

  // Steps count from 1. The first window is profiled step by step, so that levels are soon known.
  bool is_profile_step(std::int64_t step) const;
  bool is_profiled(std::size_t tensor, std::int64_t step) const;
  void observe(std::size_t tensor, const Statistics& statistics);
  // What encode reported.
  void report(std::size_t tensor, unsigned encode_flags);
  void set_sensitivity(std::size_t tensor, double sensitivity);
  double sensitivity(std::size_t tensor) const { return sensitivity_[tensor]; }

  // Behind the observations of a step. True: a level has changed.
  bool settle();

  Level level(std::size_t tensor) const { return levels_[tensor]; }
  const std::optional<Statistics>& statistics(std::size_t tensor) const { return last_[tensor]; }
  // All that was learnt, for a board of the same settings and tensors.
  void write(WordWriter& out) const;
  void read(WordReader& in);

  // The variance that the tensor adds at a level; before the first profile what normal values would add.
  double error(std::size_t tensor, Level level) const;
  double error(std::size_t tensor) const { return error(tensor, levels_[tensor]); }
  // Of all of them.
  double total_error() const;

 private:
  double weight(std::size_t tensor) const { return sensitivity_[tensor] * tensors_[tensor].reach; }
  double error_at(std::size_t tensor, Level level) const;
  std::vector<Level> distribute() const;
  std::int64_t bytes_of(const std::vector<Level>& levels) const;

  PrecisionConfig config_;
  std::vector<BoardTensor> tensors_;
  std::vector<LevelKeeper> keepers_;
  std::vector<double> sensitivity_;
  std::vector<std::optional<Statistics>> last_;
  std::vector<Level> levels_;
};

}  // namespace neap::precision
