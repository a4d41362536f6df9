// What both ends of a run's socket need.
#pragma once

#include <fmt/format.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "neap/error.h"

namespace neap {

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

inline sockaddr_un address_of(const std::string& path) {
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  if (path.size() >= sizeof out.sun_path) throw UserError(fmt::format("'{}' is too long for a socket", path));
  std::memcpy(out.sun_path, path.c_str(), path.size() + 1);
  return out;
}

}  // namespace neap
