// Abstract problems: DTR's rule against ours. `remat_bench [SCALE [FILE.json ...]] > bench/REMAT.md`. Traces are made
// up in tests/remat and the same in every run; files bring their own.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>

#include "core/file.h"
#include "remat/problem_json.h"
#include "remat/solve.h"
#include "tests/remat/traces.h"

namespace {

using namespace neap;
using namespace neap::remat;

struct Timed {
  Answer answer;
  double seconds = 0;
};

Timed solve_timed(const Problem& problem, Method method) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  Timed out{.answer = solve(problem, {.method = method})};
  out.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return out;
}

std::string ratio(const Answer& a) {
  return a.feasible ? fmt::format("{:.3f}", a.total_ms / a.baseline_ms) : std::string("-");
}

void run(const std::string& name, Problem problem) {
  const std::int64_t peak = replay(problem, eager_schedule(problem)).peak_bytes;
  const auto share_of = [&](std::int64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(peak); };
  for (const double share : {0.5, 0.3, 0.2}) {
    problem.budget = static_cast<std::int64_t>(static_cast<double>(peak) * share);
    const Answer greedy = solve(problem, {.method = Method::kGreedy});
    const Answer sqrt = solve(problem, {.method = Method::kSqrt});
    const Answer dtr = solve_timed(problem, Method::kDtr).answer;
    const Timed ours = solve_timed(problem, Method::kOracle);
    const bool both = dtr.feasible && ours.answer.feasible;
    fmt::print("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.3f} | {:.3f} | {:.1f} |\n", name, problem.ops.size(),
               share, ratio(sqrt), ratio(greedy), ratio(dtr), ratio(ours.answer),
               both ? fmt::format("{:.3f}", ours.answer.total_ms / dtr.total_ms) : std::string("-"),
               ours.answer.feasible ? fmt::format("{:.1f} %", 100 * ours.answer.gap) : std::string("-"),
               share_of(dtr.min_budget_bytes), share_of(ours.answer.min_budget_bytes), ours.seconds);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const double scale = argc > 1 ? std::strtod(argv[1], nullptr) : 1;
  fmt::print(
      "# Rematerialisation of abstract problems\n\nWritten by `build/bench/remat_bench > bench/REMAT.md`, on one core. "
      "Times are over running every op once, bytes over\nthe eager peak. `gap`: at most so far above the optimum, "
      "proven. "
      "`least`: the smallest budget that is reached.\n\n"
      "| trace | ops | budget | sqrt | greedy | DTR | Neap | Neap / DTR | gap | least, DTR | least, Neap | seconds |\n"
      "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  if (argc > 2) {
    for (int i = 2; i < argc; ++i) {
      const MappedFile file(argv[i]);
      run(argv[i], parse_problem({reinterpret_cast<const char*>(file.bytes().data()), file.size()}, argv[i], false));
    }
    return 0;
  }
  for (const std::string& name : trace_names()) run(name, make_trace(name, scale));
  run("lstm, twice as long", make_trace("lstm", 2 * scale));
  run("resnet, four times as deep", make_trace("resnet32", 4 * scale));
  run("densenet, three times as deep", make_trace("densenet121", 3 * scale));
  return 0;
}
