#include "cli/dead_sockets.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "cli/control.h"
#include "cli/socket.h"

namespace neap {
namespace {

constexpr std::time_t kYoung = 60;  // seconds

// Of "neap-PID.sock"; none: it is another name.
std::optional<pid_t> process_in(std::string_view name) {
  constexpr std::string_view kBegin = "neap-";
  constexpr std::string_view kEnd = ".sock";
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd) || name.size() < kBegin.size() + kEnd.size()) return {};
  name = name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size());
  pid_t pid = 0;
  const auto [end, status] = std::from_chars(name.data(), name.data() + name.size(), pid);
  if (status != std::errc() || end != name.data() + name.size() || pid <= 0) return {};
  return pid;
}

// A process that is there may be between making its socket and listening.
bool may_be_about_to_listen(pid_t pid, const struct stat& info) {
  const bool is_there = kill(pid, 0) == 0 || errno != ESRCH;
  return is_there && std::time(nullptr) - info.st_mtime < kYoung;
}

bool refuses_connections(const std::string& path) {
  if (path.size() >= sizeof(sockaddr_un::sun_path)) return false;
  const Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_un address = address_of(path);
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 && errno == ECONNREFUSED;
}

bool is_dead(const std::string& path, pid_t pid) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode) || info.st_uid != geteuid()) return false;
  return !may_be_about_to_listen(pid, info) && refuses_connections(path);
}

void remove_dead_sockets_in(const std::string& folder) {
  std::error_code failed;
  std::filesystem::directory_iterator at(folder, failed);
  for (; !failed && at != std::filesystem::directory_iterator(); at.increment(failed)) {
    const std::optional<pid_t> pid = process_in(at->path().filename().string());
    if (pid && is_dead(at->path().string(), *pid)) unlink(at->path().c_str());
  }
}

}  // namespace

void remove_dead_sockets() {
  const std::string own = control_folder();
  remove_dead_sockets_in(own);
  if (own != kSharedFolder) remove_dead_sockets_in(kSharedFolder);  // of runs outside of this session
}

}  // namespace neap
