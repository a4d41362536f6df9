#include "train/weights.h"

#include <fmt/format.h>

#include "neap/error.h"
#include "train/state.h"

namespace neap {
namespace {

bool is_kept(const Tensor& t, Kept kept) {
  return t.role == Role::kParameter || t.role == Role::kBuffer || (kept == Kept::kAll && t.role == Role::kOptimizer);
}

std::vector<TensorId> kept_ids(const Graph& graph, Kept kept) {
  std::vector<TensorId> out;
  for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
    if (is_kept(graph.tensors[i], kept)) out.push_back({i});
  }
  return out;
}

// A tensor's bytes where the host can read them; `copy` holds them if the arena is on a device.
std::span<const std::byte> host_bytes(const Tensor& t, TensorId id, const Executor& executor,
                                      std::vector<std::byte>& copy) {
  const auto bytes = static_cast<std::size_t>(t.type.bytes());
  if (executor.is_host_memory()) return {executor.at(id), bytes};
  copy.resize(bytes);
  executor.read(id, copy.data());
  return copy;
}

}  // namespace

OutsideTensors outside_tensors(const Graph& graph, const Executor& executor, Kept kept) {
  OutsideTensors out;
  for (const TensorId id : kept_ids(graph, kept)) {
    const Tensor& t = graph.at(id);
    std::vector<std::byte> copy;
    std::span<const std::byte> bytes = host_bytes(t, id, executor, copy);
    if (!t.outside_axes.empty()) copy = to_outside(t, bytes.data());
    if (!copy.empty()) bytes = out.moved.emplace_back(std::move(copy));
    const TensorType type = outside_type(t);
    out.tensors.push_back({.name = t.name, .dtype = type.dtype, .shape = type.shape, .data = bytes});
  }
  return out;
}

OutsideTensors inside_tensors(const Graph& graph, const Executor& executor, Kept kept) {
  OutsideTensors out;
  for (const TensorId id : kept_ids(graph, kept)) {
    const Tensor& t = graph.at(id);
    std::vector<std::byte> copy;
    std::span<const std::byte> bytes = host_bytes(t, id, executor, copy);
    if (!copy.empty()) bytes = out.moved.emplace_back(std::move(copy));
    out.tensors.push_back({.name = t.name, .dtype = t.type.dtype, .shape = t.type.shape, .data = bytes});
  }
  return out;
}

void load_tensors(const SafeTensorsFile& file, const std::string& path, const Graph& graph, Executor& executor,
                  Kept kept) {
  load_tensors(
      file, path, graph, [&](TensorId id, const std::byte* data) { executor.write(id, data); }, kept);
}

void load_tensors(const SafeTensorsFile& file, const std::string& path, const Graph& graph, const TakeTensor& take,
                  Kept kept) {
  for (const TensorId id : kept_ids(graph, kept)) {
    const Tensor& t = graph.at(id);
    const SafeTensor* from = file.find(t.name);
    if (from == nullptr) throw UserError(fmt::format("'{}' has no tensor '{}'", path, t.name));
    const TensorType type{from->dtype, from->shape};
    if (const TensorType want = outside_type(t); type != want) {
      throw UserError(fmt::format("'{}': tensor '{}' is {}, the model has {}", path, t.name, type.text(), want.text()));
    }
    const bool is_ready = t.outside_axes.empty();
    take(id, is_ready ? from->data.data() : from_outside(t, from->data.data()).data());
  }
}

WeightReader weight_reader(const Graph& graph, const Executor& executor) {
  return [&graph, &executor, moved = std::vector<std::byte>()](std::string_view name) mutable {
    const auto id = graph.find(name);
    if (!id || !is_kept(graph.at(*id), Kept::kWeights)) return std::span<const std::byte>();
    const Tensor& t = graph.at(*id);
    std::vector<std::byte> copy;
    const std::span<const std::byte> bytes = host_bytes(t, *id, executor, copy);
    if (t.outside_axes.empty() && copy.empty()) return bytes;
    moved = t.outside_axes.empty() ? std::move(copy) : to_outside(t, bytes.data());
    return std::span<const std::byte>(moved);
  };
}

}  // namespace neap
