#include "core/json_depth.h"

#include <cstddef>

namespace neap {

// As the parser counts, up to the first place where the text is no JSON; what comes behind that is refused anyway.
bool is_nested_deeply(std::string_view json) {
  int level = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string && c == '\\') {
      ++i;  // what it escapes may be a quote
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == '[' || c == '{')) {
      if (++level > kMostJsonLevels) return true;
    } else if (!in_string && (c == ']' || c == '}')) {
      --level;
    }
  }
  return false;
}

}  // namespace neap
