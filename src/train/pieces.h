// The subgraphs of a step as the tuner treats them: the step before any optimization of the library, cut into the
// leaves of its tree; what a strategy for each piece makes of it, and what each piece took.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "policy/dqn/agent.h"
#include "subgraph/subgraph.h"
#include "train/stepper.h"
#include "train/ways.h"

namespace neap {

using Actions = std::vector<int>;  // one a piece: which of the ways

class Pieces {
 public:
  // UserError: the options are wrong.
  Pieces(Graph settled, std::vector<Way> ways, const SubgraphOptions& options, DeviceKind device = DeviceKind::kCpu);
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;

  std::size_t size() const { return pieces_.size(); }
  std::size_t nodes() const { return settled_.nodes.size(); }
  const std::vector<Way>& ways() const { return ways_; }
  const Subgraph& piece(std::size_t p) const { return pieces_[p]; }
  std::size_t piece_of(std::uint32_t node) const { return static_cast<std::size_t>(piece_of_[node]); }
  std::string label(std::size_t p) const { return tree_.label(pieces_[p]); }
  const Way& way(int action) const { return ways_[static_cast<std::size_t>(action)]; }

  // The settled graph, with these strategies in these pieces.
  Graph rewritten(const Actions& actions) const;
  // What has been done to each piece of a rewritten form.
  Actions actions_of(const Graph& graph) const;

  // Milliseconds of each settled node, from those of each instruction of the stepper's plan. What a pass has joined
  // counts for each by what it takes at best.
  std::vector<double> node_ms(const Stepper& stepper, const std::vector<double>& timed) const;
  // Of each settled node, whether two steps do something else there.
  std::vector<bool> differences(const Stepper& a, const Stepper& b) const;
  // Of a piece.
  double ms(std::size_t p, const std::vector<double>& node_ms) const;
  // As the agent sees it, when it takes so long.
  dqn::State state(std::size_t p, double ms, int action) const;
  // Bytes that are made before it and read in it or later, and the same behind it.
  std::int64_t transferred_bytes(std::size_t p) const;

  // Splits what stays far below its roofline, merges what stays near it; the reasons. After a change there are other
  // pieces.
  std::vector<std::string> observe(const std::vector<double>& node_ms);

 private:
  void recut();
  const std::vector<NodeId>& counterparts_in(const Stepper& stepper) const;

  Graph settled_;
  std::vector<Way> ways_;
  Roofline roofline_;
  std::vector<NodeCost> costs_;         // of the settled nodes
  std::vector<std::int64_t> crossing_;  // in front of each
  SubgraphTree tree_;
  std::vector<Subgraph> pieces_;  // the leaves, with what they take at best
  std::vector<int> piece_of_;     // of each settled node
  std::map<std::string, std::uint32_t, std::less<>> by_name_;
  // Of each settled node, in the last two forms that were asked for.
  struct Known {
    std::shared_ptr<const Program> program;
    std::vector<NodeId> counterparts;
  };
  mutable std::array<Known, 2> known_;
};

}  // namespace neap
