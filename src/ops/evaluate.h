// Runs a graph with plain memory, one vector a tensor: for tests and for folding constants. Training does not use it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/kernel.h"

namespace neap {

struct HostTensor {
  TensorType type;
  std::vector<std::byte> data;

  HostTensor() = default;
  explicit HostTensor(TensorType t) : type(std::move(t)), data(static_cast<std::size_t>(type.bytes())) {}
  float* floats() { return reinterpret_cast<float*>(data.data()); }
  const float* floats() const { return reinterpret_cast<const float*>(data.data()); }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data.data());
  }
};

// A CPU kernel for this call: the first that does not decline, or the one named. InternalError lists the reasons.
std::shared_ptr<Kernel> prepare_cpu_kernel(const OpCall& call, std::string_view named = {});

// Values of all tensors after running every node; `leaves` gives inputs, parameters and buffers by name (those missing
// are zero). `kernel` names the kernel to use wherever it exists ("ref"), empty means the best.
std::vector<HostTensor> evaluate(const Graph& graph, const std::map<std::string, HostTensor>& leaves,
                                 std::string_view kernel = {});

}  // namespace neap
