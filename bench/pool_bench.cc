// The temporal pool under each simple predictor: peak without a limit, bytes spilled and fetched under one, all in
// shares of the exact plan's activations; and how long a plan takes.
//   ninja -C build pool_bench && build/bench/pool_bench
#include <fmt/format.h>

#include <chrono>

#include "neap/builtin_models.h"
#include "plan/validate.h"
#include "plan/views.h"
#include "pool/pool_plan.h"
#include "pool/simple_predictors.h"
#include "runtime/prepare.h"
#include "train/model_spec.h"

namespace neap {
namespace {

struct Case {
  const char* model;
  std::int64_t batch = 0;
  std::int64_t length = 0;
  std::int64_t image = 0;
};

constexpr Case kCases[] = {{.model = "resnet18", .batch = 16, .image = 32},
                           {.model = "resnet50", .batch = 8, .image = 64},
                           {.model = "gpt-mini", .batch = 4, .length = 128},
                           {.model = "lstm-lm", .batch = 32, .length = 128},
                           {.model = "gru-lm", .batch = 32, .length = 128}};

Graph graph_of(const Case& c, std::int64_t length) {
  TrainOptions options;
  options.batch = c.batch;
  options.length = length;
  options.image = c.image;
  return build_training(make_spec(open_builtin_model(c.model), options), options);
}

// Other lengths than the one that is asked for.
void teach(LifetimePredictor& predictor, const Case& c) {
  for (const std::int64_t length : {64, 112, 96}) {
    const Graph graph = graph_of(c, c.length > 0 ? length : 0);
    const StepEvents seen = events_of(graph, make_schedule(graph, find_views(graph), store_all(graph), {}), length);
    predictor.observe(seen.events, seen.lifespans);
  }
}

void measure(const Case& c) {
  using Clock = std::chrono::steady_clock;
  const auto device = make_cpu_device(1);
  Program program = prepare(graph_of(c, c.length), *device);
  program.costs.ms.assign(program.graph.nodes.size(), 0.01);
  const Plan exact = std::get<Plan>(make_plan(program.graph, program.costs, store_all(program.graph)));
  const auto whole = static_cast<double>(exact.peak_bytes - exact.state_bytes);
  fmt::print("{}: {} instructions, {:.1f} MiB of activations\n", c.model, exact.instructions.size(), whole / (1 << 20));
  for (const std::string_view name : predictor_names()) {
    const auto predictor = predictor_named(name);
    teach(*predictor, c);
    fmt::print("  {:12}", name);
    for (const int percent : {0, 75, 50}) {
      PoolSettings settings{.length = c.length, .link = {1e6, 1e6}};
      if (percent > 0) settings.capacity = exact.state_bytes + static_cast<std::int64_t>(whole) * percent / 100;
      const auto start = Clock::now();
      const PoolOutcome out = plan_with_pool(program.graph, program.costs, *predictor, settings);
      const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
      if (!out.plan || validate(*out.plan, program.graph, program.costs)) {
        fmt::print("  {}%: none", percent);
        continue;
      }
      fmt::print("  {}%: peak {:.3f} spilled {:.2f} fetched {:.2f} {:.1f} ms", percent,
                 static_cast<double>(out.stats.peak_bytes - exact.state_bytes) / whole,
                 static_cast<double>(out.stats.spilled_bytes) / whole,
                 static_cast<double>(out.stats.fetched_bytes) / whole, ms);
    }
    fmt::print("\n");
  }
}

}  // namespace
}  // namespace neap

int main() {
  for (const neap::Case& c : neap::kCases) neap::measure(c);
  return 0;
}
