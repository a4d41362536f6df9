// Memory against time: which runs no other run beats in both, drawn for the terminal and as SVG.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace neap {

struct ParetoPoint {
  std::string label;
  std::int64_t bytes = 0;
  double ms = 0;
};

// Indices of the points that no other has both fewer bytes and less time than, from the fewest bytes up. Of equals the
// first.
std::vector<std::size_t> pareto_front(const std::vector<ParetoPoint>& points);

// A plot of characters with a letter a point; '*' follows those on the front in the list below it.
std::string pareto_text(const std::vector<ParetoPoint>& points);

// A file of its own, light and dark, that any browser shows.
std::string pareto_svg(const std::vector<ParetoPoint>& points, const std::string& title);

}  // namespace neap
