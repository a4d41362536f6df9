#include "plan/schedule.h"

#include <algorithm>

#include "graph/op.h"
#include "neap/error.h"
#include "plan/encode.h"
#include "plan/spills.h"
#include "plan/transfers.h"

namespace neap {
namespace {

// One bit each; outputs behind them are always wanted.
bool is_optional(const OpDef& op, std::size_t output) {
  return output < 32 && (op.optional_outputs >> output & 1U) != 0;
}

// Calls refer to instances only, so the order can still change after the sweep; ticks are counted last.
class Scheduler {
 public:
  Scheduler(const Graph& graph, const std::vector<Window>& views, const Decisions& decisions, const Costs& costs)
      : graph_(graph), views_(views), decisions_(decisions), costs_(costs), wanted_(find_wanted()) {
    const auto has = [&](Residency what) {
      return std::find(decisions.residency.begin(), decisions.residency.end(), what) != decisions.residency.end();
    };
    require(decisions.order.empty() || !has(Residency::kRecompute), "an order says itself what is made again");
    spills_ = has(Residency::kSpill);
    is_late_ = spills_ && !decisions.early_updates;
    out_.current.assign(graph.tensors.size(), kAbsent);
    for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
      const bool is_leaf = !graph.tensors[i].producer;
      if (is_leaf) out_.current[i] = new_instance({i});
    }
  }

  Schedule run() {
    if (decisions_.order.empty()) {
      run_program();
    } else {
      run_in_order();
    }
    count_ticks();
    return std::move(out_);
  }

 private:
  void run_program() {
    std::vector<NodeId> order;
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (!is_view(views_, node) && node.phase != Phase::kUpdate) order.push_back({i});
    }
    sweep(order, [this](NodeId id) { emit(id, false); });
    finish(all_updates());
  }

