#pragma once

#include <cstdint>

#include "device/cpu/isa.h"

namespace neap {

// Of a run of groups. Sums are over finite elements; min > max where there are none.
struct Moments {
  std::int64_t elements, nan, infinite, outliers;
  float min, max;
  double mean, square_deviation;  // sum of (x - mean)^2
  double range_square;            // sum over the elements of their group's range, squared
  float widest, narrowest;        // narrowest: of those that are not constant, 0 if there is none
};

struct StatisticsTable {
  // Elements below `low` or above `high` are outliers.
  Moments (*moments)(const float* src, std::int64_t n, float low, float high);
};

NEAP_ISA_TABLE(StatisticsTable, statistics_table)

}  // namespace neap
