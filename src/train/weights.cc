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

}  // namespace

OutsideTensors outside_tensors(const Graph& graph, const Executor& executor, Kept kept) {
  OutsideTensors out;
  for (const TensorId id : kept_ids(graph, kept)) {
    const Tensor& t = graph.at(id);
    std::span<const std::byte> bytes(executor.at(id), static_cast<std::size_t>(t.type.bytes()));
    if (!t.outside_axes.empty()) bytes = out.moved.emplace_back(to_outside(t, bytes.data()));
    const TensorType type = outside_type(t);
    out.tensors.push_back({.name = t.name, .dtype = type.dtype, .shape = type.shape, .data = bytes});
  }
  return out;
}

std::vector<SafeTensor> inside_tensors(const Graph& graph, const Executor& executor, Kept kept) {
  std::vector<SafeTensor> out;
  for (const TensorId id : kept_ids(graph, kept)) {
    const Tensor& t = graph.at(id);
    out.push_back({.name = t.name,
                   .dtype = t.type.dtype,
                   .shape = t.type.shape,
                   .data = {executor.at(id), static_cast<std::size_t>(t.type.bytes())}});
  }
  return out;
}

void load_tensors(const SafeTensorsFile& file, const std::string& path, const Graph& graph, Executor& executor,
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
    executor.write(id, is_ready ? from->data.data() : from_outside(t, from->data.data()).data());
  }
}

WeightReader weight_reader(const Graph& graph, const Executor& executor) {
  return [&graph, &executor, moved = std::vector<std::byte>()](std::string_view name) mutable {
    const auto id = graph.find(name);
    if (!id || !is_kept(graph.at(*id), Kept::kWeights)) return std::span<const std::byte>();
    const Tensor& t = graph.at(*id);
    if (t.outside_axes.empty()) {
      return std::span<const std::byte>(executor.at(*id), static_cast<std::size_t>(t.type.bytes()));
    }
    moved = to_outside(t, executor.at(*id));
    return std::span<const std::byte>(moved);
  };
}

}  // namespace neap