  void run_in_order() {
    out_.calls.reserve(decisions_.order.size() + graph_.nodes.size());
    out_.instances.reserve(2 * decisions_.order.size());
    std::vector<bool> has_run(graph_.nodes.size());
    sweep(decisions_.order, [&](NodeId id) {
      require(!is_view(views_, graph_.at(id)), "views do not run");
      emit_latest(id, has_run.at(id.index));
      has_run[id.index] = true;
    });
    std::vector<NodeId> updates;
    for (const NodeId id : put_off_) has_run[id.index] = true;
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (has_run[i] || is_view(views_, node)) continue;
      require(node.phase == Phase::kUpdate, "an order has every forward and backward node");
      updates.push_back({i});
    }
    drop_unread_outputs();
    finish(updates);
  }

  // Runs the nodes. With spills, those that change state wait: a step whose write fails, be it for a full disk, is run
  // again from its inputs, so it has changed nothing before the last write; and where it shall survive a bad read too,
  // nothing before the last read.
  template <typename Emit>
  void sweep(const std::vector<NodeId>& order, const Emit& run) {
    std::vector<NodeId> behind_forward;
    for (const NodeId id : order) {
      const Node& node = graph_.at(id);
      if (spills_ && node.op->side_effects() && (is_late_ || node.phase == Phase::kForward)) {
        (is_late_ ? put_off_ : behind_forward).push_back(id);
        continue;
      }
      if (node.phase == Phase::kBackward && !in_backward_) {
        leave_forward();
        for (const NodeId waiting : behind_forward) run(waiting);
      }
      run(id);
    }
  }

  // What is left to run, and where transfers and fewer bits come in.
  void finish(const std::vector<NodeId>& updates) {
    if (spills_) spill_saved(graph_, views_, decisions_, out_);
    if (is_late_) {
      for (const NodeId id : put_off_) emit(id, false);
      for (const NodeId id : updates) emit(id, false);
    } else {
      place_updates(updates);
    }
    encode_saved(graph_, decisions_, out_);
    if (spills_) spread_transfers(out_, graph_, costs_, decisions_);
  }

  std::vector<NodeId> all_updates() const {
    std::vector<NodeId> out;
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      if (graph_.nodes[i].phase == Phase::kUpdate && !is_view(views_, graph_.nodes[i])) out.push_back({i});
    }
    return out;
  }

  // Unlike emit(), never runs anything else, and whatever it writes is the latest.
  void emit_latest(NodeId id, bool again) {
    const Node& node = graph_.at(id);
    require(!again || !node.op->side_effects(), "side effects are not repeated");
    Call call{
        .node = id, .action = again ? Action::kRecompute : Action::kRun, .changes_state = node.op->side_effects()};
    call.inputs.reserve(node.inputs.size());
    call.outputs.reserve(node.outputs.size());
    for (const TensorId input : node.inputs) {
      const std::int32_t instance = input ? out_.current[root(input).index] : kAbsent;
      require(!input || instance != kAbsent, "an order writes a tensor before it reads it");
      call.inputs.push_back(instance);
    }
    for (const TensorId output : node.outputs) {
      call.outputs.push_back(out_.current[output.index] = new_instance(output));
    }
    out_.calls.push_back(std::move(call));
  }

  // Optional outputs that nobody reads before they are written again, updates and the host included.
  void drop_unread_outputs() {
    const std::vector<bool> wanted_late = find_wanted_late();
    std::vector<bool> is_read(out_.instances.size());
    for (const Call& call : out_.calls) {
      for (const std::int32_t i : call.inputs) {
        if (i != kAbsent) is_read[static_cast<std::size_t>(i)] = true;
      }
    }
    for (Call& call : out_.calls) {
      const OpDef& op = *graph_.at(call.node).op;
      for (std::size_t o = 0; o < call.outputs.size(); ++o) {
        const std::int32_t i = call.outputs[o];
        if (!is_optional(op, o) || is_read[static_cast<std::size_t>(i)]) continue;
        const TensorId id = graph_.at(call.node).outputs[o];
        const bool is_last = out_.current[id.index] == i;
        if (is_last && wanted_late[id.index]) continue;
        if (is_last) out_.current[id.index] = kAbsent;
        call.outputs[o] = kAbsent;
      }
    }
  }

  TensorId root(TensorId id) const { return views_[id.index].root; }

  bool is_made_again(TensorId id) const {
    return id.index < decisions_.residency.size() && decisions_.residency[id.index] == Residency::kRecompute;
  }

  // Roots that something reads: a later node, or the host.
  std::vector<bool> find_wanted() const {
    std::vector<bool> wanted(graph_.tensors.size());
    for (const Node& node : graph_.nodes) {
      if (is_view(views_, node)) continue;
      for (const TensorId id : node.inputs) {
        if (id) wanted[root(id).index] = true;
      }
    }
    for (const auto& [label, id] : graph_.outputs) wanted[root(id).index] = true;
    return wanted;
  }

  // Roots that are read by what runs when the order is over, or then by the host.
  std::vector<bool> find_wanted_late() const {
    std::vector<bool> wanted(graph_.tensors.size());
    const auto note = [&](const Node& node) {
      for (const TensorId id : node.inputs) {
        if (id) wanted[root(id).index] = true;
      }
    };
    for (const Node& node : graph_.nodes) {
      if (node.phase == Phase::kUpdate) note(node);
    }
    for (const NodeId id : put_off_) note(graph_.at(id));
    for (const auto& [label, id] : graph_.outputs) wanted[root(id).index] = true;
    return wanted;
  }

  std::int32_t new_instance(TensorId id) {
    out_.instances.push_back({.root = id});
    return static_cast<std::int32_t>(out_.instances.size() - 1);
  }

  void leave_forward() {
    in_backward_ = true;
    if (!decisions_.order.empty()) return;  // it says itself what is made again
    for (std::uint32_t i = 0; i < graph_.tensors.size(); ++i) {
      const Tensor& t = graph_.tensors[i];
      if (t.producer && is_made_again({i}) && graph_.at(t.producer).phase == Phase::kForward) {
        out_.current[i] = kAbsent;
      }
    }
  }

  // Makes sure that the tensor has an instance, running its producer again if it must.
  std::int32_t need(TensorId id) {
    std::int32_t& at = out_.current[id.index];
    if (at == kAbsent) {
      require(in_backward_ && static_cast<bool>(graph_.at(id).producer), "a tensor is written before it is read");
      emit(graph_.at(id).producer, true);
    }
    return out_.current[id.index];
  }

  void emit(NodeId id, bool again) {
    const Node& node = graph_.at(id);
    require(!again || !node.op->side_effects(), "side effects are not repeated");
    Call call{
        .node = id, .action = again ? Action::kRecompute : Action::kRun, .changes_state = node.op->side_effects()};
    for (const TensorId input : node.inputs) call.inputs.push_back(input ? need(root(input)) : kAbsent);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const TensorId output = node.outputs[i];
      // What was kept is not overwritten: a second run writes it nowhere, or into a scratch of one tick.
      const bool was_kept = again && out_.current[output.index] != kAbsent;
      if (is_optional(*node.op, i) && (was_kept || !wanted_[output.index])) {
        call.outputs.push_back(kAbsent);
        continue;
      }
      const std::int32_t instance = new_instance(output);
      if (!was_kept) out_.current[output.index] = instance;
      call.outputs.push_back(instance);
    }
    out_.calls.push_back(std::move(call));
  }

  // An update goes as early as it can: behind the last call that reads what it changes, and behind what makes or
  // changes its own inputs. So a gradient lives no longer than it must.
  void place_updates(const std::vector<NodeId>& updates) {
    if (updates.empty()) return;
    std::vector<std::size_t> last_read(out_.instances.size(), 0);  // 1 + index of the call
    std::vector<std::size_t> written(out_.instances.size(), 0);
    const auto note = [&](const Call& call, std::size_t position) {
      for (const std::int32_t i : call.inputs) {
        if (i != kAbsent) last_read[static_cast<std::size_t>(i)] = position;
      }
      for (const std::int32_t i : call.outputs) {
        if (i != kAbsent) written[static_cast<std::size_t>(i)] = position;
      }
    };
    for (std::size_t c = 0; c < out_.calls.size(); ++c) note(out_.calls[c], c + 1);
    std::vector<std::pair<std::size_t, Call>> placed;
    for (const NodeId id : updates) {
      const std::size_t before = out_.calls.size();
      emit(id, false);
      Call call = std::move(out_.calls.back());
      out_.calls.pop_back();
      require(out_.calls.size() == before, "an update makes nothing again");
      last_read.resize(out_.instances.size(), 0);
      written.resize(out_.instances.size(), 0);
      std::size_t position = 0;
      for (const std::int32_t i : call.inputs) {
        if (i != kAbsent) position = std::max(position, written[static_cast<std::size_t>(i)]);
      }
      for (const std::uint8_t m : graph_.at(id).op->mutates) {
        if (m < call.inputs.size() && call.inputs[m] != kAbsent) {
          position = std::max(position, last_read[static_cast<std::size_t>(call.inputs[m])]);
        }
      }
      note(call, position);
      for (const std::uint8_t m : graph_.at(id).op->mutates) {
        if (m < call.inputs.size() && call.inputs[m] != kAbsent) {
          written[static_cast<std::size_t>(call.inputs[m])] = position;
        }
      }
      placed.emplace_back(position, std::move(call));
    }
    merge(std::move(placed));
  }

  void merge(std::vector<std::pair<std::size_t, Call>> placed) {
    std::stable_sort(placed.begin(), placed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Call> merged;
    std::size_t next = 0;
    for (std::size_t c = 0; c <= out_.calls.size(); ++c) {
      for (; next < placed.size() && placed[next].first == c; ++next) merged.push_back(std::move(placed[next].second));
      if (c < out_.calls.size()) merged.push_back(std::move(out_.calls[c]));
    }
    out_.calls = std::move(merged);
  }

  void count_ticks() {
    const auto end = static_cast<Tick>(out_.calls.size());
    for (Instance& i : out_.instances) i = {.root = i.root, .lower = end, .upper = 0, .level = i.level};
    for (Tick t = 0; t < end; ++t) {
      for (const std::int32_t i : out_.calls[t].inputs) extend(i, t);
      for (const std::int32_t i : out_.calls[t].outputs) extend(i, t);
    }
    for (std::uint32_t i = 0; i < graph_.tensors.size(); ++i) {
      const Tensor& t = graph_.tensors[i];
      if (t.producer || out_.current[i] == kAbsent) continue;
      Instance& leaf = out_.instances[static_cast<std::size_t>(out_.current[i])];
      leaf.lower = 0;
      leaf.upper = is_state(t.role) ? end : std::max<Tick>(leaf.upper, 1);
    }
    for (const auto& [label, id] : graph_.outputs) {
      out_.instances[static_cast<std::size_t>(out_.current[root(id).index])].upper = end;
    }
  }

  void extend(std::int32_t instance, Tick t) {
    if (instance == kAbsent) return;
    Instance& i = out_.instances[static_cast<std::size_t>(instance)];
    i.lower = std::min(i.lower, t);
    i.upper = std::max(i.upper, t + 1);
  }

  const Graph& graph_;
  const std::vector<Window>& views_;
  const Decisions& decisions_;
  const Costs& costs_;
  std::vector<bool> wanted_;
  bool spills_ = false;
  bool is_late_ = false;         // state changes behind the last fetch
  std::vector<NodeId> put_off_;  // that change state, but for updates
  bool in_backward_ = false;
  Schedule out_;
};

}  // namespace

