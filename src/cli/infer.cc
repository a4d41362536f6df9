#include "neap/infer.h"

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/ranges.h"
#include "cli/train_flags.h"
#include "core/bytes.h"

namespace neap {
namespace {

struct InferCommand {
  TrainFlags flags;
  InferOptions inference;
  std::string json;
};

Json to_json(const InferReport& r) {
  Json out = {{"summary", true}, {"model", r.model}, {"weights", r.weights}};
  out.update(to_json(r.result));
  out.update({{"batch", r.batch},
              {"median_batch_ms", r.median_batch_ms},
              {"samples_per_second", r.samples_per_second},
              {"budget_bytes", r.budget_bytes ? Json(*r.budget_bytes) : Json(nullptr)},
              {"peak_bytes", r.peak_bytes},
              {"state_bytes", r.state_bytes},
              {"min_budget_bytes", r.min_budget_bytes},
              {"outside_bytes", r.outside_bytes},
              {"fetched_bytes", r.fetched_bytes},
              {"stalled_ms", r.stalled_ms},
              {"replays", r.replays},
              {"numerics_id", r.numerics_id}});
  return out;
}

void print(const InferReport& r) {
  fmt::print("{}, batch {}, weights: {}\n", r.model, r.batch, r.weights);
  fmt::print("loss {:.4f}", r.result.loss);
  if (r.result.accuracy) fmt::print("  accuracy {:.2f} %", 100 * *r.result.accuracy);
  if (r.result.perplexity) fmt::print("  perplexity {:.3f}", *r.result.perplexity);
  fmt::print("  ({} samples)\n", r.result.samples);
  fmt::print("{:.2f} ms a batch (median), {:.1f} samples/s, peak {} ({} of it state)\n", r.median_batch_ms,
             r.samples_per_second, human_bytes(r.peak_bytes), human_bytes(r.state_bytes - r.outside_bytes));
  if (r.outside_bytes == 0) return;
  fmt::print("{} of weights wait outside, {} come in for a batch, whose calls wait {:.2f} ms for them{}\n",
             human_bytes(r.outside_bytes), human_bytes(r.fetched_bytes), r.stalled_ms,
             r.replays > 0 ? fmt::format("; {} batches were run again", r.replays) : "");
}

int run(InferCommand& c) {
  c.flags.complete();  // rules on settings that contradict each other are of training
  JsonLines json(c.json);
  const InferReport report = infer(open_noted_model(c.flags.options.model), c.flags.options, c.inference);
  json.line(to_json(report));
  json.finish();
  if (!json.is_stdout()) print(report);
  return 0;
}

}  // namespace

Command add_infer(CLI::App& app) {
  auto command = std::make_shared<InferCommand>();
  add_train_flags(app, command->flags);
  app.add_option("--checkpoint", command->flags.options.checkpoint, "folder with the checkpoint of a training run");
  app.remove_option(app.get_option("--split"));  // here it names the data, not the parts of a training step's batch
  app.add_option("--split", command->inference.split, "train or test; fashion-mnist: test unless said otherwise");
  app.add_option("--samples", command->inference.samples, "at most so many")->check(positive());
  app.add_option("--json", command->json, "one object with the results; - is standard output");
  return [command] { return run(*command); };
}

}  // namespace neap
