#include "train/evaluator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/clock.h"
#include "neap/error.h"
#include "optimize/once.h"
#include "plan/validate.h"

namespace neap {

Evaluator::Evaluator(ModelSpec spec, std::shared_ptr<const Dataset> data, Device& device, How how)
    : spec_(std::move(spec)),
      data_(std::move(data)),
      device_(device),
      how_(std::move(how)),
      size_(static_cast<std::int64_t>(data_->size())) {
  if (how_.most_samples > 0) size_ = std::min(size_, how_.most_samples);
  for (const std::int64_t batch : {std::min(spec_.batch(), size_), size_ % spec_.batch()}) {
    if (batch > 0 && !passes_.contains(batch)) passes_.emplace(batch, make_pass(batch));
  }
}

Evaluator::Pass Evaluator::make_pass(std::int64_t batch) const {
  const Graph graph = build_inference(spec_, batch, how_.form);
  Pass out{.program = prepare(split_once(graph).rest, device_, how_.own_only)};
  out.program.costs.first_fit = how_.form.first_fit;
  const Program& p = out.program;
  const StateLayout layout = how_.layout_for(p.graph);
  out.plan = how_.weights != nullptr ? plan_for_weights(p, layout)
                                     : std::get<Plan>(make_plan(p.graph, p.costs, {}, kNoBudget, &layout));
  if (how_.weights == nullptr && how_.policy != nullptr && how_.budget && out.plan.peak_bytes > *how_.budget) {
    out.program.costs.ms.assign(p.graph.nodes.size(), 1);  // nobody has measured
    out.plan =
        plan_within(*how_.policy, {.graph = p.graph, .costs = p.costs, .link = {}, .layout = &layout}, how_.budget);
  }
  const auto error = validate(out.plan, p.graph, p.costs);
  if (error) throw InternalError("evaluation plan: " + *error);
  return out;
}

// The same weights in the same slots for every batch; as much on its way as was chosen, or less where that is too much.
Plan Evaluator::plan_for_weights(const Program& program, const StateLayout& layout) const {
  WeightsOutside outside = *how_.weights;
  for (;; outside.flight_bytes /= 2) {
    Plan plan = plan_with_weights_outside(program.graph, program.costs, outside, *how_.budget, &layout);
    require(slot_names(plan, program.graph) == outside.names, "the same weights are outside whatever the batch");
    if (plan.peak_bytes <= *how_.budget || outside.flight_bytes == 0) return plan;
  }
}

const Plan& Evaluator::largest() const {
  const auto most = std::max_element(passes_.begin(), passes_.end(), [](const auto& a, const auto& b) {
    return a.second.plan.peak_bytes < b.second.plan.peak_bytes;
  });
  return most->second.plan;
}

EvalReport Evaluator::run(Arena& arena, const std::function<void(Executor&)>& begin, SpillStore* store) {
  Sums sums;
  batch_ms_.clear();
  passes_run_ = replays_ = 0;
  store_ = store;
  for (auto& [batch, pass] : passes_) {
    Executor executor(pass.program, pass.plan, device_, arena, store);
    for (const TensorId id : pass.program.graph.with_role(Role::kConstant)) {
      executor.write(id, pass.program.graph.at(id).data->data());
    }
    begin(executor);
    const bool is_rest = batch < spec_.batch() && size_ > batch;
    const std::int64_t first = is_rest ? size_ - batch : 0;
    const std::int64_t end = is_rest ? size_ : size_ / batch * batch;
    for (std::int64_t at = first; at < end; at += batch) {
      run_batch(pass, executor, static_cast<std::uint64_t>(at), batch, sums);
    }
  }
  const double loss = sums.loss / static_cast<double>(std::max<std::int64_t>(1, sums.samples));
  EvalReport out{.loss = loss, .samples = sums.samples};
  if (sums.counted > 0) {
    out.accuracy = static_cast<double>(sums.correct) / static_cast<double>(sums.counted);
    out.perplexity = std::exp(loss);
  }
  return out;
}

double Evaluator::median_batch_ms() const {
  if (batch_ms_.empty()) return 0;
  std::vector<double> sorted = batch_ms_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

void Evaluator::write_inputs(const Graph& graph, Executor& executor, std::uint64_t first, std::int64_t count) {
  std::vector<std::uint64_t> indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), first);
  for (const TensorId id : graph.with_role(Role::kInput)) {
    if (!is_data(graph.at(id))) continue;
    const std::size_t field = data_->field(graph.at(id).name);
    if (executor.is_host_memory()) {
      data_->fill(indices, field, executor.at(id));
    } else {
      staging_.resize(static_cast<std::size_t>(graph.at(id).type.bytes()));
      data_->fill(indices, field, staging_.data());
      executor.write(id, staging_.data());
    }
  }
}

// A batch whose weights did not come in is run again: it has changed nothing.
void Evaluator::run_calls(const Graph& graph, Executor& executor, std::uint64_t first, std::int64_t count) {
  constexpr int kAttempts = 3;
  for (int attempt = 1;; ++attempt) {
    ++passes_run_;
    try {
      return executor.run();
    } catch (const SpillLost& lost) {
      store_->drain();
      if (attempt == kAttempts) {
        throw DeviceError(
            fmt::format("samples from {}: a weight is lost: {}; give another --spill-dir, or a larger "
                        "--budget",
                        first, lost.what));
      }
    }
    ++replays_;
    write_inputs(graph, executor, first, count);
  }
}

void Evaluator::run_batch(Pass& pass, Executor& executor, std::uint64_t first, std::int64_t count, Sums& sums) {
  const Graph& graph = pass.program.graph;
  write_inputs(graph, executor, first, count);
  const auto start = Clock::now();
  run_calls(graph, executor, first, count);
  float loss = 0;
  std::array<std::int64_t, 2> correct{};
  executor.read(*graph.output("loss"), &loss);
  if (count == std::min(spec_.batch(), size_)) batch_ms_.push_back(ms_since(start));
  if (const auto id = graph.output("correct")) executor.read(*id, correct.data());
  sums.loss += static_cast<double>(loss) * static_cast<double>(count);
  sums.correct += correct[0];
  sums.counted += correct[1];
  sums.samples += count;
}

}  // namespace neap
