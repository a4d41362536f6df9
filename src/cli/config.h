// Settings from a file: --config FILE holds lines NAME = VALUE, each a flag of the command. The command line wins.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace neap {

// The program's arguments with those of the config file put in front of the user's own. UserError names file and key.
std::vector<std::string> with_config(CLI::App& app, int argc, char** argv);

// UserError for --flag '' among what was given: a variable that is not set would leave out a budget without a word.
void refuse_empty_values(const CLI::App& command);

// "; did you mean '--steps'?" for the first of the arguments that is no flag of its command; empty: none is near.
std::string meant_flag(const CLI::App& app, const std::vector<std::string>& arguments);

// UserError when a flag that takes a value is followed by another flag: the parser would take that for the value.
void refuse_missing_values(const CLI::App& app, const std::vector<std::string>& arguments);

// Which of `known` is nearest to what was written; empty when none is near.
std::string nearest(const std::string& written, const std::vector<std::string>& known);

}  // namespace neap
