#include <fmt/format.h>

#include <chrono>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/ranges.h"
#include "core/bytes.h"
#include "core/file.h"
#include "neap/error.h"
#include "plan/pack_csv.h"
#include "plan/pack_validate.h"

namespace neap {
namespace {

struct PackCommand {
  std::string file;
  std::string capacity;
  std::string json;
  double time_limit = 30;  // seconds
};

std::int64_t parse_capacity(const std::string& text) {
  try {
    return parse_bytes(text);
  } catch (const UserError& e) {
    throw UserError(fmt::format("--capacity: {}", e.what()));
  }
}

Json to_json(const PackTable& table, const Packing& packing, std::int64_t capacity, double seconds) {
  Json offsets = Json::object();
  for (std::size_t i = 0; i < table.ids.size(); ++i) offsets[table.ids[i]] = packing.offsets[i];
  Json out = {{"fits", packing.fits},     {"capacity", capacity},
              {"height", packing.height}, {"lower_bound", packing.lower_bound},
              {"seconds", seconds},       {"offsets", std::move(offsets)}};
  if (!packing.fits) out["reason"] = packing.reason;
  return out;
}

PackTable read_table(const std::string& path) {
  const MappedFile file(path);
  return parse_pack_csv({reinterpret_cast<const char*>(file.bytes().data()), file.size()}, path);
}

int run(const PackCommand& c) {
  using Clock = std::chrono::steady_clock;
  const std::int64_t capacity = parse_capacity(c.capacity);
  refuse_one_file_for_two({{"FILE", c.file}, {"--json", c.json}});
  const PackTable table = read_table(c.file);
  JsonLines json(c.json);
  const auto start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const PackLimits limits{.steps = kNoCapacity,
                          .improve_steps = 300'000'000 + 80'000 * static_cast<std::int64_t>(table.items.size()),
                          .is_over = [&] { return seconds() > c.time_limit; }};
  const PackProblem problem{.items = table.items, .capacity = capacity};
  const Packing packing = pack(problem, limits);
  const double took = seconds();
  if (const std::string fault = find_fault(problem, packing); !fault.empty()) throw InternalError(fault);
  json.line(to_json(table, packing, capacity, took));
  json.finish();
  if (!packing.fits) throw DoesNotFit(fmt::format("{}: {}", c.file, packing.reason));
  if (!json.is_stdout()) write_stdout(to_csv(table, packing.offsets));
  return 0;
}

}  // namespace

Command add_pack(CLI::App& app) {
  auto command = std::make_shared<PackCommand>();
  app.add_option("FILE", command->file, "CSV with the columns id, lower, upper (exclusive), size")->required();
  app.add_option("--capacity", command->capacity, "bytes of the arena")->required();
  app.add_option("--json", command->json, "one object; - is standard output");
  app.add_option("--time-limit", command->time_limit, "seconds of search at most")
      ->check(positive())
      ->capture_default_str();
  return [command] { return run(*command); };
}

}  // namespace neap
