#include "plan/validate.h"

#include <fmt/format.h>

#include <map>

#include "graph/op.h"

namespace neap {
namespace {

using precision::Level;

// What lies in memory: [start, end) holds bytes of `tensor` in that form, the first of them being its byte `from`.
struct Content {
  std::int64_t end;
  TensorId tensor;
  std::int64_t from;
  Level level = Level::kFp32;
  bool is_rounded = false;  // it was encoded before
};

class Memory {
 public:
  void write(std::int64_t start, std::int64_t bytes, TensorId tensor, std::int64_t from = 0, Level level = Level::kFp32,
             bool is_rounded = false) {
    clear(start, start + bytes);
    if (bytes > 0) map_[start] = {start + bytes, tensor, from, level, is_rounded};
  }

  // Do these bytes hold bytes [from, from + bytes) of that tensor? They may lie in several pieces.
  bool holds(std::int64_t start, std::int64_t bytes, TensorId tensor, std::int64_t from,
             Level level = Level::kFp32) const {
    std::int64_t at = start;
    while (at < start + bytes) {
      auto it = map_.upper_bound(at);
      if (it == map_.begin()) return false;
      --it;
      const Content& c = it->second;
      const bool is_same = c.tensor == tensor && c.level == level;
      if (at >= c.end || !is_same || c.from + (at - it->first) != from + (at - start)) return false;
      at = c.end;
    }
    return true;
  }

  // What lies at this byte, and where it begins; null: nothing known.
  const Content* find(std::int64_t at, std::int64_t& begin) const {
    auto it = map_.upper_bound(at);
    if (it == map_.begin()) return nullptr;
    --it;
    if (at >= it->second.end) return nullptr;
    begin = it->first;
    return &it->second;
  }

  // Renames what lies there, part by part: the pieces of a concatenation become the whole.
  void rename(std::int64_t start, std::int64_t bytes, TensorId tensor, std::int64_t from) {
    write(start, bytes, tensor, from);
  }

 private:
  void split(std::int64_t at) {
    auto it = map_.upper_bound(at);
    if (it == map_.begin()) return;
    --it;
    if (it->first == at || it->second.end <= at) return;
    Content tail = it->second;
    tail.from += at - it->first;
    it->second.end = at;
    map_[at] = tail;
  }
  void clear(std::int64_t start, std::int64_t end) {
    split(start);
    split(end);
    map_.erase(map_.lower_bound(start), map_.lower_bound(end));
  }
  std::map<std::int64_t, Content> map_;
};

class Checker {
 public:
  Checker(const Plan& plan, const Graph& graph, const Costs& costs) : plan_(plan), graph_(graph), costs_(costs) {
    views_.resize(graph.tensors.size());
    for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) views_[i] = {TensorId{i}, 0};
    for (const Node& node : graph.nodes) {
      const auto offset = node.op->view_offset != nullptr ? node.op->view_offset(call_of(graph, node)) : std::nullopt;
      if (!offset) continue;
      const auto& [root, base] = views_[node.inputs[0].index];
      views_[node.outputs[0].index] = {root, base + *offset};
    }
    count_changes();
  }

  std::optional<std::string> run() {
    check_blocks();
    check_space();
    if (!error_) load_leaves();
    for (Tick t = 0; t < plan_.instructions.size() && !error_; ++t) step(t);
    if (open_spills_ + open_fetches_ > 0) fail("a transfer is not waited for");
    if (!error_) check_everything_ran();
    if (!error_) check_results();
    return error_;
  }

 private:
  template <class... Args>
  void fail(fmt::format_string<Args...> text, Args&&... args) {
    if (!error_) error_ = fmt::format(text, std::forward<Args>(args)...);
  }

  void check_blocks() {
    for (std::size_t i = 0; i < plan_.blocks.size(); ++i) {
      const Block& b = plan_.blocks[i];
      if (b.bytes < 0 || b.offset < 0 || b.offset + b.bytes > plan_.peak_bytes)
        fail("block {} lies outside of the arena", i);
      if (b.offset % 64 != 0) fail("block {} is not aligned", i);
      if (b.lower >= b.upper) fail("block {} has no life", i);
      const bool must_stay = b.kind == BlockKind::kState;
      if (must_stay && (b.lower != 0 || b.upper < plan_.instructions.size())) fail("state block {} ends early", i);
    }
  }

