// The library of optimizations. Each rewrites the graph of a whole step (forward, backward, updates; static shapes)
// into one that computes the same in less time or fewer bytes. One technique a pair of files; its line is in
// optimization.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace neap {

enum class Strategy : std::uint8_t { kCompute, kMemory, kHybrid };
std::string_view name(Strategy strategy);

// Where a pass may work: a piece for each node, negative to keep out; nodes of different pieces are not joined. Empty:
// everywhere.
using Where = std::vector<int>;

// On a GPU: not at all (there are no kernels for what it puts in, or nothing is gained), by its name alone (its gain is
// not measured there), or as everywhere.
enum class OnCuda : std::uint8_t { kNo, kByName, kYes };

struct Optimization {
  std::string_view name;  // as --optimize takes it
  std::string_view what;
  std::string_view makes;  // the op of the nodes that it puts in
  Strategy strategy = Strategy::kCompute;
  bool is_bitwise = false;  // every result keeps its bits
  double tolerance = 0;     // else: ||error|| / ||gradient|| of each parameter that it may cause
  OnCuda on_cuda = OnCuda::kNo;
  bool rounds_on_cuda = false;  // on a GPU results differ in rounding all the same
  bool is_lossy = false;        // results change by more than rounding: "adaptive" and "all" leave it out
  bool is_by_name = false;      // costs time for bytes: "adaptive" and "all" leave it out, too
  bool is_settled = false;      // not for the clock to choose: it saves bytes, and updates read something else with it
  // Not empty: it works on graphs of forward alone, and training refuses it with these words.
  std::string_view not_for_training = {};
  // The graph after it, or the same graph where there is nothing to do.
  Graph (*apply)(const Graph& graph, const Where& where) = nullptr;

  bool keeps_bits(bool is_cuda) const { return is_bitwise && !(is_cuda && rounds_on_cuda); }
};

// In the order in which they are applied.
std::span<const Optimization> optimizations();

// "adaptive" and "all": every one that is not lossy or by name only; "off": none; else names with commas between.
// UserError names what is wrong. Without those that are not for a GPU, where it is one.
std::vector<const Optimization*> chosen_optimizations(std::string_view text, bool is_cuda = false);

// UserError when one of them is for inference alone.
void refuse_for_training(std::span<const Optimization* const> chosen);

// Of what `text` chooses, the names of those that a GPU does not take, with commas between.
std::string not_for_cuda(std::string_view text);
// UserError when `text` names one of them; "adaptive" and "all" are what there is.
void refuse_for_cuda(std::string_view text);

Graph optimize(Graph graph, std::span<const Optimization* const> chosen);

}  // namespace neap
