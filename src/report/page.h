// The report: one HTML file that needs nothing else, not even a network.
#pragma once

#include <string>

#include "report/record.h"

namespace neap {

std::string report_page(const RunRecord& run);

}  // namespace neap
