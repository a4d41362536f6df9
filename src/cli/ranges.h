// Numbers that flags take, refused in words.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

namespace neap {

// Beyond it 64 bits do not hold a whole number.
constexpr double kLargestNumber = 9.2e18;

template <class Fits>
CLI::Validator number_that(Fits fits, const char* what, const char* name) {
  const auto check = [fits, what](std::string& text) {
    double number = 0;
    const bool is_good = CLI::detail::lexical_cast(text, number) && fits(number) && number < kLargestNumber;
    return is_good ? std::string() : fmt::format("'{}' is not {}", text, what);
  };
  return CLI::Validator(check, name);
}

inline CLI::Validator positive() {
  return number_that([](double number) { return number > 0; }, "a number above 0", "POSITIVE");
}

inline CLI::Validator not_negative() {
  return number_that([](double number) { return number >= 0; }, "a number from 0 on", "NONNEGATIVE");
}

}  // namespace neap
