#include "runtime/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/bytes.h"
#include "graph/op.h"
#include "neap/error.h"
#include "runtime/host_view.h"

namespace neap {

Executor::Executor(const Program& program, const Plan& plan, Device& device, Arena& arena, SpillStore* store)
    : program_(program),
      plan_(plan),
      device_(device),
      store_(store),
      base_(arena.base()),
      is_host_memory_(device.kind() == DeviceKind::kCpu) {
  require(arena.bytes() >= plan.peak_bytes, "the arena holds the plan");
  launches_.reserve(plan.instructions.size());
  std::uint32_t encodings = 0;
  for (const Instruction& instruction : plan.instructions) {
    const bool changes = is_call(instruction.action) && program.graph.at(instruction.node).op->side_effects();
    if (changes) first_change_ = std::min(first_change_, launches_.size());
    if (instruction.action == Action::kEncode) last_encode_ = launches_.size();
    launches_.push_back(bind(instruction));
    if (instruction.action == Action::kEncode) launches_.back().slot = encodings++;
    if (instruction.action == Action::kFetchBegin) note_outside(launches_.back());
  }
  if (encodings > 0 && device.kind() == DeviceKind::kCuda) codec_ = precision::make_cuda_codec(encodings);
#ifdef NEAP_CHECKED
  checks_ = std::make_unique<Checks>(plan, program.graph, program.costs, is_host_memory_ ? base_ : nullptr);
#endif
  for (const auto& [id, home] : plan.homes) {
    homes_[id.index] = base_ + plan.blocks[home.block.index].offset + home.offset;
    peak_ = std::max(peak_, top_of(home, program.graph.at(id).type.bytes()));
  }
}

void Executor::note_outside(const Launch& fetch) {
  const TensorId id = plan_.slot_tensors[fetch.slot];
  if (!program_.graph.at(id).producer) outside_.try_emplace(id.index, Outside{fetch.slot, fetch.outputs[0]});
}

// Rounded up to the alignment: the rest of a block's last line belongs to it.
std::int64_t Executor::top_of(const Operand& operand, std::int64_t bytes) const {
  if (!operand.block) return 0;
  const std::int64_t alignment = plan_.slots.empty() ? kAlignment : kPage;
  return align_up(plan_.blocks[operand.block.index].offset + operand.offset + bytes, alignment);
}

Executor::Launch Executor::bind_transfer(const Instruction& instruction) const {
  const bool is_out = !instruction.inputs.empty();
  const Operand& o = is_out ? instruction.inputs[0] : instruction.outputs[0];
  Launch out{.node = instruction.node, .action = instruction.action, .slot = instruction.slot.index};
  out.outputs.push_back(base_ + plan_.blocks[o.block.index].offset + o.offset);
  out.top = top_of(o, plan_.slots[instruction.slot.index]);
  return out;
}

namespace {

// FNV-1a.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t out = 0xcbf29ce484222325U;
  for (const char c : text) out = (out ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return out;
}

}  // namespace

Executor::Launch Executor::bind_codec(const Instruction& instruction) const {
  const Operand& from = instruction.inputs[0];
  const Operand& to = instruction.outputs[0];
  const Tensor& tensor = program_.graph.at(instruction.tensor);
  const std::int64_t encoded = precision::encoded_bytes(instruction.level, instruction.elements);
  const bool is_encode = instruction.action == Action::kEncode;
  Launch out{.node = instruction.node,
             .action = instruction.action,
             .level = instruction.level,
             .elements = instruction.elements,
             .tensor = instruction.tensor,
             .key = hash_of(tensor.name)};
  out.inputs.push_back(base_ + plan_.blocks[from.block.index].offset + from.offset);
  out.outputs.push_back(base_ + plan_.blocks[to.block.index].offset + to.offset);
  out.top = std::max(top_of(from, is_encode ? tensor.type.bytes() : encoded),
                     top_of(to, is_encode ? encoded : tensor.type.bytes()));
  return out;
}

Executor::Launch Executor::bind(const Instruction& instruction) const {
  if (is_transfer(instruction.action)) return bind_transfer(instruction);
  if (is_codec(instruction.action)) return bind_codec(instruction);
  const Node& node = program_.graph.at(instruction.node);
  Launch out{.kernel = program_.kernels[instruction.node.index].get(), .node = instruction.node};
  const auto pointer = [&](const Operand& o) {
    return o.block ? base_ + plan_.blocks[o.block.index].offset + o.offset : nullptr;
  };
  for (std::size_t i = 0; i < instruction.inputs.size(); ++i) {
    const Operand& o = instruction.inputs[i];
    out.inputs.push_back(pointer(o));
    if (o.block) out.top = std::max(out.top, top_of(o, program_.graph.at(node.inputs[i]).type.bytes()));
  }
  for (std::size_t i = 0; i < instruction.outputs.size(); ++i) {
    const Operand& o = instruction.outputs[i];
    out.outputs.push_back(pointer(o));
    if (o.block) out.top = std::max(out.top, top_of(o, program_.graph.at(node.outputs[i]).type.bytes()));
  }
  out.workspace = pointer(instruction.workspace);
  out.top = std::max(out.top, top_of(instruction.workspace, program_.costs.workspace[instruction.node.index]));
  return out;
}

void Executor::launch(const Launch& l) {
  peak_ = std::max(peak_, l.top);
  if (is_transfer(l.action)) return transfer(l);
  if (is_codec(l.action)) return convert(l);
  if (l.kernel == nullptr) return;
  const bool is_tried = trial_ && trial_->launch == done_;
  if (is_tried && trial_->is_disturbed) try_out(l);
  const Buffers buffers = {.inputs = l.inputs, .outputs = l.outputs, .workspace = l.workspace};
  if (l.geared != nullptr) {
    l.geared->launch_in(gears_->gear_for(l.geared_call), buffers, device_.stream());
    device_.synchronise();
    gears_->has_run(l.geared_call);
  } else {
    l.kernel->launch(buffers, device_.stream());
  }
  if (is_tried) judge_trial(l);
  if (!watched_.empty()) look(l);
}

void Executor::judge_trial(const Launch& l) {
  const Trial& t = *trial_;
  const HostView output(device_, l.outputs[t.watched], t.watched_elements * 4, is_host_memory_);
  const HostView disturbed(device_, base_ + t.outputs[t.watched], t.is_disturbed ? t.watched_elements * 4 : 0,
                           is_host_memory_);
  trial_result_ = judge(t, disturbed.floats(), output.floats());
  trial_.reset();
}

void Executor::try_out(const Launch& l) {
  const Trial& t = *trial_;
  std::vector<const std::byte*> inputs = l.inputs;
  std::vector<std::byte*> outputs = l.outputs;
  inputs[t.input] = base_ + t.copy;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    if (outputs[o] != nullptr) outputs[o] = base_ + t.outputs[o];
  }
  const HostView tensor(device_, l.inputs[t.input], t.elements * 4, is_host_memory_);
  if (is_host_memory_) {
    disturb(tensor.floats(), t.elements, key_.step, reinterpret_cast<float*>(base_ + t.copy));
  } else {
    std::vector<float> noisy(static_cast<std::size_t>(t.elements));
    disturb(tensor.floats(), t.elements, key_.step, noisy.data());
    device_.write(base_ + t.copy, noisy.data(), t.elements * 4);
  }
  l.kernel->launch({.inputs = inputs, .outputs = outputs, .workspace = l.workspace}, device_.stream());
}

