// Activities of the GPU by NVIDIA's CUPTI, which is loaded when somebody asks for it: most runs never do.
#pragma once

#include <string>

#include "device/activity.h"

namespace neap {

// The process's one log. Null where CUPTI cannot be had, and `why` says so in one line.
ActivityLog* cupti_log(std::string& why);

}  // namespace neap
