#include "pool/events.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "core/random.h"
#include "graph/op.h"

namespace neap {
namespace {

std::uint32_t short_hash(std::string_view text) { return static_cast<std::uint32_t>(hash_text(text)); }

// The node's own part of its name without the parts that are numbers: copies of one call (the chunks of a recurrent
// layer) are more or fewer from length to length, and are one site. Numbers in the layer's name stay.
std::string role_in_layer(const Node& node) {
  const std::size_t at = node.name.find(node.layer);
  std::string_view rest = node.name;
  if (at != std::string::npos) rest.remove_prefix(at + node.layer.size());
  std::string out;
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find('.'));
    const bool is_number = std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
    if (!is_number) out.append(part).push_back('.');
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
  }
  return out;
}

AllocationEvent event_of(const Graph& graph, const Block& block, bool is_again) {
  const Tensor& tensor = graph.at(block.tensor);
  if (!tensor.producer) {
    return {.site = short_hash("input " + tensor.name), .layer = short_hash(tensor.name), .op = short_hash("input")};
  }
  const Node& node = graph.at(tensor.producer);
  const auto output = std::find(node.outputs.begin(), node.outputs.end(), block.tensor) - node.outputs.begin();
  const auto phase = static_cast<std::uint8_t>(is_again ? Phase::kBackward : node.phase);
  return {
      .site = short_hash(fmt::format("{} {} {} {} {}", node.layer, role_in_layer(node), node.op->name, output, phase)),
      .layer = short_hash(node.layer),
      .op = short_hash(node.op->name),
      .phase = phase};
}

}  // namespace

StepEvents events_of(const Graph& graph, const Schedule& schedule, const Storage& storage, std::int64_t length) {
  StepEvents out;
  Tick ticks = 0;
  for (std::size_t c = 0; c < schedule.calls.size(); ++c) {
    out.tick_of.push_back(ticks);
    ticks += storage.elided[c] ? 0 : 1;
  }
  out.tick_of.push_back(ticks);
  for (std::uint32_t b = 0; b < storage.blocks.size(); ++b) {
    if (storage.blocks[b].kind != BlockKind::kState) out.blocks.push_back(b);
  }
  const auto is_earlier = [&](std::uint32_t a, std::uint32_t b) {
    return storage.blocks[a].lower < storage.blocks[b].lower;
  };
  std::stable_sort(out.blocks.begin(), out.blocks.end(), is_earlier);
  for (const std::uint32_t b : out.blocks) {
    const Block& block = storage.blocks[b];
    AllocationEvent event = event_of(graph, block, schedule.calls[block.lower].action == Action::kRecompute);
    event.bytes = block.bytes;
    event.tick = out.tick_of[block.lower];
    event.ticks = ticks;
    event.length = length;
    out.events.push_back(event);
    out.lifespans.push_back(std::max(out.tick_of[block.upper], event.tick + 1) - event.tick);
  }
  return out;
}

StepEvents events_of(const Graph& graph, const Schedule& schedule, std::int64_t length) {
  return events_of(graph, schedule, assign_storage(graph, schedule, find_views(graph)), length);
}

StepEvents events_of(const Graph& graph, const Plan& plan, std::int64_t length) {
  StepEvents out;
  for (std::uint32_t b = 0; b < plan.blocks.size(); ++b) {
    const BlockKind kind = plan.blocks[b].kind;
    if (kind != BlockKind::kState && kind != BlockKind::kWorkspace) out.blocks.push_back(b);
  }
  const auto is_earlier = [&](std::uint32_t x, std::uint32_t y) { return plan.blocks[x].lower < plan.blocks[y].lower; };
  std::stable_sort(out.blocks.begin(), out.blocks.end(), is_earlier);
  const auto ticks = static_cast<Tick>(plan.instructions.size());
  for (const std::uint32_t b : out.blocks) {
    const Block& block = plan.blocks[b];
    AllocationEvent event = event_of(graph, block, plan.instructions.at(block.lower).action != Action::kRun);
    event.bytes = block.bytes;
    event.tick = block.lower;
    event.ticks = ticks;
    event.length = length;
    out.events.push_back(event);
    out.lifespans.push_back(std::max<Tick>(block.upper, block.lower + 1) - block.lower);
  }
  return out;
}

}  // namespace neap