bool Executor::arrange_trial(TensorId tensor, bool is_disturbed) {
  trial_.reset();
  trial_result_.reset();
  if (base_ == nullptr) return false;
  trial_ = find_trial(plan_, program_.graph, tensor);
  if (trial_) trial_->is_disturbed = is_disturbed;
  return trial_.has_value();
}

void Executor::set_gears(GearSource* source, const std::vector<Tick>& calls) {
  for (Launch& l : launches_) l.geared = nullptr;
  gears_ = source;
  if (source == nullptr) return;
  for (std::uint32_t i = 0; i < calls.size(); ++i) {
    Launch& l = launches_.at(calls[i]);
    l.geared = dynamic_cast<GearedKernel*>(l.kernel);
    l.geared_call = i;
    require(l.geared != nullptr, "what is put into gear has gears");
  }
}

void Executor::watch(const std::vector<TensorId>& tensors) {
  watched_.clear();
  if (base_ == nullptr) return;
  std::unordered_map<std::uint32_t, std::size_t> makers;  // per node
  for (std::size_t i = launches_.size(); i-- > 0;) {
    if (launches_[i].action == Action::kRun) makers[launches_[i].node.index] = i;
  }
  for (const TensorId id : tensors) {
    const Node& node = program_.graph.at(program_.graph.at(id).producer);
    const auto maker = makers.find(program_.graph.at(id).producer.index);
    if (maker == makers.end()) continue;
    const auto output = std::find(node.outputs.begin(), node.outputs.end(), id) - node.outputs.begin();
    watched_.push_back({.tensor = id, .launch = maker->second, .output = static_cast<std::size_t>(output)});
  }
  std::stable_sort(watched_.begin(), watched_.end(),
                   [](const Watched& a, const Watched& b) { return a.launch < b.launch; });
}

