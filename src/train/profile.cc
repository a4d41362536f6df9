#include "train/profile.h"

#include <map>
#include <set>

#include "graph/op.h"
#include "observe/ceilings.h"

namespace neap {
namespace {

class Rows {
 public:
  LayerReport& row(const std::string& layer) {
    const auto [at, is_new] = index_.try_emplace(layer, rows_.size());
    if (is_new) rows_.push_back({.name = layer});
    return rows_[at->second];
  }
  std::vector<LayerReport>& all() { return rows_; }

 private:
  std::map<std::string, std::size_t> index_;
  std::vector<LayerReport> rows_;
};

// A parameter that several nodes of a layer read is there once.
void add_parameters(const Graph& graph, Rows& rows) {
  std::set<std::pair<std::string, std::uint32_t>> seen;
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::kForward) continue;
    for (const TensorId id : node.inputs) {
      if (!id || graph.at(id).role != Role::kParameter || !seen.insert({node.layer, id.index}).second) continue;
      rows.row(node.layer).parameter_bytes += graph.at(id).type.bytes();
    }
  }
}

double& time_of(LayerReport& row, Phase phase) {
  return phase == Phase::kForward ? row.forward_ms : phase == Phase::kBackward ? row.backward_ms : row.update_ms;
}

}  // namespace

std::vector<LayerReport> profile_by_layer(const Program& program, const Plan& plan, const std::vector<double>& ms,
                                          DeviceKind device) {
  Rows rows;
  const Graph& graph = program.graph;
  for (std::size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction& in = plan.instructions[i];
    if (is_transfer(in.action)) continue;
    const Node& node = graph.at(in.node);
    LayerReport& row = rows.row(node.layer);
    const bool is_again = in.action == Action::kRecompute;
    time_of(row, is_again || in.action == Action::kDecode ? Phase::kBackward : node.phase) += ms[i];
    if (!is_call(in.action)) continue;
    const OpCall call = call_of(graph, node);
    row.gflop += flops_of(call) * 1e-9;
    row.traffic_bytes += static_cast<std::int64_t>(traffic_of(call));
  }
  for (const Block& b : plan.blocks) {
    if (b.kind == BlockKind::kSaved && b.tensor && graph.at(b.tensor).producer) {
      rows.row(graph.at(graph.at(b.tensor).producer).layer).saved_bytes += b.bytes;
    }
  }
  add_parameters(graph, rows);
  const Ceilings& ceilings = ceilings_of(device);
  for (LayerReport& row : rows.all()) {
    const double compute_ms = row.gflop / ceilings.gflops * 1e3;
    const double memory_ms = static_cast<double>(row.traffic_bytes) / ceilings.bytes_per_second * 1e3;
    row.bound = compute_ms >= memory_ms ? "compute" : "memory";
  }
  return std::move(rows.all());
}

std::vector<KernelReport> kernels_of(const Program& program, const Plan& plan, std::span<const Activity> activities) {
  std::vector<KernelReport> out;
  std::map<std::pair<std::uint32_t, std::string>, std::size_t> index;  // by node and kernel
  for (const Activity& a : activities) {
    const bool is_call = a.tag < plan.instructions.size() && !is_transfer(plan.instructions[a.tag].action);
    if (!is_call || is_on_link(a.kind)) continue;
    const NodeId id = plan.instructions[a.tag].node;
    const std::string kernel = a.kind == ActivityKind::kKernel ? readable_kernel(a.name)
                               : a.kind == ActivityKind::kFill ? "fill"
                                                               : "copy";
    const auto [at, is_new] = index.try_emplace({id.index, kernel}, out.size());
    const Node& node = program.graph.at(id);
    if (is_new)
      out.push_back({.kernel = kernel, .node = node.name, .op = std::string(node.op->name), .layer = node.layer});
    out[at->second].ms += static_cast<double>(a.ended_ns - a.begun_ns) * 1e-6;
    ++out[at->second].launches;
  }
  return out;
}

}  // namespace neap
