// neap fit: the largest batch or length that a budget holds, without training.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/train_flags.h"
#include "core/bytes.h"
#include "neap/error.h"

namespace neap {
namespace {

struct FitCommand {
  TrainFlags flags;
  std::string find = "batch";
  std::string json;
};

Json to_json(const FitReport& r, const TrainOptions& o) {
  return {{"model", o.model},
          {"policy", o.policy},
          {"budget_bytes", r.budget_bytes},
          {"find", r.what},
          {"largest", r.largest},
          {"step", r.step},
          {"split", r.split},
          {"min_budget_bytes", r.min_budget_bytes},
          {"next_bytes", r.next_bytes > 0 ? Json(r.next_bytes) : Json(nullptr)},
          {"outside_bytes", r.outside_bytes},
          {"store_all_largest", r.store_all_largest},
          {"predicted_step_ms", r.predicted_step_ms},
          {"limit", r.limit}};
}

// Needs that differ by less than a tenth of a MiB decide here.
std::string exact_bytes(std::int64_t bytes) { return fmt::format("{} ({} bytes)", human_bytes(bytes), bytes); }

void print_people(const FitReport& r) {
  fmt::print("largest {:<8} {}, which needs {} of {}{}\n", r.what, r.largest, exact_bytes(r.min_budget_bytes),
             exact_bytes(r.budget_bytes), r.split > 1 ? fmt::format(", with --split {}", r.split) : "");
  if (r.outside_bytes > 0)
    fmt::print("outside of it    up to {}, in a file or --host-ram\n", human_bytes(r.outside_bytes));
  const std::string more = fmt::format("{} more", r.step > 1 ? std::to_string(r.step) : "one");
  if (r.next_bytes > 0) {
    fmt::print("{:<16} needs {}: {}\n", more, exact_bytes(r.next_bytes), r.limit);
  } else {
    fmt::print("{:<16} {}\n", more, r.limit);
  }
  fmt::print("all stored       {}\n",
             r.store_all_largest > 0
                 ? fmt::format("{}; {:.1f} times as much fits this way", r.store_all_largest,
                               static_cast<double>(r.largest) / static_cast<double>(r.store_all_largest))
                 : "nothing fits");
}

int run(FitCommand& c) {
  c.flags.finish();
  if (c.flags.options.budget.empty()) throw UserError("--budget is missing: how many bytes are there?");
  JsonLines json(c.json);
  const FitReport report = fit_training(open_noted_model(c.flags.options.model), c.flags.options, c.find);
  json.line(to_json(report, c.flags.options));
  json.finish();
  if (!json.is_stdout()) print_people(report);
  return 0;
}

}  // namespace

Command add_fit(CLI::App& app) {
  auto command = std::make_shared<FitCommand>();
  add_train_flags(app, command->flags);
  app.add_option("--find", command->find, "batch, or length at the given batch")
      ->check(CLI::IsMember({"batch", "length"}));
  app.add_option("--json", command->json, "one object; - is standard output");
  return [command] { return run(*command); };
}

}  // namespace neap
