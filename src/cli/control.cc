#include "cli/control.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

#include "cli/dead_sockets.h"
#include "cli/socket.h"
#include "neap/error.h"

namespace neap {
namespace {

constexpr std::size_t kLongest = 256;  // of a line
constexpr int kPatienceMs = 5000;      // with a peer that says nothing

bool is_ready(int fd) {
  pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&wait, 1, kPatienceMs) == 1;
}

// Up to the line end; what a peer sends beyond a line's length is not read.
std::string read_line(int fd) {
  std::string out;
  char c = 0;
  while (out.size() < kLongest && is_ready(fd) && read(fd, &c, 1) == 1 && c != '\n') out += c;
  return out;
}

void write_line(int fd, std::string line) {
  line += '\n';
  (void)!send(fd, line.data(), line.size(), MSG_NOSIGNAL);
}

ucred peer_of(int fd) {
  ucred out{};
  socklen_t size = sizeof out;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &out, &size) != 0) out = {.pid = -1, .uid = ~0U, .gid = ~0U};
  return out;
}

// What that process was started with; empty: it has none, or is another user's.
std::string runtime_folder_of(long pid) {
  constexpr std::string_view kName = "XDG_RUNTIME_DIR=";
  std::ifstream in(fmt::format("/proc/{}/environ", pid), std::ios::binary);
  for (std::string entry; std::getline(in, entry, '\0');) {
    if (entry.starts_with(kName)) return entry.substr(kName.size());
  }
  return {};
}

ControlPlaces places_of(long pid) {
  const char* folder = std::getenv("XDG_RUNTIME_DIR");
  ControlPlaces out{.of_process = runtime_folder_of(pid), .of_caller = folder != nullptr ? folder : "", .owner = {}};
  struct stat process {};
  if (stat(fmt::format("/proc/{}", pid).c_str(), &process) == 0) out.owner = process.st_uid;
  return out;
}

// None: that process does not listen there. Who else does is told nothing.
std::optional<std::string> answer_at(const std::string& path, long pid, const std::string& line) {
  if (path.size() >= sizeof(sockaddr_un::sun_path)) return std::nullopt;
  const Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = address_of(path);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      peer_of(fd.get()).pid != static_cast<pid_t>(pid)) {
    return std::nullopt;
  }
  write_line(fd.get(), line);
  return read_line(fd.get());
}

}  // namespace

std::string control_folder() {
  const char* folder = std::getenv("XDG_RUNTIME_DIR");
  std::error_code ignored;
  const bool has_folder = folder != nullptr && std::filesystem::is_directory(folder, ignored);
  return has_folder ? folder : kSharedFolder;
}

std::string control_path(long pid) { return fmt::format("{}/neap-{}.sock", control_folder(), pid); }

ControlSocket::ControlSocket(Handler handler) : handler_(std::move(handler)), path_(control_path(getpid())) {
  remove_dead_sockets();
  try {
    const sockaddr_un address = address_of(path_);
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unlink(path_.c_str());  // of a process that had our number and was killed
    const mode_t before = umask(0177);
    const bool is_bound = bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    const int error = errno;
    umask(before);
    if (!is_bound) throw UserError(fmt::format("'{}': {}", path_, std::strerror(error)));
    if (listen(listener_, 4) != 0 || pipe(stop_) != 0) throw UserError(std::strerror(errno));
    thread_ = std::thread([this] { run(); });
  } catch (const UserError& e) {
    why_ = e.what();
  }
}

ControlSocket::~ControlSocket() {
  if (thread_.joinable()) {
    close(stop_[1]);
    thread_.join();
    close(stop_[0]);
    unlink(path_.c_str());
  }
  if (listener_ >= 0) close(listener_);
}

void ControlSocket::run() {
  for (;;) {
    pollfd waits[] = {{.fd = listener_, .events = POLLIN, .revents = 0}, {.fd = stop_[0], .events = 0, .revents = 0}};
    if (poll(waits, 2, -1) < 0 && errno != EINTR) return;
    if (waits[1].revents != 0) return;
    if ((waits[0].revents & POLLIN) == 0) continue;
    const Fd peer(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC));
    if (peer.get() >= 0) serve(peer.get());
  }
}

void ControlSocket::serve(int peer) const {
  const uid_t user = peer_of(peer).uid;
  if (user != getuid() && user != 0) return write_line(peer, "error it belongs to another user");
  try {
    write_line(peer, "ok " + handler_(read_line(peer)));
  } catch (const UserError& e) {
    write_line(peer, std::string("error ") + e.what());
  }
}

std::string tell_process(long pid, const std::string& line) {
  remove_dead_sockets();
  if (pid <= 0 || (kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH)) {
    throw UserError(fmt::format("there is no process {}", pid));
  }
  for (const std::string& path : control_paths(pid, places_of(pid))) {
    const std::optional<std::string> answer = answer_at(path, pid, line);
    if (!answer) continue;
    if (answer->starts_with("ok ")) return answer->substr(3);
    if (answer->starts_with("error ")) throw UserError(answer->substr(6));
    throw UserError(fmt::format("process {} does not answer", pid));
  }
  throw UserError(fmt::format("process {} is no training run of neap's, or not one that has begun", pid));
}

}  // namespace neap
