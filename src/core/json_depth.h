// JSON from outside, before it is parsed.
#pragma once

#include <string_view>

namespace neap {

constexpr int kMostJsonLevels = 100;

// Whether lists and objects lie in one another more than kMostJsonLevels deep. The parser itself goes on without
// recursion, but values are copied and compared with it: some 100 KB of brackets use up the stack.
bool is_nested_deeply(std::string_view json);

}  // namespace neap
