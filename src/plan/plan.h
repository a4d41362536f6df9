// The plan: what runs in which order, and where every byte lies. Immutable; swapped only between steps.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "core/id.h"
#include "graph/graph.h"
#include "plan/views.h"
#include "precision/level.h"

namespace neap {

using BlockId = Id<struct BlockTag>;
// Index of an instruction; the step's clock.
using Tick = std::uint32_t;

enum class BlockKind : std::uint8_t { kState, kInput, kSaved, kTransient, kGradient, kWorkspace };
std::string_view name(BlockKind kind);

// A piece of the arena that belongs to one owner (or to a chain of in-place successors) from tick `lower` up to, but
// not at, tick `upper`.
struct Block {
  BlockKind kind = BlockKind::kTransient;
  TensorId tensor;  // the first that lives in it; none for a workspace
  std::int64_t bytes = 0;
  Tick lower = 0;
  Tick upper = 0;
  std::int64_t offset = 0;
  precision::Level level = precision::Level::kFp32;  // in which the tensor lies in it
  friend bool operator==(const Block&, const Block&) = default;
};

// Where one tensor of a call lies; no block: not given, or not wanted.
struct Operand {
  BlockId block;
  std::int64_t offset = 0;  // inside the block
  friend bool operator==(const Operand&, const Operand&) = default;
};

// A call runs a node's kernel. Encoding stores a tensor in fewer bits, decoding brings floats back. Transfers run
// beside the calls, first in, first out; a wait holds the calls up until its transfer is done.
enum class Action : std::uint8_t {
  kRun,
  kRecompute,
  kEncode,
  kDecode,
  kSpillBegin,
  kSpillWait,
  kFetchBegin,
  kFetchWait
};
inline bool is_call(Action action) { return action <= Action::kRecompute; }
inline bool is_codec(Action action) { return action == Action::kEncode || action == Action::kDecode; }
inline bool is_transfer(Action action) { return action >= Action::kSpillBegin; }

std::string_view name(Action action);

using SlotId = Id<struct SlotTag>;

struct Instruction {
  Action action = Action::kRun;
  NodeId node;                   // of a call; else the one that made the tensor, or for which a weight comes in
  std::vector<Operand> inputs;   // of a spill: what goes out
  std::vector<Operand> outputs;  // of a fetch: where it comes in
  Operand workspace;
  SlotId slot;                                       // of a transfer
  TensorId tensor;                                   // of a codec
  std::int64_t elements = 0;                         // the same
  precision::Level level = precision::Level::kFp32;  // the same
  friend bool operator==(const Instruction&, const Instruction&) = default;
};

struct Plan {
  std::vector<Block> blocks;
  std::vector<Instruction> instructions;
  std::vector<std::int64_t> slots;                  // bytes of each place outside of the arena that transfers use
  std::vector<TensorId> slot_tensors;               // what each is for; a weight lies there before the step
  std::vector<std::pair<TensorId, Operand>> homes;  // state, inputs and results: where the host finds them
  std::int64_t state_bytes = 0;
  std::int64_t peak_bytes = 0;         // state included: the highest byte that any block covers
  std::int64_t lower_bound_bytes = 0;  // state plus the most bytes alive at one tick
  bool flows = false;                  // forward computes with what was rounded
  friend bool operator==(const Plan&, const Plan&) = default;
};

// What becomes of a forward tensor that backward reads. A weight that is spilled waits outside from the start: it comes
// in before the calls that read it, and its place is free behind them.
enum class Residency : std::uint8_t { kKeep, kRecompute, kSpill };

// How fast transfers are, as far as it is known; 0: as fast as one likes.
struct Link {
  double write_bytes_per_ms = 0;
  double read_bytes_per_ms = 0;
  double lead = 1;               // transfers are placed as if they took this many times as long: room for delays
  std::int64_t room_bytes = -1;  // outside of the arena; negative: there is enough
  double host_ms_per_byte = 0;   // that calls lose to each byte moved: copies and checksums on the cores they run on
  bool is_ahead = true;  // fetches begin before they are waited for, spills end behind it; else calls stand still
  friend bool operator==(const Link&, const Link&) = default;
};

// In how many bits tensors are stored between their last use in forward and their first in backward.
struct StoredLevels {
  std::vector<precision::Level> of;  // one a tensor; shorter: exact
  // Tensors from which more is made again than the lossless forms are stored exactly, unless this is set.
  bool may_feed_recomputation = false;
  bool flow = false;  // forward computes with the rounded tensor, too
  // Exactly these are rounded, in every plan, and nobody may choose: so they are kept, and nothing is made again from
  // them but the lossless forms.
  bool is_settled = false;
  friend bool operator==(const StoredLevels&, const StoredLevels&) = default;
};

// Everything that a policy can say.
struct Decisions {
  std::vector<Residency> residency;  // one a tensor; shorter: kKeep
  // Not empty: these runs, in this order, instead of the program's; `residency` then only spills. Every forward
  // and backward node that is no view is in it; one that is in it again is recomputed then, so it has no side effects.
  // A read takes the latest run's result, which is gone behind the last read before its producer runs again. Updates
  // that are not in it run as early as they can.
  std::vector<NodeId> order;
  // Bytes that may be on their way at one time, beside the transfer that is waited for. 0: each is waited for at once.
  std::int64_t flight_bytes = 0;
  // With spills: state changes as early as it can, which frees gradients, instead of behind the last fetch, which lets
  // a step be run again when spilled bytes are lost.
  bool early_updates = false;
  // With spills, above 0: tensors leave for every wait of more calls than this between two uses, also within forward or
  // backward, and of gradients. A step whose write fails in backward cannot be run again once state has changed.
  std::uint32_t every_wait_above = 0;
  Link link;  // by which transfers are placed
  StoredLevels levels;
  friend bool operator==(const Decisions&, const Decisions&) = default;
};

// Nanoseconds an element, by level.
struct CodecCosts {
  std::array<double, precision::kLevels> encode{};
  std::array<double, precision::kLevels> decode{};
};

// Per node: what its prepared kernel books, and how long it takes (0 while nobody has measured).
struct Costs {
  std::vector<std::int64_t> workspace;
  std::vector<double> ms;
  CodecCosts codec;
  double bytes_per_ms = 0;  // of memory: as times were guessed with it, then its ceiling; 0: nobody said
  bool first_fit = false;   // blocks are placed in turn where they first fit, without a search for a lower packing
};
double codec_ms(const CodecCosts& costs, Action action, precision::Level level, std::int64_t elements);

// Why a plan does not fit.
struct Infeasible {
  std::int64_t needed_bytes = 0;
  std::int64_t budget_bytes = 0;
  NodeId at;  // the node at which the most is alive
  std::string text;
};

inline constexpr std::int64_t kNoBudget = INT64_MAX;

// Where another plan put its state, by name. A plan made with it finds the same state in the same arena; state that is
// not in it (constants of its own) lies above, and must be written again before each run.
struct StateLayout {
  std::map<std::string, std::int64_t> offsets;
  std::int64_t bytes = 0;
};
StateLayout layout_of(const Plan& plan, const Graph& graph);

// Pure and deterministic. The graph has static shapes.
std::variant<Plan, Infeasible> make_plan(const Graph& graph, const Costs& costs, const Decisions& decisions,
                                         std::int64_t budget = kNoBudget, const StateLayout* layout = nullptr);

struct Footprint {
  std::int64_t bytes = 0;   // Plan::lower_bound_bytes of the plan, which packing nearly always reaches
  std::int64_t excess = 0;  // sum over the instructions of the bytes above the budget
  double ms = 0;
  std::vector<TensorId> fullest;  // that nodes made and that are alive when the most bytes are
};

// What a plan would take, without packing it: some twenty times faster. `views` are find_views(graph).
Footprint footprint(const Graph& graph, const std::vector<Window>& views, const Costs& costs,
                    const Decisions& decisions, std::int64_t budget = kNoBudget);

// Keeps everything that backward reads, in its lossless form: a tensor that one cheap pass makes again from tensors
// that are kept anyway takes no bytes of its own.
Decisions store_all(const Graph& graph);

// One line a block and an instruction.
std::string print(const Plan& plan, const Graph& graph);

}  // namespace neap
