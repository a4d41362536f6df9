// What a tensor's values look like, in one pass at memory speed.
//
// The tensor is cut into groups of 256 and those into at most 64 parts, by its size alone; lanes and parts are added in
// one order. Every instruction set and every number of threads give the same bits. Values that are not finite are
// counted and left out of everything else. Nothing is allocated.
#pragma once

#include <array>
#include <cstdint>

#include "precision/level.h"

namespace neap::precision {

struct Statistics {
  std::int64_t elements = 0;
  std::int64_t nan = 0;
  std::int64_t infinite = 0;
  std::int64_t outliers = 0;  // beyond `outlier_deviations` of the sample's mean
  float min = 0;
  float max = 0;
  double mean = 0;
  double deviation = 0;  // the population's
  double mean_square = 0;
  double entropy = 0;  // bits, 0 to 8: of 256 bins between the sample's extremes
  // Mean over the elements of the square of their group's range (greatest - least): what the integer levels cost.
  double range_square = 0;
  float widest_range = 0;     // of a group
  float narrowest_range = 0;  // of a group that is not constant; 0 when all are
  // On the sample, by level: the mean of f (1 - f) over the elements, weighted by the square of their group's range,
  // where f is an element's place between two steps. 1/6 where values are smooth, 0 where they lie on the grid. Integer
  // levels only; whole groups of finite values only.
  std::array<double, kLevels> between_steps{};

  std::int64_t finite() const { return elements - nan - infinite; }
  friend bool operator==(const Statistics&, const Statistics&) = default;
};

struct StatisticsOptions {
  double outlier_deviations = 4;
};

// The sample: at most 32 groups at equal distances, the first among them.
constexpr std::int64_t kSampleGroups = 32;

Statistics statistics_of(const float* src, std::int64_t elements, const StatisticsOptions& options = {});

}  // namespace neap::precision