  // Blocks that live at the same time do not overlap: a sweep over ticks with the live blocks ordered by offset.
  void check_space() {
    std::multimap<Tick, std::size_t> births;
    std::multimap<Tick, std::size_t> deaths;
    for (std::size_t i = 0; i < plan_.blocks.size(); ++i) {
      if (plan_.blocks[i].bytes == 0) continue;
      births.emplace(plan_.blocks[i].lower, i);
      deaths.emplace(plan_.blocks[i].upper, i);
    }
    std::map<std::int64_t, std::size_t> live;  // offset -> block
    auto death = deaths.begin();
    for (const auto& [tick, i] : births) {
      for (; death != deaths.end() && death->first <= tick; ++death) {
        const auto at = live.find(plan_.blocks[death->second].offset);
        if (at != live.end() && at->second == death->second) live.erase(at);
      }
      const Block& b = plan_.blocks[i];
      const auto above = live.lower_bound(b.offset);
      const bool hits_above = above != live.end() && above->first < b.offset + b.bytes;
      const bool hits_below = above != live.begin() && [&] {
        const Block& below = plan_.blocks[std::prev(above)->second];
        return below.offset + below.bytes > b.offset;
      }();
      if (hits_above || hits_below) {
        fail("blocks {} and {} overlap", i, hits_above ? above->second : std::prev(above)->second);
        return;
      }
      live[b.offset] = i;
    }
  }

  std::int64_t address(const Operand& o) const { return plan_.blocks[o.block.index].offset + o.offset; }

  bool is_inside(const Operand& o, std::int64_t bytes, Tick t) const {
    if (o.block.index >= plan_.blocks.size()) return false;
    const Block& b = plan_.blocks[o.block.index];
    return o.offset >= 0 && o.offset + bytes <= b.bytes && b.lower <= t && t < b.upper;
  }

  void load_leaves() {
    for (const auto& [id, home] : plan_.homes) {
      const Tensor& t = graph_.at(id);
      if (t.producer) continue;
      if (!is_inside(home, t.type.bytes(), 0)) return fail("'{}' has no home", t.name);
      memory_.write(address(home), t.type.bytes(), id);
    }
    for (std::uint32_t s = 0; s < plan_.slot_tensors.size(); ++s) load_weight(s);
  }

  // What no node makes lies in its slot before the step. It is the same after it: nothing may change a copy.
  void load_weight(std::uint32_t s) {
    const TensorId id = plan_.slot_tensors[s];
    if (id.index >= graph_.tensors.size() || s >= plan_.slots.size()) return fail("slot {} is of nothing known", s);
    const Tensor& t = graph_.at(id);
    if (t.producer) return;
    if (!is_state(t.role) || plan_.slots[s] != t.type.bytes()) return fail("slot {} cannot hold '{}'", s, t.name);
    slots_[s] = {.tensor = id, .is_there = true};
    for (const Node& node : graph_.nodes) {
      for (const std::uint8_t m : node.op->mutates) {
        const bool is_changed = m < node.inputs.size() && node.inputs[m] && views_[node.inputs[m].index].first == id;
        if (is_changed) return fail("'{}' changes '{}', of which only a copy is here", node.name, t.name);
      }
    }
  }

  void step(Tick t) {
    const Instruction& in = plan_.instructions[t];
    if (in.action >= Action::kSpillBegin) return transfer(t, in);
    if (in.action >= Action::kEncode) return convert(t, in);
    const Node& node = graph_.at(in.node);
    ran_[in.node] = true;
    if (open_fetches_ + open_spills_ > 0) check_untouched(t, in);
    if (in.action == Action::kRecompute && node.op->side_effects())
      fail("'{}' is repeated but has side effects", node.name);
    if (in.inputs.size() != node.inputs.size() || in.outputs.size() != node.outputs.size()) {
      return fail("instruction {} does not have the operands of '{}'", t, node.name);
    }
    check_reads(t, in, node);
    check_versions(in, node);
    check_workspace(t, in, node);
    write_outputs(t, in, node);
  }

  bool is_rounded(std::int64_t at) const {
    std::int64_t begin = 0;
    const Content* content = memory_.find(at, begin);
    return content != nullptr && content->is_rounded;
  }