void Executor::look(const Launch& l) {
  if (done_ <= watched_.front().launch) next_watched_ = 0;
  for (; next_watched_ < watched_.size() && watched_[next_watched_].launch <= done_; ++next_watched_) {
    Watched& w = watched_[next_watched_];
    if (w.launch != done_ || l.outputs[w.output] == nullptr) continue;
    const std::int64_t elements = program_.graph.at(w.tensor).type.elements();
    const HostView values(device_, l.outputs[w.output], elements * 4, is_host_memory_);
    w.statistics = precision::statistics_of(values.floats(), elements);
  }
}

// Trouble is told behind the last encoding, so that all of it is known.
void Executor::convert(const Launch& l) {
  if (base_ == nullptr) return;  // a device that only counts
  if (codec_) return convert_on_device(l);
  if (l.action == Action::kDecode) {
    return precision::decode(l.level, l.inputs[0], l.elements, reinterpret_cast<float*>(l.outputs[0]));
  }
  precision::CodecKey key = key_;
  key.tensor = l.key;
  const unsigned flags =
      precision::encode(l.level, reinterpret_cast<const float*>(l.inputs[0]), l.elements, key, l.outputs[0]);
  if (precision::must_stay_exact(flags)) failed_.push_back({l.tensor, l.level, flags});
  if (done_ == last_encode_ && !failed_.empty()) throw CannotEncode{std::exchange(failed_, {})};
}

void Executor::convert_on_device(const Launch& l) {
  if (l.action == Action::kDecode) {
    return codec_->decode(l.level, l.inputs[0], l.elements, reinterpret_cast<float*>(l.outputs[0]));
  }
  codec_->encode(l.level, reinterpret_cast<const float*>(l.inputs[0]), l.elements, l.key, l.outputs[0], l.slot);
  if (done_ != last_encode_) return;
  codec_->finish();
  if (!is_capturing_) throw_failed_codes();
}

// Waits for the device: what changes state is not begun before.
void Executor::throw_failed_codes() {
  device_.synchronise();
  for (const Launch& l : launches_) {
    if (l.action != Action::kEncode) continue;
    const unsigned flags = codec_->flags(l.slot);
    if (precision::must_stay_exact(flags)) failed_.push_back({l.tensor, l.level, flags});
  }
  if (!failed_.empty()) throw CannotEncode{std::exchange(failed_, {})};
}

void Executor::begin_step() {
  done_ = 0;
  if (!codec_) return;
  codec_->set_step(key_);
  codec_->start();
}

void Executor::transfer(const Launch& l) {
  if (base_ == nullptr) return;  // a device that only counts
  require(store_ != nullptr, "a plan with transfers has a store");
  switch (l.action) {
    case Action::kSpillBegin: return store_->begin_write(l.slot, l.outputs[0]);
    case Action::kFetchBegin: return store_->begin_read(l.slot, l.outputs[0]);
    default: return can_run_again() ? store_->wait(l.slot) : store_->insist(l.slot);
  }
}

void Executor::run() {
  if (!times_.empty()) return run_recorded();
#ifdef NEAP_CHECKED
  run_with(*checks_);
#else
  if (run_again()) return;
  begin_step();
  for (; done_ < launches_.size(); ++done_) launch(launches_[done_]);
#endif
}

