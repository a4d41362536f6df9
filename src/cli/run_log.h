// What a run leaves behind: --json, --report and --tensorboard, fed step by step.
#pragma once

#include <optional>
#include <string>

#include "cli/output.h"
#include "neap/train.h"
#include "report/record.h"
#include "report/tensorboard.h"

namespace neap {

struct RunLogPaths {
  std::string json;
  std::string report;
  std::string tensorboard;
};

class RunLog {
 public:
  // UserError at once when one of them cannot be written.
  explicit RunLog(const RunLogPaths& paths);

  bool is_stdout() const { return json_.is_stdout(); }
  // A step's line has the plan with it when it is the first that this plan ran.
  void step(const Trainer& trainer, const StepReport& report);
  void evaluation(std::int64_t step, const EvalReport& report);
  // The run is over: its summary is in the log, whatever happens until finish().
  void end(const Trainer& trainer);
  // Once more with what takes a while to find out, when somebody reads it.
  void finish(const Trainer& trainer);
  // It broke off: the report shows what there is. Throws nothing.
  void abandon();

 private:
  void line(const Json& object);

  RunLogPaths paths_;
  JsonLines json_;
  Json summary_;
  std::optional<RunRecord> record_;
  std::optional<EventWriter> events_;
  std::int64_t last_plan_ = 0;
};

}  // namespace neap
