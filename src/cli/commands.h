// The program's commands. Each reads its own flags; errors travel as exceptions to main().
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace neap {

// Adds a command to the program; what it returns runs when the command was given.
using Command = std::function<int()>;
Command add_train(CLI::App& app);
Command add_plan(CLI::App& app);
Command add_pack(CLI::App& app);
Command add_compare(CLI::App& app);
Command add_profile(CLI::App& app);
Command add_fit(CLI::App& app);
Command add_report(CLI::App& app);
Command add_infer(CLI::App& app);
Command add_budget(CLI::App& app);
Command add_models(CLI::App& app);
Command add_pretrain(CLI::App& app);

}  // namespace neap
