#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/train_flags.h"
#include "core/bytes.h"

namespace neap {
namespace {

struct ProfileCommand {
  TrainFlags flags;
  std::string json;
  std::string record;
  int steps = 5;
};

void print_row(const LayerReport& l) {
  const double ms = l.forward_ms + l.backward_ms + l.update_ms;
  fmt::print("{:<28} {:>9.2f} {:>9.2f} {:>9.2f} {:>10.1f} {:>10.1f} {:>12} {}\n", l.name, l.forward_ms, l.backward_ms,
             l.update_ms, ms > 0 ? l.gflop / ms * 1e3 : 0.0,
             ms > 0 ? static_cast<double>(l.traffic_bytes) / ms * 1e-6 : 0.0, human_bytes(l.saved_bytes), l.bound);
}

int run(ProfileCommand& c) {
  c.flags.finish();
  JsonLines json(c.json);
  Trainer trainer(open_noted_model(c.flags.options.model), c.flags.options);
  if (!c.record.empty()) {
    trainer.record(c.steps, c.record);
    if (!json.is_stdout()) fmt::print("{} steps recorded in {}\n", c.steps, c.record);
    if (c.flags.options.lengths != "fixed" && c.json.empty()) return 0;  // a table is of one shape
  }
  const std::vector<LayerReport> layers = trainer.profile(c.steps);
  LayerReport total{.name = "total"};
  if (!json.is_stdout()) {
    fmt::print("{:<28} {:>9} {:>9} {:>9} {:>10} {:>10} {:>12} {}\n", "layer", "fwd ms", "bwd ms", "update ms",
               "GFLOP/s", "GB/s", "saved", "bound by");
  }
  for (const LayerReport& l : layers) {
    json.line(to_json(l));
    if (!json.is_stdout()) print_row(l);
    total.forward_ms += l.forward_ms;
    total.backward_ms += l.backward_ms;
    total.update_ms += l.update_ms;
    total.gflop += l.gflop;
    total.traffic_bytes += l.traffic_bytes;
    total.saved_bytes += l.saved_bytes;
  }
  json.finish();
  if (!json.is_stdout()) print_row(total);
  return 0;
}

}  // namespace

Command add_profile(CLI::App& app) {
  auto command = std::make_shared<ProfileCommand>();
  add_train_flags(app, command->flags);
  app.add_option("--json", command->json, "one object a layer; - is standard output");
  app.add_option("--record", command->record,
                 "writes the allocations of the steps, and how long each lives, to a file");
  app.add_option("--steps", command->steps, "steps to measure")->check(CLI::Range(1, 10000));
  return [command] { return run(*command); };
}

}  // namespace neap
