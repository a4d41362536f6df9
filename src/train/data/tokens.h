// Streams of tokens: the bytes of a text, or 16-bit numbers.
#pragma once

#include <filesystem>

#include "train/data/array.h"

namespace neap {

// Any file as u8 [bytes]: a vocabulary of 256. UserError when it is empty.
Array read_text(const std::filesystem::path& path);

// Little-endian 16-bit numbers and nothing else, as u16 [tokens]. UserError when it is empty or of odd size.
Array read_tokens(const std::filesystem::path& path);

}  // namespace neap
