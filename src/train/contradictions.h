// Settings that exclude each other, or of which one would silently do nothing: all such rules, in one table.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "neap/train.h"

namespace neap {

// Names of flags, without dashes, that somebody has given.
using GivenFlags = std::set<std::string, std::less<>>;

// One line that names the settings and says what to do; none: they go together.
std::optional<std::string> contradiction_in(const TrainOptions& options, const GivenFlags& given);

// The same as a UserError.
void refuse_contradictions(const TrainOptions& options, const GivenFlags& given);
// What no run can do, whoever has set it: without the rules on what was asked for, since a run may be one of several
// that share settings.
void refuse_contradictions(const TrainOptions& options);

}  // namespace neap
