// A small program of other ops as one node. It runs chunk by chunk of rows, so that what lies between its steps stays
// in the cache and never exists as a whole. Each step is the op's own kernel, prepared for a chunk: results have the
// bits of the ops run one after the other wherever a row's result does not depend on the rows beside it.
#pragma once

#include <optional>
#include <vector>

#include "graph/op.h"

namespace neap {

// Values are numbered: first the node's inputs, then the first output of each step.
struct TiledStep {
  const OpDef* op = nullptr;
  std::vector<int> inputs;  // negative: not given
  Attrs attrs;
};

struct TiledProgram {
  std::vector<TiledStep> steps;  // the last one's result is the node's
  int axes = 1;                  // of the result, from the outermost on, that make up its rows
};

Attrs to_attrs(const TiledProgram& program);
TiledProgram program_of(const Attrs& attrs);

// Types of all values, from those of the inputs.
std::vector<std::optional<TensorType>> types_of(const TiledProgram& program,
                                                const std::vector<std::optional<TensorType>>& inputs);

// How a value takes part in rows: as many of them as the result has, or the same in every chunk.
enum class RowKind : std::uint8_t { kRows, kWhole, kNeither };
RowKind row_kind(const Shape& value, const Shape& result, int axes);

}  // namespace neap
