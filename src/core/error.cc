#include "neap/error.h"

#include <fmt/format.h>

namespace neap {

InternalError::InternalError(const std::string& what, std::source_location where)
    : std::logic_error(fmt::format("{} ({}:{})", what, where.file_name(), where.line())) {}

void require(bool holds, const char* what, std::source_location where) {
  if (!holds) throw InternalError(what, where);
}

}  // namespace neap