  // Floats to fewer bits and back: whole tensors that forward made, none of them twice.
  void convert(Tick t, const Instruction& in) {
    const bool is_encode = in.action == Action::kEncode;
    if (in.inputs.size() != 1 || in.outputs.size() != 1 || !in.tensor || in.level == Level::kFp32)
      return fail("codec {} has no operands", t);
    const Tensor& tensor = graph_.at(in.tensor);
    const bool is_activation = tensor.producer && graph_.at(tensor.producer).phase == Phase::kForward;
    if (!is_activation || tensor.type.dtype != DType::kF32 || in.elements != tensor.type.elements())
      return fail("codec {} cannot take '{}'", t, tensor.name);
    const std::int64_t plain = tensor.type.bytes();
    const std::int64_t encoded = precision::encoded_bytes(in.level, tensor.type.elements());
    const std::int64_t from = is_encode ? plain : encoded;
    const std::int64_t to = is_encode ? encoded : plain;
    if (!is_inside(in.inputs[0], from, t) || !is_inside(in.outputs[0], to, t))
      return fail("codec {} is outside of its blocks' lives", t);
    const std::int64_t source = address(in.inputs[0]);
    const std::int64_t target = address(in.outputs[0]);
    if (source < target + to && target < source + from) return fail("codec {} writes over what it reads", t);
    if (open_fetches_ + open_spills_ > 0) check_untouched(t, target, target + to);
    if (is_encode && !has(in.inputs[0], in.tensor)) return fail("codec {} finds no '{}'", t, tensor.name);
    if (is_encode && is_rounded(source)) return fail("'{}' is encoded twice", tensor.name);
    if (!is_encode && !memory_.holds(source, from, in.tensor, 0, in.level))
      return fail("codec {} finds no '{}' in {}", t, tensor.name, precision::name(in.level));
    memory_.write(target, to, in.tensor, 0, is_encode ? in.level : Level::kFp32, true);
  }

  // What lies outside of the arena, and what is on its way. Between begin and wait nobody may touch the bytes: the
  // lifetimes of blocks see to that for other blocks, and this for the same one.
  struct Slot {
    TensorId tensor;
    Operand operand;
    Level level = Level::kFp32;
    bool is_rounded = false;
    bool is_leaving = false;
    bool is_coming = false;
    bool is_there = false;
  };

  void transfer(Tick t, const Instruction& in) {
    const bool is_out = in.action == Action::kSpillBegin || in.action == Action::kSpillWait;
    const std::vector<Operand>& operands = is_out ? in.inputs : in.outputs;
    if (operands.size() != 1 || in.slot.index >= plan_.slots.size() || plan_.slot_tensors.size() != plan_.slots.size())
      return fail("transfer {} has no place", t);
    const Operand& o = operands[0];
    const std::int64_t bytes = plan_.slots[in.slot.index];
    if (!is_inside(o, bytes, t)) return fail("transfer {} is outside of its block's life", t);
    Slot& slot = slots_[in.slot.index];
    switch (in.action) {
      case Action::kSpillBegin: {
        const TensorId tensor = plan_.slot_tensors.at(in.slot.index);
        const auto level = form_of(o, tensor, bytes);
        if (!level) return fail("spill {} does not send the whole of '{}'", t, graph_.at(tensor).name);
        if (slot.is_leaving || slot.is_there || slot.is_coming) return fail("slot {} is taken", in.slot.index);
        slot = {
            .tensor = tensor, .operand = o, .level = *level, .is_rounded = is_rounded(address(o)), .is_leaving = true};
        ++open_spills_;
        break;
      }
      case Action::kSpillWait:
        if (!slot.is_leaving || !(slot.operand == o)) return fail("instruction {} waits for no spill", t);
        if (form_of(o, slot.tensor, bytes) != slot.level) return fail("spill {} was overwritten on its way", t);
        slot.is_leaving = false;
        slot.is_there = true;
        --open_spills_;
        break;
      case Action::kFetchBegin:
        if (!slot.is_there || slot.is_coming) return fail("fetch {} finds nothing in its slot", t);
        slot.operand = o;
        slot.is_coming = true;
        ++open_fetches_;
        memory_.write(address(o), bytes, {});
        break;
      default:
        if (!slot.is_coming || !(slot.operand == o)) return fail("instruction {} waits for no fetch", t);
        slot.is_coming = false;
        --open_fetches_;
        memory_.write(address(o), bytes, slot.tensor, 0, slot.level, slot.is_rounded);
    }
  }

  // In which form the whole of a tensor lies there; none: it does not.
  std::optional<Level> form_of(const Operand& o, TensorId id, std::int64_t bytes) {
    if (bytes == graph_.at(id).type.bytes() && has(o, id)) return Level::kFp32;
    std::int64_t begin = 0;
    const Content* content = memory_.find(address(o), begin);
    if (content == nullptr || content->level == Level::kFp32) return std::nullopt;
    const bool is_whole = bytes == precision::encoded_bytes(content->level, graph_.at(id).type.elements()) &&
                          memory_.holds(address(o), bytes, id, 0, content->level);
    return is_whole ? std::optional(content->level) : std::nullopt;
  }

