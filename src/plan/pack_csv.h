// Packing problems as text: a header `id,lower,upper,size` (columns in any order), then a block a line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/pack.h"

namespace neap {

struct PackTable {
  std::vector<std::string> ids;  // distinct, not empty
  std::vector<PackItem> items;
};

// UserError names `file` and the line. Byte order mark, CRLF, blanks around fields, quoted fields and empty lines are
// accepted; a column `offset` is ignored.
PackTable parse_pack_csv(std::string_view text, const std::string& file);

// The same table with a column `offset`.
std::string to_csv(const PackTable& table, const std::vector<std::int64_t>& offsets);

}  // namespace neap
