// The page's parts, put into the program when it is built (cmake/embed.cmake): src/report/page/, and Chart.js as Debian
// has it.
#pragma once

#include <string_view>

namespace neap {

extern const std::string_view kPageHtml;
extern const std::string_view kPageCss;
extern const std::string_view kPageJs;
extern const std::string_view kChartJs;

}  // namespace neap
