// neap: trains neural networks below a high-water mark.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <system_error>
#include <vector>

#include "cli/commands.h"
#include "cli/config.h"
#include "cli/output.h"
#include "neap/error.h"

namespace {

enum Exit { kDone = 0, kBug = 1, kWrongCall = 2, kDoesNotFit = 3, kDeviceFailed = 4 };

int complain(int status, std::string_view what) {
  std::fflush(stdout);
  neap::tell(what);
  return status;
}

constexpr const char* kLostOutput = "cannot write 'standard output': not all of it was taken";

// What a command has printed is there, or that is an error.
int checked(int status) {
  const bool is_lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  return is_lost && status == kDone ? complain(kWrongCall, kLostOutput) : status;
}

// A thread of libgomp that waits spins for milliseconds by default. Beside any other busy process each barrier then
// costs a time slice of the scheduler: training slows down thirtyfold. The library reads its settings only when it is
// loaded, so the program starts itself once more with a short spin, unless the user has chosen.
void use_short_spin(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  setenv("GOMP_SPINCOUNT", "2000", 1);
  execv("/proc/self/exe", argv);  // returns only when it fails: then all goes on as it is
}

int run(int argc, char** argv) {
  CLI::App app("Trains neural networks below a memory limit that you set.", "neap");
  app.require_subcommand(1);
  app.set_version_flag("--version", "neap 0.1.0");
  std::vector<std::pair<CLI::App*, neap::Command>> commands;
  const auto add = [&](const char* name, const char* what, neap::Command (*make)(CLI::App&)) {
    CLI::App* sub = app.add_subcommand(name, what);
    commands.emplace_back(sub, make(*sub));
  };
  add("train", "train a model", neap::add_train);
  add("plan", "what would training take, and does it fit", neap::add_plan);
  add("pack", "offsets in an arena for blocks with known lifetimes", neap::add_pack);
  add("compare", "several budgets and policies side by side", neap::add_compare);
  add("profile", "time, bytes and bandwidth of each layer", neap::add_profile);
  add("fit", "the largest batch or length that a budget holds", neap::add_fit);
  add("report", "a page for people, from what a run wrote with --json", neap::add_report);
  add("infer", "a model over a data set, forward only", neap::add_infer);
  add("budget", "another budget for a training run, from its next step on", neap::add_budget);
  add("pretrain", "measure this machine and prepare the agent for recurrent layers", neap::add_pretrain);
  add("models", "what is built in", neap::add_models);
  std::string meant;
  try {
    std::vector<std::string> arguments = neap::with_config(app, argc, argv);
    neap::refuse_missing_values(app, arguments);
    meant = neap::meant_flag(app, arguments);
    std::reverse(arguments.begin(), arguments.end());  // as the parser wants them
    app.parse(arguments);
  } catch (const CLI::Success& e) {  // --help, --version
    return app.exit(e);
  } catch (const CLI::ExtrasError& e) {
    return complain(kWrongCall, fmt::format("{}{} (neap --help lists the flags)", e.what(), meant));
  } catch (const CLI::ParseError& e) {
    return complain(kWrongCall, fmt::format("{} (neap --help lists the flags)", e.what()));
  }
  for (const auto& [sub, command] : commands) {
    if (!sub->parsed()) continue;
    neap::refuse_empty_values(*sub);
    return command();
  }
  return kWrongCall;
}

}  // namespace

int main(int argc, char** argv) {
  use_short_spin(argv);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows too large is an error of the write, said in one line
  std::signal(SIGPIPE, SIG_IGN);  // so is a reader of our output that went away
  try {
    return checked(run(argc, argv));
  } catch (const neap::UserError& e) {
    return complain(kWrongCall, e.what());
  } catch (const neap::DoesNotFit& e) {
    return complain(kDoesNotFit, e.what());
  } catch (const neap::DeviceError& e) {
    return complain(kDeviceFailed, e.what());
  } catch (const std::bad_alloc&) {
    return complain(kDeviceFailed, "the machine has no memory left");
  } catch (const std::system_error& e) {  // what fmt throws
    if (std::ferror(stdout) != 0) return complain(kWrongCall, kLostOutput);
    return complain(kBug, fmt::format("internal error: {}", e.what()));
  } catch (const std::exception& e) {
    return complain(kBug, fmt::format("internal error: {}", e.what()));
  }
}
