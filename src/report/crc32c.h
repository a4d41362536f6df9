// CRC-32C (Castagnoli), as files of records carry it. For a few bytes a step: a table will do.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace neap {

constexpr std::array<std::uint32_t, 256> crc32c_table() {
  constexpr std::uint32_t kPolynomial = 0x82F63B78;  // reversed
  std::array<std::uint32_t, 256> out{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    out[i] = value;
  }
  return out;
}

constexpr std::uint32_t crc32c(std::string_view bytes) {
  constexpr auto kTable = crc32c_table();
  std::uint32_t out = ~0U;
  for (const char c : bytes) out = (out >> 8) ^ kTable[(out ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~out;
}

}  // namespace neap
