// State on its way between arena and files, where tensors have the layout from outside (Tensor::outside_axes).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "neap/model.h"
#include "runtime/executor.h"
#include "train/safetensors.h"

namespace neap {

struct OutsideTensors {
  std::vector<SafeTensor> tensors;
  std::vector<std::vector<std::byte>> moved;  // the bytes of those whose layout differs here, or that lie on a GPU

  OutsideTensors() = default;
  OutsideTensors(const OutsideTensors&) = delete;  // the tensors point into `moved`
  OutsideTensors& operator=(const OutsideTensors&) = delete;
  OutsideTensors(OutsideTensors&&) = default;
  OutsideTensors& operator=(OutsideTensors&&) = default;
};

enum class Kept : std::uint8_t { kWeights, kAll };  // parameters and buffers; optimizer state too

// What the arena holds. Where the layout is the same, and the host can read it, the tensors point into the arena.
OutsideTensors outside_tensors(const Graph& graph, const Executor& executor, Kept kept);

// As they lie here, for a hash.
OutsideTensors inside_tensors(const Graph& graph, const Executor& executor, Kept kept);

// UserError names the file and the tensor that is missing or has another type.
void load_tensors(const SafeTensorsFile& file, const std::string& path, const Graph& graph, Executor& executor,
                  Kept kept);

// The same, each tensor as it lies here, to whoever takes them.
using TakeTensor = std::function<void(TensorId id, const std::byte* data)>;
void load_tensors(const SafeTensorsFile& file, const std::string& path, const Graph& graph, const TakeTensor& take,
                  Kept kept);

WeightReader weight_reader(const Graph& graph, const Executor& executor);

}  // namespace neap
