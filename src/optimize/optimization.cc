#include "optimize/optimization.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "neap/error.h"
#include "optimize/conv_rows.h"
#include "optimize/feed_forward.h"
#include "optimize/fuse_elementwise.h"
#include "optimize/int8.h"
#include "optimize/layout.h"
#include "optimize/norm_gradient.h"
#include "optimize/norm_rows.h"
#include "optimize/product_rows.h"
#include "optimize/sparse.h"
#include "optimize/tied_update.h"
#include "optimize/vocab_loss.h"

namespace neap {
namespace {

// Groups of rows come before chains of elementwise ops, which take what is left; norms join groups that are there.
constexpr std::array kAll = {kTiledVocabLoss, kTiedUpdate,  kInt8Products, kSparseLayers, kLayout,   kFeedForwardAgain,
                             kFeedForward,    kProductRows, kNormRows,     kNormGradient, kConvRows, kFusedElementwise};

void append(std::string& names, std::string_view name) {
  names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
}

std::string names() {
  std::string out;
  for (const Optimization& each : kAll) append(out, each.name);
  return out;
}

// One part of a list of names.
std::string_view checked(std::string_view part, std::string_view text) {
  if (part == "off" || part == "all" || part == "adaptive") {
    throw UserError(fmt::format("--optimize '{}': '{}' stands alone", text, part));
  }
  if (std::none_of(kAll.begin(), kAll.end(), [&](const Optimization& each) { return each.name == part; })) {
    throw UserError(
        fmt::format("--optimize: there is no optimization '{}'; take adaptive, off, all, or of {}", part, names()));
  }
  return part;
}

}  // namespace

std::string_view name(Strategy strategy) {
  switch (strategy) {
    case Strategy::kCompute: return "compute";
    case Strategy::kMemory: return "memory";
    case Strategy::kHybrid: return "hybrid";
  }
  return "?";
}

std::span<const Optimization> optimizations() { return kAll; }

std::vector<const Optimization*> chosen_optimizations(std::string_view text, bool is_cuda) {
  std::vector<const Optimization*> out;
  if (text == "off") return out;
  const bool wants_all = text == "adaptive" || text == "all";
  std::set<std::string_view> wanted;
  for (std::size_t at = 0; !wants_all && at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    wanted.insert(checked(text.substr(at, end - at), text));
    at = end + 1;
  }
  for (const Optimization& each : kAll) {
    const bool is_everywhere = !is_cuda || each.on_cuda == OnCuda::kYes;
    const bool is_taken = wants_all && is_everywhere && !each.is_lossy && !each.is_by_name;
    const bool is_named = wanted.contains(each.name) && (!is_cuda || each.on_cuda != OnCuda::kNo);
    if (is_taken || is_named) out.push_back(&each);
  }
  return out;
}

void refuse_for_training(std::span<const Optimization* const> chosen) {
  for (const Optimization* each : chosen) {
    if (each->not_for_training.empty()) continue;
    throw UserError(fmt::format("--optimize {} is for inference (neap infer): {}", each->name, each->not_for_training));
  }
}

std::string not_for_cuda(std::string_view text) {
  const std::vector<const Optimization*> taken = chosen_optimizations(text, true);
  std::string out;
  for (const Optimization* each : chosen_optimizations(text)) {
    if (std::ranges::find(taken, each) == taken.end()) append(out, each->name);
  }
  return out;
}

void refuse_for_cuda(std::string_view text) {
  const std::string refused = text == "adaptive" || text == "all" ? "" : not_for_cuda(text);
  if (refused.empty()) return;
  std::string taken;
  for (const Optimization& each : kAll) {
    if (each.on_cuda != OnCuda::kNo) append(taken, each.name);
  }
  throw UserError(fmt::format("--optimize {}: not with --device cuda, which takes {}", refused, taken));
}

Graph optimize(Graph graph, std::span<const Optimization* const> chosen) {
  for (const Optimization* each : chosen) graph = each->apply(graph, {});
  return graph;
}

}  // namespace neap
