#include "train/stepper.h"

#include "autodiff/optimizer.h"
#include "neap/error.h"
#include "train/carried.h"
#include "train/model_spec.h"
#include "train/spilling.h"

namespace neap {

void Steered::keep(std::int64_t budget, Plan plan) {
  constexpr std::size_t kMost = 8;
  if (kept.size() >= kMost) kept.erase(kept.begin());
  kept.insert_or_assign(budget, std::move(plan));
}

StateLayout shared_layout(const Graph& base, const Plan& plan, const Graph& graph) {
  StateLayout out = layout_of(plan, base);
  std::erase_if(out.offsets, [&](const auto& entry) {
    const auto here = graph.find(entry.first);
    const auto there = base.find(entry.first);
    if (!here || !there) return true;
    const Tensor& a = graph.at(*here);
    const Tensor& b = base.at(*there);
    const bool is_same = a.type == b.type && (a.role != Role::kConstant || (a.data && b.data && *a.data == *b.data));
    if (!is_same && a.role != Role::kConstant) {
      throw UserError("'" + a.name + "' is " + a.type.text() + " for one shape of the batch and " + b.type.text() +
                      " for another; the state of a model may not depend on it");
    }
    return !is_same;
  });
  return out;
}

Stepper::Stepper(BatchShape shape, std::shared_ptr<Program> program, Plan plan, StateLayout layout, Device& device,
                 Arena& arena, SpillFor spill)
    : shape_(shape),
      program_(std::move(program)),
      plan_(std::move(plan)),
      layout_(std::move(layout)),
      device_(device),
      arena_(arena),
      spill_(std::move(spill)) {
  const Graph& g = graph();
  loss_ = *g.output("loss");
  hyper_ = g.find(kHyperInput).value_or(TensorId{});
  random_ = g.find(kRandomInput).value_or(TensorId{});
  part_ = g.find(kPartInput).value_or(TensorId{});
  carried_ = carried_tensors(g);
  for (std::uint32_t i = 0; i < g.tensors.size(); ++i) {
    const Tensor& t = g.tensors[i];
    if (is_data(t)) inputs_.push_back({{i}, t.name, static_cast<std::size_t>(t.type.bytes())});
    if (t.role == Role::kConstant && !layout_.offsets.contains(t.name)) own_constants_.push_back({i});
  }
  make_executor();
}

void Stepper::make_executor() {
  executor_ = std::make_unique<Executor>(*program_, plan_, device_, arena_);
  encoded_bytes_ = 0;
  for (const Instruction& in : plan_.instructions) {
    if (in.action == Action::kEncode) encoded_bytes_ += precision::encoded_bytes(in.level, in.elements);
  }
}

// The store waits for the next plan: of plans that race, one after the other spills.
void Stepper::swap(Plan plan) {
  is_served_ = false;
  plan_ = std::move(plan);
  make_executor();
}

void Stepper::leave() {
  is_served_ = false;
  store_.reset();
}

void Stepper::open_store() {
  const SpillOptions options = spill_(plan_, graph());
  if (!store_ || !store_->serve(plan_.slots, options)) {
    store_.reset();
    store_ = make_store(device_, plan_.slots, options);
  }
  store_arena_bytes_ = arena_.bytes();
  unused_ = 0;
  is_served_ = true;
  executor_->use(store_.get());
}

void Stepper::enter() {
  constexpr int kMostUnused = 8;                      // as long as other plans have their turn in a race
  if (arena_.bytes() != store_arena_bytes_) leave();  // it has pinned pages that may be others now
  if (!plan_.slots.empty() && !is_served_) open_store();
  if (plan_.slots.empty() && store_ && ++unused_ > kMostUnused) leave();
  for (const TensorId id : own_constants_) executor_->write(id, graph().at(id).data->data());
}

}  // namespace neap
