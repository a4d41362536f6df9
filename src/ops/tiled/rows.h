// Groups of ops that work row by row (products with a weight, norms, elementwise ops; over images: convolutions) as one
// node. It runs over chunks of rows: all steps for one chunk, then the next, so that what lies between the steps is
// there for one chunk only, in the cache. Each step is the op's own kernel, prepared for a chunk.
//
// There is one op a pass that makes such groups, so that a graph says what was done to it: product_rows,
// feed_forward_rows, feed_forward_again_rows, norm_rows, conv_rows. They differ in name only.
#pragma once

#include <optional>
#include <vector>

#include "graph/op.h"

namespace neap {

enum class RowInput : std::uint8_t {
  kWhole,      // the same in every chunk: a weight
  kRows,       // a chunk takes its own rows
  kBroadcast,  // the same for every row, its leading axes (1 or missing) are left out
  kKey,        // the step's random key; a chunk draws from its own place on
};

// Values are numbered: the node's inputs, then the outputs of the first step, those of the second, ...
struct RowStep {
  const OpDef* op = nullptr;
  std::vector<int> inputs;  // negative: not given
  Attrs attrs;              // shapes in them have all rows
  int outputs = 1;          // so many are values; the others, optional ones, are left out
};

struct RowProgram {
  int axes = 1;            // leading axes that make up the rows: of every value that goes by rows the same
  std::int64_t chunk = 1;  // rows
  std::vector<RowInput> inputs;
  std::vector<RowStep> steps;
  std::vector<int> results;  // values that are the node's outputs
};

Attrs to_attrs(const RowProgram& program);
RowProgram row_program_of(const Attrs& attrs);
bool is_row_group(const OpDef& op);

using ValueTypes = std::vector<std::optional<TensorType>>;

// Types of all values. UserError where a step does not fit.
ValueTypes value_types(const RowProgram& program, const ValueTypes& inputs);
std::int64_t rows_of(const RowProgram& program, const ValueTypes& values);

// Step `at` with `rows` rows; its outputs are inferred.
OpCall chunk_call(const RowProgram& program, const ValueTypes& values, std::size_t at, std::int64_t rows);

}  // namespace neap