  // The whole of a tensor, be it that it lies in parts, or is a part.
  bool has(const Operand& o, TensorId id) {
    const std::int64_t bytes = graph_.at(id).type.bytes();
    return memory_.holds(address(o), bytes, id, 0) || gather(o, id) || lies_in_whole(address(o), bytes, id, 0);
  }

  void check_untouched(Tick t, const Instruction& in) {
    for (std::size_t i = 0; i < in.outputs.size(); ++i) {
      if (!in.outputs[i].block) continue;
      const std::int64_t from = address(in.outputs[i]);
      check_untouched(t, from, from + graph_.at(graph_.at(in.node).outputs[i]).type.bytes());
    }
  }

  void check_untouched(Tick t, std::int64_t from, std::int64_t to) {
    for (const auto& [index, slot] : slots_) {
      if (!slot.is_leaving && !slot.is_coming) continue;
      const std::int64_t start = address(slot.operand);
      const std::int64_t end = start + plan_.slots[index];
      if (from < end && start < to) return fail("instruction {} writes over bytes that are on their way", t);
    }
  }

  // How often the program has changed each input before each node.
  void count_changes() {
    std::map<TensorId, int> changes;
    versions_.resize(graph_.nodes.size());
    for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      for (const TensorId id : node.inputs) versions_[n].push_back(id ? changes[views_[id.index].first] : 0);
      for (const std::uint8_t m : node.op->mutates) {
        if (m < node.inputs.size() && node.inputs[m]) ++changes[views_[node.inputs[m].index].first];
      }
    }
  }

  // A node sees state as the program does: not changed sooner, not later, however often it runs.
  void check_versions(const Instruction& in, const Node& node) {
    for (std::size_t i = 0; i < node.inputs.size() && !error_; ++i) {
      if (!node.inputs[i] || changes_[views_[node.inputs[i].index].first] == versions_[in.node.index][i]) continue;
      fail("'{}' reads '{}' when it was changed another number of times than in the program", node.name,
           graph_.at(node.inputs[i]).name);
    }
    for (const std::uint8_t m : node.op->mutates) {
      if (m < node.inputs.size() && node.inputs[m]) ++changes_[views_[node.inputs[m].index].first];
    }
  }

  void check_reads(Tick t, const Instruction& in, const Node& node) {
    for (std::size_t i = 0; i < node.inputs.size() && !error_; ++i) {
      if (!node.inputs[i]) continue;
      const Tensor& tensor = graph_.at(node.inputs[i]);
      const std::int64_t bytes = tensor.type.bytes();
      if (!is_inside(in.inputs[i], bytes, t))
        return fail("'{}' reads '{}' outside of its block's life", node.name, tensor.name);
      const auto& [root, from] = views_[node.inputs[i].index];
      const std::int64_t at = address(in.inputs[i]);
      if (!memory_.holds(at, bytes, root, from) && !gather(in.inputs[i], node.inputs[i]) &&
          !lies_in_whole(at, bytes, root, from)) {
        return fail("'{}' at tick {} reads '{}', but other bytes lie there", node.name, t, tensor.name);
      }
      const bool is_forward = in.action == Action::kRun && node.phase == Phase::kForward;
      if (is_forward && !plan_.flows && is_rounded(at))
        fail("'{}' computes with a rounded '{}'", node.name, tensor.name);
    }
  }

