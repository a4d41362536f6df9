// Counts the calls of malloc and its kin (operator new ends there too) by the whole process, libraries included.
#pragma once

#include <cstdint>

void count_allocations(bool on);
std::int64_t counted_allocations();
