#include "cli/run_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/bytes.h"
#include "core/file.h"
#include "report/page.h"

namespace neap {
namespace {

double mebibytes(std::int64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(kMiB); }

std::vector<Scalar> scalars_of(const StepReport& r) {
  std::vector<Scalar> out = {{"loss/training", r.loss},
                             {"optimizer/learning_rate", r.lr},
                             {"time/step_ms", r.step_ms},
                             {"memory/peak_MiB", mebibytes(r.peak_bytes)},
                             {"memory/spilled_MiB", mebibytes(r.spilled_bytes)},
                             {"time/stalled_ms", r.stalled_ms},
                             {"plan/number", static_cast<double>(r.plan)}};
  if (r.budget_bytes) out.push_back({"memory/budget_MiB", mebibytes(*r.budget_bytes)});
  if (r.predicted_ms > 0) out.push_back({"time/predicted_ms", r.predicted_ms});
  if (r.recomputed_ms > 0) out.push_back({"time/recomputed_ms", r.recomputed_ms});
  return out;
}

std::vector<Scalar> scalars_of(const EvalReport& r) {
  std::vector<Scalar> out = {{"loss/evaluation", r.loss}};
  if (r.accuracy) out.push_back({"evaluation/accuracy", *r.accuracy});
  if (r.perplexity) out.push_back({"evaluation/perplexity", *r.perplexity});
  return out;
}

}  // namespace

RunLog::RunLog(const RunLogPaths& paths) : paths_(paths), json_(paths.json, JsonLines::Appears::kGrowing) {
  if (!paths.report.empty()) {
    const AtomicFile probe(paths.report);  // says now, not after hours, that it cannot be written
    record_.emplace();
  }
  if (!paths.tensorboard.empty()) events_.emplace(paths.tensorboard);
}

void RunLog::line(const Json& object) {
  json_.line(object);
  if (record_) record_->add(object);
}

void RunLog::step(const Trainer& trainer, const StepReport& report) {
  if (json_.is_on() || record_) {
    Json object = to_json(report);
    if (report.plan > last_plan_) object["plan"] = to_json(trainer.plan());
    line(object);
  }
  last_plan_ = std::max(last_plan_, report.plan);
  if (events_) events_->add(report.step, scalars_of(report));
}

void RunLog::evaluation(std::int64_t step, const EvalReport& report) {
  Json object = to_json(report);
  object["eval"] = true;
  object["step"] = step;
  line(object);
  if (events_) events_->add(step, scalars_of(report));
}

void RunLog::end(const Trainer& trainer) {
  summary_ = to_json(trainer.summary());
  if (record_) record_->add(summary_);
  json_.draft(summary_);
}

void RunLog::finish(const Trainer& trainer) {
  if (summary_.is_null()) end(trainer);
  if (record_) {  // both plan many times over
    if (const std::optional<double> ms = trainer.oracle_step_ms()) summary_["oracle_step_ms"] = *ms;
    summary_["advice"] = trainer.advice();
  }
  line(summary_);
  json_.finish();
  const std::optional<RunRecord> record = std::exchange(record_, std::nullopt);  // nothing is left to abandon
  if (record) write_file(paths_.report, report_page(*record));
}

void RunLog::abandon() {
  try {
    if (record_) write_file(paths_.report, report_page(*record_));
  } catch (const std::exception& e) {
    tell(fmt::format("the report could not be written: {}", e.what()));
  }
}

}  // namespace neap