  // A concatenation whose parts were written in their places never runs: the whole is there when all parts are.
  bool gather(const Operand& at, TensorId id) {
    const auto& [root, from] = views_[id.index];
    const Tensor& whole = graph_.at(root);
    if (!whole.producer) return false;
    const Node& node = graph_.at(whole.producer);
    if (node.op->part_offset == nullptr) return false;
    const OpCall call = call_of(graph_, node);
    const std::int64_t start = address(at) - from;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const auto offset = node.op->part_offset(call, i);
      if (!offset) return false;
      const auto& [part, part_from] = views_[node.inputs[i].index];
      const Operand part_at{.block = at.block, .offset = start + *offset - plan_.blocks[at.block.index].offset};
      const std::int64_t bytes = graph_.at(node.inputs[i]).type.bytes();
      const bool is_there = memory_.holds(start + *offset, bytes, part, part_from) ||
                            memory_.holds(start + *offset, bytes, root, *offset) || gather(part_at, node.inputs[i]);
      if (!is_there) return false;
    }
    memory_.rename(start, whole.type.bytes(), root, 0);
    ran_[whole.producer] = true;
    return memory_.holds(address(at), graph_.at(id).type.bytes(), root, from);
  }

  // A part can still be read where it lies in a concatenation that was gathered meanwhile.
  bool lies_in_whole(std::int64_t at, std::int64_t bytes, TensorId root, std::int64_t from) const {
    std::int64_t begin = 0;
    const Content* content = memory_.find(at, begin);
    if (content == nullptr || !content->tensor || !graph_.at(content->tensor).producer) return false;
    const Node& node = graph_.at(graph_.at(content->tensor).producer);
    if (node.op->part_offset == nullptr) return false;
    const OpCall call = call_of(graph_, node);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const auto offset = node.op->part_offset(call, i);
      if (!offset || node.inputs[i] != root) continue;
      if (memory_.holds(at, bytes, content->tensor, *offset + from)) return true;
    }
    return false;
  }

  void check_workspace(Tick t, const Instruction& in, const Node& node) {
    const std::int64_t need = in.node.index < costs_.workspace.size() ? costs_.workspace[in.node.index] : 0;
    if (need == 0) return;
    if (!in.workspace.block || !is_inside(in.workspace, need, t)) return fail("'{}' has no workspace", node.name);
    memory_.write(address(in.workspace), need, {});
  }

  void write_outputs(Tick t, const Instruction& in, const Node& node) {
    for (std::size_t i = 0; i < node.outputs.size() && !error_; ++i) {
      const Tensor& tensor = graph_.at(node.outputs[i]);
      const bool is_optional = i < 32 && (node.op->optional_outputs >> i & 1U) != 0;  // one bit each
      if (!in.outputs[i].block) {
        if (!is_optional) fail("'{}' has nowhere to write '{}'", node.name, tensor.name);
        continue;
      }
      if (!is_inside(in.outputs[i], tensor.type.bytes(), t))
        return fail("'{}' writes outside of a block's life", node.name);
      check_overwritten_inputs(in, node, i);
      memory_.write(address(in.outputs[i]), tensor.type.bytes(), node.outputs[i]);
    }
  }

  // An output may lie on an input only where the op allows just that pair.
  void check_overwritten_inputs(const Instruction& in, const Node& node, std::size_t o) {
    const std::int64_t start = address(in.outputs[o]);
    const std::int64_t end = start + graph_.at(node.outputs[o]).type.bytes();
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i]) continue;
      const std::int64_t from = address(in.inputs[i]);
      const std::int64_t to = from + graph_.at(node.inputs[i]).type.bytes();
      if (to <= start || end <= from) continue;
      bool is_allowed = false;
      for (const InOut& pair : node.op->in_place) is_allowed |= pair.input == i && pair.output == o && from == start;
      if (!is_allowed) fail("'{}' overwrites its input {} with its output {}", node.name, i, o);
    }
  }

  void check_everything_ran() {
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      const bool is_window = !node.outputs.empty() && views_[node.outputs[0].index].first != node.outputs[0];
      if (!ran_.contains(NodeId{i}) && !is_window && node.op->part_offset == nullptr)
        fail("'{}' never runs", node.name);
    }
  }

  void check_results() {
    for (const auto& result : graph_.outputs) {
      const std::string& label = result.first;
      const TensorId id = result.second;
      const auto home =
          std::find_if(plan_.homes.begin(), plan_.homes.end(), [id](const auto& h) { return h.first == id; });
      if (home == plan_.homes.end()) return fail("result '{}' has no home", label);
      const auto& [root, from] = views_[id.index];
      const auto last = static_cast<Tick>(plan_.instructions.size()) - 1;
      if (!is_inside(home->second, graph_.at(id).type.bytes(), last)) return fail("result '{}' ends early", label);
      if (!memory_.holds(address(home->second), graph_.at(id).type.bytes(), root, from) && !gather(home->second, id)) {
        return fail("result '{}' is overwritten before the step ends", label);
      }
    }
    for (const auto& [id, home] : plan_.homes) {
      const Tensor& t = graph_.at(id);
      if (is_state(t.role) && !memory_.holds(address(home), t.type.bytes(), id, 0)) {
        return fail("state '{}' is overwritten", t.name);
      }
    }
  }

  const Plan& plan_;
  const Graph& graph_;
  const Costs& costs_;
  std::vector<std::pair<TensorId, std::int64_t>> views_;
  Memory memory_;
  std::map<std::uint32_t, Slot> slots_;
  int open_spills_ = 0;
  int open_fetches_ = 0;
  std::map<NodeId, bool> ran_;
  std::vector<std::vector<int>> versions_;  // per node and input
  std::map<TensorId, int> changes_;         // so far
  std::optional<std::string> error_;
};

}  // namespace

std::optional<std::string> validate(const Plan& plan, const Graph& graph, const Costs& costs) {
  return Checker(plan, graph, costs).run();
}

}  // namespace neap
