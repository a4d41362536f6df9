// Abstract problems as JSON (docs/formats.md), and back.
#pragma once

#include <string>
#include <string_view>

#include "remat/problem.h"

namespace neap::remat {

// UserError in one line names the file and what is wrong with it. The result is sound (find_fault). `has_budget` false:
// the key may be missing.
Problem parse_problem(std::string_view text, const std::string& file, bool has_budget = true);

std::string to_json_text(const Problem& problem);

}  // namespace neap::remat
