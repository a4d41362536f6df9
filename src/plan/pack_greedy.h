// Heuristics that place every bar once, without going back.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/pack_bars.h"

namespace neap {

struct Heights {
  std::vector<std::int64_t> offsets;  // one a bar
  std::int64_t height = 0;
};

// Each bar in turn at the lowest offset (or, with `best`, into the smallest gap) that is free in all of its sections.
enum class Fit { kFirst, kBest };
Heights fit_in_order(const Bars& bars, const std::vector<std::uint32_t>& order, Fit fit, Meter& meter);

// What a bar is worth to the skyline: life^a * size^b in logarithms, plus noise, plus what neat edges earn.
struct SkylineTaste {
  double life = 1;
  double size = 1;
  double beside_wall = 0;  // an end of the bar touches a wall of the gap
  double level = 0;        // and its top is level with that wall
  double pressure = 0;     // times what its fullest section will reach at least, over the lower bound
  double noise = 0;
  std::uint64_t seed = 0;
};

// Fills the lowest gap of the skyline with the bar that is worth the most there; a gap in which nothing fits is lost up
// to its lower wall.
Heights fill_skyline(const Bars& bars, const SkylineTaste& taste, Meter& meter);

}  // namespace neap
