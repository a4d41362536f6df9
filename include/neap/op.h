// Ops from outside the tree. An op is a shape rule, a function that computes it on the CPU, and a rule that builds its
// gradient out of other ops. Once registered it is used like any other: g("name", {x}). See examples/custom_op.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "neap/builder.h"

namespace neap {

// One use of an op: its attributes and the types of its tensors.
struct OpTypes {
  const Attrs& attrs;
  std::span<const std::optional<TensorType>> inputs;  // empty: not given
  std::span<const TensorType> outputs;                // none while they are being inferred

  bool has(std::size_t input) const { return input < inputs.size() && inputs[input].has_value(); }
  const TensorType& in(std::size_t input) const;  // UserError when it is not given
};

// Where the tensors of one use lie while it runs: dense, in C order.
struct OpData {
  const OpTypes& types;
  std::span<const std::byte* const> inputs;  // null: not given
  std::span<std::byte* const> outputs;
  std::byte* workspace = nullptr;

  template <class T>
  const T* in(std::size_t i) const {
    return reinterpret_cast<const T*>(inputs[i]);
  }
  template <class T>
  T* out(std::size_t i) const {
    return reinterpret_cast<T*>(outputs[i]);
  }
};

// What a gradient rule works with. It adds nodes to `g`; the tensors that they read are kept for backward, no others.
struct OpGradient {
  Builder& g;
  const Attrs& attrs;
  Values x;                  // inputs
  Values y;                  // outputs
  Values dy;                 // gradients of the outputs; a default Value where nothing flows back
  std::vector<bool> wanted;  // one an input: is its gradient needed?
};

struct OpRules {
  std::string name;

  // Types of the outputs. Throws UserError when the inputs do not fit; dimensions may still be symbols.
  std::function<std::vector<TensorType>(const OpTypes&)> infer;

  // Computes the outputs. It must give the same bits every time, must not allocate, and may use all threads (OpenMP,
  // static schedule): results may not depend on their number.
  std::function<void(const OpData&)> run;

  // One Value an input, a default one where there is none. Not given: the op has no gradient.
  std::function<Values(const OpGradient&)> gradient;

  // Bytes of OpData::workspace, which lies in the arena too. Not given: none.
  std::function<std::int64_t(const OpTypes&)> workspace;

  // run() may write the first output over the first input (of the same size) when nothing else needs that.
  bool in_place = false;
  // One pass over memory: cheap to run again instead of keeping its result.
  bool cheap = false;
};

// From now on graphs can have this op; it stays for the life of the process. UserError when the name is taken or a rule
// is missing. Call it before models are built with it.
void register_op(OpRules rules);

}  // namespace neap