Schedule make_schedule(const Graph& graph, const std::vector<Window>& views, const Decisions& decisions,
                       const Costs& costs) {
  return Scheduler(graph, views, decisions, costs).run();
}

bool is_late(const Graph& graph, const Call& call) {
  return call.action == Action::kRecompute || graph.at(call.node).phase != Phase::kForward;
}

void insert_calls(Schedule& schedule, std::vector<std::vector<Call>>& before, std::vector<std::vector<Call>>& behind) {
  std::vector<Call> calls;
  calls.reserve(schedule.calls.size() + 4 * schedule.slots.size());
  const auto append = [&](std::vector<Call>& from) {
    for (Call& call : from) calls.push_back(std::move(call));
  };
  for (std::size_t c = 0; c < schedule.calls.size(); ++c) {
    append(before[c]);
    calls.push_back(std::move(schedule.calls[c]));
    append(behind[c]);
  }
  schedule.calls = std::move(calls);
}

double ms_of(const Call& call, const Schedule& schedule, const Graph& graph, const Costs& costs) {
  if (is_call(call.action)) return call.node.index < costs.ms.size() ? costs.ms[call.node.index] : 0;
  if (is_transfer(call.action)) return 0;
  const std::int32_t encoded = call.action == Action::kEncode ? call.outputs[0] : call.inputs[0];
  const Instance& instance = schedule.instances[static_cast<std::size_t>(encoded)];
  return codec_ms(costs.codec, call.action, instance.level, graph.at(instance.root).type.elements());
}

