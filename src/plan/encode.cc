#include "plan/encode.h"

#include <algorithm>
#include <iterator>

#include "graph/op.h"
#include "neap/error.h"

namespace neap {
namespace {

using precision::Level;

// Nearer to each other, forward's last use and backward's first leave the floats where they are: both forms together
// would take more.
constexpr std::size_t kNear = 2;
// Uses in backward that are further apart decode twice: the floats would lie idle in between.
constexpr std::size_t kFar = 16;

class Encoder {
 public:
  Encoder(const Graph& graph, const Decisions& decisions, Schedule& schedule)
      : graph_(graph),
        levels_(decisions.levels),
        s_(schedule),
        uses_(schedule.instances.size()),
        before_(schedule.calls.size()),
        behind_(schedule.calls.size()),
        is_exact_(graph.tensors.size()) {}

  void run() {
    find_uses();
    if (!levels_.may_feed_recomputation) find_exact();
    const std::size_t instances = s_.instances.size();
    for (std::size_t i = 0; i < instances; ++i) {
      if (level_of(s_.instances[i].root) != Level::kFp32) encode(static_cast<std::int32_t>(i));
    }
    insert_calls(s_, before_, behind_);
    put_off_changes();
  }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;

  struct Uses {
    std::size_t writer = kNone;
    std::vector<std::size_t> reads;  // of calls, once each
    std::vector<std::size_t> moves;  // transfers
  };

  Level level_of(TensorId id) const {
    if (id.index >= levels_.of.size() || is_exact_[id.index]) return Level::kFp32;
    return levels_.of[id.index];
  }

  void find_uses() {
    for (std::size_t c = 0; c < s_.calls.size(); ++c) {
      const Call& call = s_.calls[c];
      for (const std::int32_t i : call.inputs) {
        if (i == kAbsent) continue;
        auto& list = is_call(call.action) ? uses_of(i).reads : uses_of(i).moves;
        if (list.empty() || list.back() != c) list.push_back(c);
      }
      for (const std::int32_t i : call.outputs) {
        if (i == kAbsent) continue;
        if (is_call(call.action)) uses_of(i).writer = c;
        if (is_transfer(call.action)) uses_of(i).moves.push_back(c);
      }
    }
  }

  Uses& uses_of(std::int32_t i) { return uses_[static_cast<std::size_t>(i)]; }

  // Tensors from which anything is made again besides the lossless forms, which are a part of how a tensor is stored.
  void find_exact() {
    const Decisions lossless = store_all(graph_);
    std::vector<bool> feeds(s_.instances.size());
    for (std::size_t c = s_.calls.size(); c-- > 0;) {
      const Call& call = s_.calls[c];
      if (call.action != Action::kRecompute) continue;
      const auto& outputs = graph_.at(call.node).outputs;
      const bool is_derived = std::any_of(outputs.begin(), outputs.end(), [&](TensorId id) {
        return lossless.residency[id.index] == Residency::kRecompute;
      });
      const bool passes_on = std::any_of(call.outputs.begin(), call.outputs.end(), [&](std::int32_t i) {
        return i != kAbsent && feeds[static_cast<std::size_t>(i)];
      });
      if (is_derived && !passes_on) continue;
      for (const std::int32_t i : call.inputs) {
        if (i == kAbsent) continue;
        feeds[static_cast<std::size_t>(i)] = true;
        is_exact_[s_.instances[static_cast<std::size_t>(i)].root.index] = true;
      }
    }
  }

  void encode(std::int32_t i) {
    const Uses& uses = uses_of(i);
    if (uses.writer == kNone) {
      if (!uses.moves.empty()) decode_fetched(i);
      return;
    }
    if (s_.calls[uses.writer].action != Action::kRun) return;  // made again: it is there when it is needed
    std::size_t last = uses.writer;
    for (const std::size_t c : uses.reads) last = is_late(graph_, s_.calls[c]) ? last : c;
    std::vector<std::size_t> late;
    for (const std::size_t c : uses.reads) {
      if (c > last) late.push_back(c);
    }
    const bool is_spilled = !uses.moves.empty();
    const bool must = is_spilled || levels_.flow || levels_.is_settled;
    if ((late.empty() && !is_spilled) || (!must && late.front() - last <= kNear)) return;
    const std::int32_t encoded = new_instance(i, level_of(root(i)));
    (levels_.flow ? behind_[uses.writer] : behind_[last]).push_back(codec(Action::kEncode, i, encoded));
    if (levels_.flow) flow(i, encoded, uses, last);
    decode(encoded, i, late);
    for (const std::size_t c : uses.moves) move(s_.calls[c].inputs, s_.calls[c], i, encoded);
  }

