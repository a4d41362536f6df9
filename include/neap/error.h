// Errors that reach the caller. Expected outcomes ("does not fit", "kernel declined") are return values instead.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>

namespace neap {

// The call or the input is wrong: names the op, tensor, shapes, file or flag, and what to do. Exit status 2.
class UserError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// It does not fit: says the minimum and what it consists of. Exit status 3.
class DoesNotFit : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The device failed: names the call, the status and the kernel. Exit status 4.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A bug of ours, with its source location.
class InternalError : public std::logic_error {
 public:
  explicit InternalError(const std::string& what, std::source_location where = std::source_location::current());
};

// Throws InternalError unless `holds`.
void require(bool holds, const char* what, std::source_location where = std::source_location::current());

}  // namespace neap
