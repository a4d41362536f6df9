// The trainer's state in files: saved weights, checkpoints, and what a run starts from.
#include <fmt/format.h>

#include <filesystem>

#include "core/file.h"
#include "graph/initial.h"
#include "neap/error.h"
#include "train/checkpoint.h"
#include "train/state.h"
#include "train/trainer_impl.h"
#include "train/weights.h"

namespace neap {
namespace {

std::string data_text(const TrainOptions& o) {
  if (o.lengths == "fixed" && o.length_schedule.empty()) return o.data;
  return fmt::format("{} (lengths {}, at most {}; {})", o.data, o.lengths, o.length, o.length_schedule);
}

// All that come: where a run stands in its data follows from them and the step.
std::string batch_text(const TrainOptions& o, const ModelSpec& spec) {
  std::string out;
  for (const StepCount& each : step_batches(o, spec.model->batch())) {
    out += out.empty() ? fmt::format("{}", each.count) : fmt::format(", {} from step {} on", each.count, each.step);
  }
  return out;
}

std::map<std::string, std::string> run_of(const TrainOptions& o, const ModelSpec& spec) {
  std::map<std::string, std::string> out = {{"model", spec.model->name()},
                                            {"data", data_text(o)},
                                            {"seed", std::to_string(o.seed)},
                                            {"batch", batch_text(o, spec)},
                                            {"optimizer", o.optimizer.name}};
  if (spec.parts > 1) out["accumulate"] = std::to_string(spec.parts);
  if (spec.split > 1) out["split"] = std::to_string(spec.split);
  if (o.carry_state) out["carry-state"] = "on";
  if (o.compute != "f32") out["compute"] = o.compute;
  return out;
}

}  // namespace

void Trainer::Impl::save(const std::string& path) const {
  if (!path.ends_with(".safetensors")) {
    return model().save(path, setup_.spec.request, weight_reader(graph(), first().executor()));
  }
  write_safetensors(path, outside_tensors(graph(), first().executor(), Kept::kWeights).tensors,
                    {{"format", "neap"}, {"model", model().name()}});
}

void Trainer::Impl::checkpoint() const {
  require(!options_.checkpoint.empty(), "a folder for checkpoints is given");
  const OutsideTensors state = outside_tensors(graph(), first().executor(), Kept::kAll);
  write_checkpoint(options_.checkpoint,
                   {.step = step_,
                    .run = run_of(options_, setup_.spec),
                    .numerics_id = setup_.program->numerics_id,
                    .levels = setup_.levels ? setup_.levels->text() : ""},
                   state.tensors);
}

void Trainer::Impl::load_state() {
  for (std::uint32_t i = 0; i < graph().tensors.size(); ++i) {
    const Tensor& t = graph().tensors[i];
    if (!is_state(t.role)) continue;
    const bool is_ready = t.data && t.outside_axes.empty();  // no copy in between: it may be large
    first().executor().write({i}, is_ready ? t.data->data() : initial_value(t, options_.seed).data());
    if (t.data && t.data->is_mapped) forget(t.data->bytes);
  }
  // Starting weights may lack what training adds (optimizer state), a checkpoint may not.
  if (!options_.init.empty())
    load_tensors(SafeTensorsFile(options_.init), options_.init, graph(), first().executor(), Kept::kWeights);
  if (!options_.resume) return;
  if (!std::filesystem::exists(checkpoint_path(options_.checkpoint))) return;  // nothing was saved yet
  const Checkpoint checkpoint(options_.checkpoint);
  checkpoint.check_same_run(run_of(options_, setup_.spec), {{"compute", "f32"}});
  load_tensors(checkpoint.tensors(), checkpoint_path(options_.checkpoint).string(), graph(), first().executor(),
               Kept::kAll);
  step_ = checkpoint.info().step;
  const std::string& levels = checkpoint.info().levels;
  if (setup_.levels && !levels.empty() && !setup_.levels->restore(levels)) {
    throw UserError(fmt::format("checkpoint '{}' is damaged: its levels of storage cannot be read",
                                checkpoint_path(options_.checkpoint).string()));
  }
}

}  // namespace neap