  // Forward reads what was rounded.
  void flow(std::int32_t i, std::int32_t encoded, const Uses& uses, std::size_t last) {
    if (last == uses.writer) return;
    const std::int32_t rounded = new_instance(i, Level::kFp32);
    behind_[uses.writer].push_back(codec(Action::kDecode, encoded, rounded));
    for (const std::size_t c : uses.reads) {
      if (c <= last) replace(s_.calls[c].inputs, i, rounded);
    }
  }

  void decode_fetched(std::int32_t i) {
    const std::int32_t encoded = new_instance(i, level_of(root(i)));
    for (const std::size_t c : uses_of(i).moves) move(s_.calls[c].outputs, s_.calls[c], i, encoded);
    decode(encoded, i, uses_of(i).reads);
  }

  void move(std::vector<std::int32_t>& operands, const Call& call, std::int32_t from, std::int32_t to) {
    replace(operands, from, to);
    const TensorType& type = graph_.at(root(from)).type;
    s_.slots[call.slot] = precision::encoded_bytes(level_of(root(from)), type.elements());
  }

  void decode(std::int32_t encoded, std::int32_t from, const std::vector<std::size_t>& reads) {
    std::int32_t decoded = kAbsent;
    for (std::size_t k = 0; k < reads.size(); ++k) {
      if (k == 0 || reads[k] - reads[k - 1] > kFar) {
        decoded = new_instance(from, Level::kFp32);
        before_[reads[k]].push_back(codec(Action::kDecode, encoded, decoded));
      }
      replace(s_.calls[reads[k]].inputs, from, decoded);
    }
  }

  static void replace(std::vector<std::int32_t>& operands, std::int32_t from, std::int32_t to) {
    std::replace(operands.begin(), operands.end(), from, to);
  }

  TensorId root(std::int32_t i) const { return s_.instances[static_cast<std::size_t>(i)].root; }

  std::int32_t new_instance(std::int32_t of, Level level) {
    s_.instances.push_back({.root = root(of), .level = level});
    return static_cast<std::int32_t>(s_.instances.size() - 1);
  }

  Call codec(Action action, std::int32_t from, std::int32_t to) const {
    return {.node = graph_.at(root(from)).producer, .action = action, .inputs = {from}, .outputs = {to}};
  }

  // A step in which something cannot be encoded is run again from its inputs: what forward changes is changed behind
  // the last encoding, wherever nobody reads it before.
  void put_off_changes() {
    std::size_t end = 0;
    for (std::size_t c = 0; c < s_.calls.size(); ++c) end = s_.calls[c].action == Action::kEncode ? c + 1 : end;
    std::vector<Call> calls;
    std::vector<Call> late;
    for (std::size_t c = 0; c < s_.calls.size(); ++c) {
      if (c == end) calls.insert(calls.end(), std::move_iterator(late.begin()), std::move_iterator(late.end()));
      const bool may_wait = c < end && s_.calls[c].changes_state && !is_touched(c, end);
      (may_wait ? late : calls).push_back(std::move(s_.calls[c]));
    }
    if (end == s_.calls.size())
      calls.insert(calls.end(), std::move_iterator(late.begin()), std::move_iterator(late.end()));
    s_.calls = std::move(calls);
  }

  // Whether a call in (c, end) uses what call c changes or writes.
  bool is_touched(std::size_t c, std::size_t end) const {
    std::vector<std::int32_t> own = s_.calls[c].outputs;
    for (const std::uint8_t m : graph_.at(s_.calls[c].node).op->mutates) {
      if (m < s_.calls[c].inputs.size()) own.push_back(s_.calls[c].inputs[m]);
    }
    for (std::size_t k = c + 1; k < end; ++k) {
      for (const std::int32_t i : s_.calls[k].inputs) {
        if (i != kAbsent && std::find(own.begin(), own.end(), i) != own.end()) return true;
      }
    }
    return false;
  }

  const Graph& graph_;
  const StoredLevels& levels_;
  Schedule& s_;
  std::vector<Uses> uses_;                 // per instance
  std::vector<std::vector<Call>> before_;  // per call: what goes in
  std::vector<std::vector<Call>> behind_;
  std::vector<bool> is_exact_;  // per tensor: whatever its level says
};

}  // namespace

bool can_encode(const Graph& graph, const std::vector<Window>& views, TensorId id) {
  return graph.at(id).type.dtype == DType::kF32 && can_spill(graph, views, id);
}

void encode_saved(const Graph& graph, const Decisions& decisions, Schedule& schedule) {
  const auto is_rounding = [](Level level) { return level != Level::kFp32; };
  if (std::ranges::any_of(decisions.levels.of, is_rounding)) Encoder(graph, decisions, schedule).run();
}

}  // namespace neap