// A step that has run as it is goes on as one launch; the first run lets libraries load what they need. Transfers that
// are on their way cannot be cut in two.
bool Executor::run_again() {
  constexpr int kRunsBefore = 2;
  if (device_.kind() != DeviceKind::kCuda || !watched_.empty() || trial_) return false;
  if (!plan_.slots.empty() && (store_ == nullptr || !store_->is_on_stream() || codec_)) return false;
  if (replays_.empty() && runs_++ < kRunsBefore) return false;
  if (replays_.empty()) capture_step();
  if (codec_) {
    codec_->set_step(key_);
    replays_.front()->run();
    done_ = last_encode_;
    throw_failed_codes();
  }
  replays_.back()->run();
  if (!plan_.slots.empty()) store_->note_replay();
  done_ = launches_.size();
  return true;
}

namespace {

// How often each tensor is read, the host's reading included.
std::vector<int> readers_in(const Graph& graph) {
  std::vector<int> out(graph.tensors.size());
  for (const Node& node : graph.nodes) {
    for (const TensorId id : node.inputs) {
      if (id) ++out[id.index];
    }
  }
  for (const auto& [label, id] : graph.outputs) out[id.index] += 2;
  return out;
}

}  // namespace

// None: a transfer or a conversion, which nothing moves across.
std::optional<BoundCall> Executor::bound(const Launch& l, const std::vector<int>& readers) const {
  if (!is_call(l.action)) return std::nullopt;
  const Node& node = program_.graph.at(l.node);
  if (l.kernel == nullptr) return BoundCall{.call = {.op = node.op}};  // a view touches nothing
  BoundCall out{.call = call_of(program_.graph, node),
                .buffers = {.inputs = l.inputs, .outputs = l.outputs, .workspace = l.workspace},
                .workspace_bytes = program_.costs.workspace[l.node.index]};
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (readers[node.outputs[i].index] == 1) out.read_once |= 1U << i;
  }
  return out;
}

void Executor::find_merged() {
  const std::vector<int> readers = readers_in(program_.graph);
  std::vector<std::optional<BoundCall>> calls;
  for (const Launch& l : launches_) calls.push_back(bound(l, readers));
  const bool is_known = merge_rules_cuda != nullptr && device_.kind() == DeviceKind::kCuda;
  merged_ = merge_calls(calls, is_known ? merge_rules_cuda() : std::span<const MergeRule>());
}

void Executor::capture_step() {
  find_merged();
  const std::size_t cut = codec_ ? last_encode_ + 1 : 0;
  const auto capture = [&](std::size_t first, std::size_t last) {
    replays_.push_back(device_.capture([&] {
      if (first == 0 && codec_) codec_->start();
      for (const MergedCalls& piece : merged_) {
        done_ = piece.calls.back();
        if (done_ < first || done_ >= last) continue;
        tag(done_);
        piece.run ? piece.run(device_.stream()) : launch(launches_[done_]);
      }
      tag(Activity::kNoTag);
    }));
  };
  is_capturing_ = true;
  try {
    if (cut > 0) capture(0, cut);
    capture(cut, launches_.size());
  } catch (...) {
    is_capturing_ = false;
    replays_.clear();
    throw;
  }
  is_capturing_ = false;
}

std::byte* Executor::at(TensorId id) const {
  const auto home = homes_.find(id.index);
  if (home == homes_.end()) {
    throw InternalError(fmt::format("'{}' has no place that the host may use", program_.graph.at(id).name));
  }
  return home->second;
}

void Executor::write(TensorId id, const void* src) {
  const std::int64_t bytes = program_.graph.at(id).type.bytes();
  const auto outside = outside_.find(id.index);
  if (outside == outside_.end()) return device_.write(at(id), src, bytes);
  require(store_ != nullptr, "a plan with transfers has a store");
  const auto [slot, place] = outside->second;
  device_.write(place, src, bytes);
  store_->begin_write(slot, place);
  store_->wait(slot);
}

void Executor::read(TensorId id, void* dst) const { device_.read(dst, at(id), program_.graph.at(id).type.bytes()); }

}  // namespace neap
