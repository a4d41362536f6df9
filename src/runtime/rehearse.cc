#include <algorithm>

#include "graph/op.h"
#include "neap/error.h"
#include "runtime/executor.h"
#include "runtime/host_view.h"

namespace neap {
namespace {

bool is_mutated(const Node& node, std::size_t input) {
  return std::find(node.op->mutates.begin(), node.op->mutates.end(), input) != node.op->mutates.end();
}

// Made by an update for the next: all that went into it was noted with the first.
bool is_handed_on(const Graph& graph, TensorId id) {
  const NodeId producer = graph.at(id).producer;
  return producer && graph.at(producer).phase == Phase::kUpdate;
}

}  // namespace

bool Executor::changes_state(const Launch& l) const {
  return is_call(l.action) && program_.graph.at(l.node).op->side_effects();
}

void Executor::note(const TensorType& type, const std::byte* at, bool has_sums, Rehearsed& out) const {
  const HostView view(device_, at, type.bytes(), is_host_memory_);
  out.add(view.data(), static_cast<std::size_t>(type.bytes()), type.dtype, has_sums);
}

// Everything that the call reads, the state apart.
Rehearsed Executor::noted(const Launch& l, bool has_sums) const {
  const Graph& graph = program_.graph;
  const Node& node = graph.at(l.node);
  Rehearsed out{.name = node.name};
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i] || l.inputs[i] == nullptr || is_mutated(node, i)) continue;
    if (is_handed_on(graph, node.inputs[i])) continue;
    note(graph.at(node.inputs[i]).type, l.inputs[i], has_sums, out);
  }
  return out;
}

void Executor::note_results(bool has_sums, std::vector<Rehearsed>& out) const {
  for (const auto& [name, id] : program_.graph.outputs) {
    Rehearsed each{.name = name};
    note(program_.graph.at(id).type, at(id), has_sums, each);
    out.push_back(std::move(each));
  }
}

// A call whose results nobody but updates reads is left out; any other runs, and its state is put back.
void Executor::launch_without_change(const Launch& l) {
  const Graph& graph = program_.graph;
  const Node& node = graph.at(l.node);
  if (node.outputs.empty() || node.phase == Phase::kUpdate) return;
  std::vector<std::pair<std::byte*, std::vector<std::byte>>> before;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i] || l.inputs[i] == nullptr || !is_mutated(node, i)) continue;
    std::vector<std::byte> bytes(static_cast<std::size_t>(graph.at(node.inputs[i]).type.bytes()));
    device_.read(bytes.data(), l.inputs[i], static_cast<std::int64_t>(bytes.size()));
    before.emplace_back(base_ + (l.inputs[i] - base_), std::move(bytes));
  }
  launch(l);
  device_.synchronise();
  for (const auto& [at, bytes] : before) device_.write(at, bytes.data(), static_cast<std::int64_t>(bytes.size()));
}

std::vector<Rehearsed> Executor::rehearse(bool has_sums) {
  require(base_ != nullptr && plan_.slots.empty(), "a rehearsal reads the arena and spills nothing");
  std::vector<Rehearsed> out;
  begin_step();
  for (; done_ < launches_.size(); ++done_) {
    const Launch& l = launches_[done_];
    if (!changes_state(l)) {
      launch(l);
      continue;
    }
    out.push_back(noted(l, has_sums));
    launch_without_change(l);
  }
  note_results(has_sums, out);
  return out;
}

std::vector<Rehearsed> Executor::run_noted(bool has_sums) {
  require(base_ != nullptr, "what a step reads is noted where there is an arena");
  std::vector<Rehearsed> out;
  begin_step();
  for (; done_ < launches_.size(); ++done_) {
    const Launch& l = launches_[done_];
    if (changes_state(l)) out.push_back(noted(l, has_sums));
    launch(l);
  }
  note_results(has_sums, out);
  return out;
}

}  // namespace neap
