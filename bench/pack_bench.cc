// Packing against first fit, best fit and the lower bound: `pack_bench [FILE.CAPACITY.csv ...] > bench/PACK.md`.
// Files are packed below the capacity in their name; what follows them is made up here and the same in every run.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "core/file.h"
#include "neap/error.h"
#include "plan/pack_csv.h"
#include "plan/pack_greedy.h"
#include "plan/pack_testing.h"
#include "plan/pack_validate.h"

namespace {

using namespace neap;
constexpr double kTimeLimit = 30;  // seconds, as in the program

struct Case {
  std::string name;
  std::vector<PackItem> items;
  std::int64_t capacity = kNoCapacity;
};

template <class Key>
double fitted(const Bars& bars, std::int64_t bound, Fit fit, Key key) {
  std::vector<std::uint32_t> order(bars.bars.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return key(bars.bars[a]) < key(bars.bars[b]); });
  Meter meter(kNoCapacity, {});
  return static_cast<double>(fit_in_order(bars, order, fit, meter).height) / static_cast<double>(bound);
}

void run(const Case& c) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const PackProblem problem{.items = c.items, .capacity = c.capacity};
  const Packing p = pack(problem, {.steps = kNoCapacity,
                                   .improve_steps = 300'000'000 + 80'000 * static_cast<std::int64_t>(c.items.size()),
                                   .is_over = [&] { return seconds() > kTimeLimit; }});
  const double took = seconds();
  if (const std::string fault = find_fault(problem, p); !fault.empty()) throw InternalError(fault);
  const Bars bars = to_bars(c.items);
  const auto by_start = [](const Bar& b) { return static_cast<std::int64_t>(b.first); };
  const auto by_size = [](const Bar& b) { return -b.size; };
  const bool has_capacity = c.capacity != kNoCapacity;
  fmt::print(
      "| {} | {} | {:.3f} | {:.3f} | {:.3f} | {:.3f} | {} | {:.3f} | {} | {:.2f} |\n", c.name, c.items.size(),
      fitted(bars, p.lower_bound, Fit::kFirst, by_start), fitted(bars, p.lower_bound, Fit::kFirst, by_size),
      fitted(bars, p.lower_bound, Fit::kBest, by_start), fitted(bars, p.lower_bound, Fit::kBest, by_size),
      has_capacity ? fmt::format("{:.3f}", static_cast<double>(c.capacity) / static_cast<double>(p.lower_bound)) : "",
      static_cast<double>(p.height) / static_cast<double>(p.lower_bound),
      !has_capacity ? ""
      : p.fits      ? "yes"
                    : "no",
      took);
  std::fflush(stdout);
}

Case read_case(const std::string& path) {
  const std::filesystem::path stem = std::filesystem::path(path).stem();  // A.1048576
  const MappedFile file(path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.size());
  return {stem.stem().string(), parse_pack_csv(text, path).items, std::stoll(stem.extension().string().substr(1))};
}

std::vector<Case> tight_cases() {
  std::vector<Case> out;
  RandomStream random(1);
  for (const std::size_t count : {100, 200, 400}) {
    auto items = cut_rectangle(random, count, 4096, 4096);
    out.push_back({fmt::format("rectangle cut into {}", count), items, 4096});
    items.resize(items.size() * 9 / 10);
    out.push_back({fmt::format("rectangle cut into {}, a tenth left out", count), items, 4096});
  }
  return out;
}

std::vector<Case> large_cases() {
  constexpr std::uint64_t kCount = 20'000;
  RandomStream random(2);
  std::vector<Case> out;
  out.push_back({"even sizes and lives", random_items(random, {kCount, kCount, 200, 1000, 64})});
  out.push_back({"short lives", random_items(random, {kCount, 5000, 50, 100, 512})});
  out.push_back({"long lives", random_items(random, {kCount, 1000, 1000, 1 << 20, 1})});
  Case uneven{"sizes of all magnitudes", random_items(random, {kCount, kCount, 60, 1, 64})};
  for (PackItem& i : uneven.items) i.size <<= random.below(14);
  out.push_back(uneven);
  Case training{"forward and backward", {}};
  for (std::int64_t i = 0; i < 10'000; ++i) {
    const std::int64_t kept_until = random.below(3) == 0 ? 20'000 - i : i + 2;
    training.items.push_back({i, kept_until, 64 * static_cast<std::int64_t>(1 + random.below(4000))});
    training.items.push_back({10'000 + i, 10'002 + i, 64 * static_cast<std::int64_t>(1 + random.below(4000))});
  }
  out.push_back(training);
  return out;
}

void run_all(const char* title, const std::vector<Case>& cases) {
  fmt::print("\n## {}\n\n", title);
  fmt::print(
      "| problem | blocks | first fit, by start | first fit, by size | best fit, by start | best fit, by size |"
      " capacity | Neap | fits | seconds |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: |\n");
  for (const Case& c : cases) run(c);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::vector<Case> files;
    for (int i = 1; i < argc; ++i) files.push_back(read_case(argv[i]));
    fmt::print(
        "# Packing\n\nWritten by `build/bench/pack_bench [FILE.CAPACITY.csv ...] > bench/PACK.md`, on one core. "
        "Heights are over the lower bound,\nthe most bytes alive at one time. With a capacity, Neap searches until "
        "it fits, 30 s at most; then, as without one, a\nfew seconds at most go into packing still lower.\n");
    if (!files.empty()) run_all("Problems from files", files);
    run_all("Without slack, or nearly", tight_cases());
    run_all("Large", large_cases());
  } catch (const std::exception& e) {
    fmt::print(stderr, "pack_bench: {}\n", e.what());
    return 2;
  }
}