bool can_leave(const Graph& graph, const std::vector<Window>& views, TensorId id) {
  for (const auto& result : graph.outputs) {
    if (views[result.second.index].root == id) return false;  // the host reads it when the step is over
  }
  return graph.at(id).producer && views[id.index].root == id;
}

bool can_spill(const Graph& graph, const std::vector<Window>& views, TensorId id) {
  return can_leave(graph, views, id) && graph.at(graph.at(id).producer).phase == Phase::kForward;
}

std::vector<bool> find_streamable(const Graph& graph, const std::vector<Window>& views) {
  std::vector<bool> out(graph.tensors.size());
  const auto root = [&](TensorId id) { return views[id.index].root.index; };
  for (const Node& node : graph.nodes) {
    if (is_view(views, node)) continue;
    for (const TensorId id : node.inputs) {
      if (!id) continue;
      const Tensor& t = graph.tensors[root(id)];
      if (t.role == Role::kParameter || t.role == Role::kBuffer) out[root(id)] = true;
    }
  }
  for (const Node& node : graph.nodes) {
    for (const std::uint8_t m : node.op->mutates) {
      if (m < node.inputs.size() && node.inputs[m]) out[root(node.inputs[m])] = false;
    }
  }
  for (const auto& [label, id] : graph.outputs) out[root(id)] = false;
  return out;
}

}  // namespace neap
