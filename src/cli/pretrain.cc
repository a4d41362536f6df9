#include "policy/ppo/pretrain.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "cli/commands.h"
#include "cli/ranges.h"
#include "cli/train_flags.h"
#include "core/clock.h"
#include "core/file.h"
#include "device/device.h"
#include "neap/error.h"
#include "policy/ppo/policy_file.h"

namespace neap {
namespace {

struct PretrainCommand {
  std::string what;
  std::string out = recurrent_policy_path();
  std::string gears = RecurrentTraining{}.offered;
  double seconds = 60;
  int rounds = 300;
  int threads = 0;
  bool any_machine = false;
};

const char* name_of(CellKind kind) { return kind == CellKind::kLstm ? "lstm" : kind == CellKind::kGru ? "gru" : "rnn"; }

void print_row(const ppo::Measured& row, const std::vector<ppo::Action>& actions) {
  const auto best = std::min_element(row.us.begin(), row.us.end()) - row.us.begin();
  const ppo::Setting& s = row.setting;
  fmt::print("{} of {} units, batch {}, input {}, chunks of {}{}: {} is best, {:.1f} us a step; rolled {:.1f}\n",
             name_of(s.kind), s.hidden, s.batch, s.input, s.chunk, row.is_busy ? ", beside others" : "",
             actions[static_cast<std::size_t>(best)].gear.text(), row.us[static_cast<std::size_t>(best)], row.us[0]);
  std::fflush(stdout);
}

void make_folder_of(const std::filesystem::path& path) {
  if (!path.has_parent_path()) return;
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (!error) return;
  throw UserError(fmt::format("cannot make the folder '{}': {}; --save FILE puts the policy elsewhere",
                              path.parent_path().string(), file_error(error.value())));
}

int run(const PretrainCommand& c) {
  const std::filesystem::path path = c.out;
  make_folder_of(path);
  AtomicFile file(path);                           // before minutes of work
  const auto device = make_cpu_device(c.threads);  // sets the threads
  ppo::Agent agent({.gears = parse_gears(c.gears), .ppo = {.epsilon = 0.05}});
  const auto table = ppo::measure(ppo::default_settings(), agent.actions(), {.seconds = c.seconds},
                                  [&](const ppo::Measured& row) { print_row(row, agent.actions()); });
  const double before = ppo::regret(agent, table);
  const auto start = Clock::now();
  ppo::pretrain(agent, table, {.rounds = c.rounds}, [&](int round, double reward) {
    if (round % 50 == 0) fmt::print("round {}: mean reward {:.4f}\n", round, reward);
    std::fflush(stdout);
  });
  fmt::print("choices cost {:.1f} % over the best of {} measured settings ({:.1f} % before); {:.1f} s of learning\n",
             100 * ppo::regret(agent, table), table.size(), 100 * before, ms_since(start) / 1e3);
  file.write(ppo::to_text({c.any_machine ? "any" : ppo::machine_text(), agent.network().weights()}));
  file.commit();
  fmt::print("written to {}{}\n", c.out, c.out == recurrent_policy_path() ? "" : "; use it with --recurrent-policy");
  return 0;
}

}  // namespace

Command add_pretrain(CLI::App& app) {
  auto command = std::make_shared<PretrainCommand>();
  app.add_option("WHAT", command->what, "recurrent")->required()->check(CLI::IsMember({"recurrent"}));
  app.add_option("--save", command->out, "where the policy goes; by default where training looks for it");
  app.add_option("--gears", command->gears, "the gears to choose from, as in rolled,unrolled:8,whole");
  app.add_option("--seconds", command->seconds, "time for measuring")->check(CLI::Range(0.1, 36000.0));
  app.add_option("--rounds", command->rounds, "of learning")->check(CLI::Range(1, 100000));
  app.add_option("--threads", command->threads, "0: as many as there are")->check(not_negative());
  app.add_flag("--any-machine", command->any_machine, "do not tie the policy to this machine");
  return [command] { return run(*command); };
}

}  // namespace neap
