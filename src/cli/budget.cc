#include <fmt/format.h>

#include <charconv>

#include "cli/commands.h"
#include "cli/control.h"
#include "neap/error.h"

namespace neap {
namespace {

struct BudgetCommand {
  std::string pid;
  std::string size;
};

int run(const BudgetCommand& c) {
  long pid = 0;
  const auto [end, status] = std::from_chars(c.pid.data(), c.pid.data() + c.pid.size(), pid);
  if (status != std::errc() || end != c.pid.data() + c.pid.size() || pid <= 0) {
    throw UserError(fmt::format("'{}' is no number of a process", c.pid));
  }
  fmt::print("{}\n", tell_process(pid, "budget " + c.size));
  return 0;
}

}  // namespace

Command add_budget(CLI::App& app) {
  auto command = std::make_shared<BudgetCommand>();
  app.add_option("PID", command->pid, "the process that trains")->required();
  app.add_option("SIZE", command->size, "what --budget takes: bytes, 512MiB, min+10%, 50%")->required();
  return [command] { return run(*command); };
}

}  // namespace neap
