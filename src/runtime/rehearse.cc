#include <algorithm>
#include <cstring>

#include "graph/op.h"
#include "neap/error.h"
#include "runtime/executor.h"

namespace neap {
namespace {

// FNV-1a over words, then over the bytes that are left.
std::uint64_t hash_bytes(const std::byte* at, std::size_t bytes, std::uint64_t hash) {
  constexpr std::uint64_t kPrime = 0x100000001b3U;
  for (; bytes >= sizeof(std::uint64_t); bytes -= sizeof(std::uint64_t), at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    hash = (hash ^ word) * kPrime;
  }
  for (; bytes > 0; --bytes, ++at) hash = (hash ^ static_cast<std::uint64_t>(*at)) * kPrime;
  return hash;
}

constexpr std::uint64_t kStart = 0xcbf29ce484222325U;

bool is_mutated(const Node& node, std::size_t input) {
  return std::find(node.op->mutates.begin(), node.op->mutates.end(), input) != node.op->mutates.end();
}

}  // namespace

// A call that only changes state is left out; one that has results too runs, and its state is put back.
void Executor::rehearse_change(const Launch& l, std::vector<Rehearsed>& out) {
  const Graph& graph = program_.graph;
  const Node& node = graph.at(l.node);
  std::uint64_t hash = kStart;
  std::vector<std::pair<std::byte*, std::vector<std::byte>>> before;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i] || l.inputs[i] == nullptr) continue;
    const auto bytes = static_cast<std::size_t>(graph.at(node.inputs[i]).type.bytes());
    if (!is_mutated(node, i)) {
      hash = hash_bytes(l.inputs[i], bytes, hash);
    } else if (!node.outputs.empty()) {
      before.emplace_back(base_ + (l.inputs[i] - base_), std::vector(l.inputs[i], l.inputs[i] + bytes));
    }
  }
  out.push_back({node.name, hash});
  if (node.outputs.empty()) return;
  launch(l);
  for (const auto& [at, bytes] : before) std::copy(bytes.begin(), bytes.end(), at);
}

std::vector<Rehearsed> Executor::rehearse() {
  require(is_host_memory_ && plan_.slots.empty(), "a rehearsal reads the arena and spills nothing");
  std::vector<Rehearsed> out;
  for (done_ = 0; done_ < launches_.size(); ++done_) {
    const Launch& l = launches_[done_];
    const bool changes = is_call(l.action) && program_.graph.at(l.node).op->side_effects();
    if (changes) {
      rehearse_change(l, out);
    } else {
      launch(l);
    }
  }
  for (const auto& [name, id] : program_.graph.outputs) {
    const auto bytes = static_cast<std::size_t>(program_.graph.at(id).type.bytes());
    out.push_back({name, hash_bytes(at(id), bytes, kStart)});
  }
  return out;
}

}  // namespace neap
