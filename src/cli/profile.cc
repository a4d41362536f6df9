#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/train_flags.h"
#include "core/bytes.h"
#include "train/step_shapes.h"
#include "train/subgraphs.h"

namespace neap {
namespace {

struct ProfileCommand {
  TrainFlags flags;
  std::string json;
  std::string record;
  int steps = 5;
  bool layers_only = false;
};

void print_row(const LayerReport& l) {
  const double ms = l.forward_ms + l.backward_ms + l.update_ms;
  fmt::print("{:<28} {:>9.2f} {:>9.2f} {:>9.2f} {:>10.1f} {:>10.1f} {:>12} {}\n", l.name, l.forward_ms, l.backward_ms,
             l.update_ms, ms > 0 ? l.gflop / ms * 1e3 : 0.0,
             ms > 0 ? static_cast<double>(l.traffic_bytes) / ms * 1e-6 : 0.0, human_bytes(l.saved_bytes), l.bound);
}

Json to_json(const Reading& reading) {
  return reading.source == Source::kAbsent
             ? Json{{"source", "absent"}}
             : Json{{"value", reading.value}, {"source", std::string(name(reading.source))}};
}

std::string percent(const Reading& reading) {
  return reading.source == Source::kAbsent ? "-" : fmt::format("{:.0f}", 100 * reading.value);
}

void print_ceilings(const SubgraphProfile& profile, JsonLines& json) {
  const Ceilings& c = profile.ceilings;
  Json bandwidth = Json::object();
  std::string text;
  for (const CacheCeiling& cache : c.caches) {
    bandwidth[cache.name] = cache.bytes_per_second;
    text += fmt::format(", {} {:.0f}", cache.name, cache.bytes_per_second * 1e-9);
  }
  bandwidth["memory"] = c.bytes_per_second;
  json.line({{"ceilings", true},
             {"gflops", c.gflops},
             {"bytes_per_second", bandwidth},
             {"clock_mhz", to_json(profile.clock_mhz)}});
  if (json.is_stdout()) return;
  fmt::print("\nat best {:.0f} GFLOP/s; GB/s: memory {:.0f}{}; core clock {:.0f} MHz ({})\n", c.gflops,
             c.bytes_per_second * 1e-9, text, profile.clock_mhz.value, name(profile.clock_mhz.source));
}

// The tree of subgraphs: time, share of the roofline, what bounds it, what was done to it and what that gained.
void print_tree(const SubgraphProfile& profile, JsonLines& json) {
  print_ceilings(profile, json);
  if (!json.is_stdout()) {
    fmt::print("{:<56} {:>6} {:>9} {:>9} {:<8} {:>14} {:>12} {:>9} {}\n", "subgraph", "nodes", "ms", "roofline",
               "bound by", "L1/L2/L3 hit %", "memory GB/s", "gained ms", "strategies");
  }
  for (const SubgraphRow& row : profile.rows) {
    const double memory_rate = row.ms > 0 ? row.memory.memory_bytes.value / row.ms * 1e3 : 0;
    json.line({{"subgraph", row.name},
               {"depth", row.depth},
               {"leaf", row.is_leaf},
               {"nodes", row.nodes},
               {"ms", row.ms},
               {"roofline", row.share},
               {"bound", row.bound},
               {"l1_hit_rate", to_json(row.memory.l1_hit_rate)},
               {"l2_hit_rate", to_json(row.memory.l2_hit_rate)},
               {"l3_hit_rate", to_json(row.memory.l3_hit_rate)},
               {"memory_bytes", to_json(row.memory.memory_bytes)},
               {"memory_utilisation", memory_rate / profile.ceilings.bytes_per_second},
               {"strategies", row.strategies},
               {"gained_ms", row.gained_ms}});
    if (json.is_stdout()) continue;
    const std::string label = std::string(2 * static_cast<std::size_t>(row.depth), ' ') + row.name;
    const std::string hits = fmt::format("{}/{}/{}", percent(row.memory.l1_hit_rate), percent(row.memory.l2_hit_rate),
                                         percent(row.memory.l3_hit_rate));
    fmt::print("{:<56} {:>6} {:>9.2f} {:>7.0f} % {:<8} {:>14} {:>12.1f} {:>9.2f} {}\n", label, row.nodes, row.ms,
               100 * row.share, row.bound, hits, memory_rate * 1e-9, row.gained_ms,
               row.strategies.empty() ? "-" : row.strategies);
  }
  if (!json.is_stdout() && !profile.rows.empty()) {
    fmt::print("hit rates and memory traffic: {}\n", name(profile.rows.front().memory.memory_bytes.source));
  }
  for (const std::string& line : profile.log) {
    json.line({{"change", line}});
    if (!json.is_stdout()) fmt::print("{}\n", line);
  }
}

// What ran on a GPU: the kernels that took longest, over all calls.
void print_kernels(const KernelProfile& profile, JsonLines& json) {
  constexpr std::size_t kRows = 15;
  if (!profile.missing.empty()) {
    tell(profile.missing + "; times are between marks on the stream, gaps included");
  }
  std::map<std::string, KernelReport> sums;
  for (const KernelReport& k : profile.kernels) {
    json.line(to_json(k));
    KernelReport& sum = sums[k.kernel];
    sum.kernel = k.kernel;
    sum.ms += k.ms;
    sum.launches += k.launches;
  }
  if (sums.empty() || json.is_stdout()) return;
  std::vector<KernelReport> rows;
  for (const auto& [name, sum] : sums) rows.push_back(sum);
  std::stable_sort(rows.begin(), rows.end(), [](const KernelReport& a, const KernelReport& b) { return a.ms > b.ms; });
  rows.resize(std::min(rows.size(), kRows));
  fmt::print("\n{:<96} {:>8} {:>9}\n", "kernel", "launches", "ms");
  for (const KernelReport& row : rows) {
    fmt::print("{:<96} {:>8} {:>9.3f}\n", row.kernel.substr(0, 96), row.launches, row.ms);
  }
}

int run(ProfileCommand& c) {
  c.flags.finish();
  JsonLines json(c.json);
  const auto model = open_noted_model(c.flags.options.model);
  auto trainer = std::make_unique<Trainer>(model, c.flags.options);
  if (!c.record.empty()) {
    trainer->record(c.steps, c.record);
    if (!json.is_stdout()) fmt::print("{} steps recorded in {}\n", c.steps, c.record);
    if (has_changing_shapes(c.flags.options) && c.json.empty()) return 0;  // a table is of one shape
  }
  const std::vector<LayerReport> layers = trainer->profile(c.steps);
  const KernelProfile kernels = trainer->kernels();
  trainer.reset();  // its arena
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
  if (!json.is_stdout()) print_row(total);
  print_kernels(kernels, json);
  if (!c.layers_only)
    print_tree(profile_subgraphs(model, c.flags.options, c.flags.options.tuning.subgraphs, c.steps), json);
  json.finish();
  return 0;
}

}  // namespace

Command add_profile(CLI::App& app) {
  auto command = std::make_shared<ProfileCommand>();
  add_train_flags(app, command->flags);
  app.add_option("--json", command->json, "one object a layer, then one a subgraph; - is standard output");
  app.add_option("--record", command->record,
                 "writes the allocations of the steps, and how long each lives, to a file");
  app.add_flag("--layers-only", command->layers_only, "no subgraphs");
  app.add_option("--steps", command->steps, "steps to measure")->check(CLI::Range(1, 10000));
  return [command] { return run(*command); };
}

}  // namespace neap
