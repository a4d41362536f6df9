// How a running `neap train` is spoken to: a socket named after its process, for its own user alone. One line in
// ("budget 512MiB"), one line out ("ok ..." or "error ...").
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace neap {

inline constexpr const char* kSharedFolder = "/tmp";

// $XDG_RUNTIME_DIR, or /tmp where there is none.
std::string control_folder();
// neap-PID.sock in it: where a process makes its own.
std::string control_path(long pid);

// What those who ask know of another process. It may have begun in another session (ssh, systemd, sudo) than theirs.
struct ControlPlaces {
  std::string of_process;  // its XDG_RUNTIME_DIR; empty: unknown, or it has none
  std::string of_caller;   // ours
  std::optional<unsigned> owner;
};

// Every path that its socket may have, likeliest first. Here for its test, which no library with cli/ in it serves.
inline std::vector<std::string> control_paths(long pid, const ControlPlaces& places) {
  std::vector<std::string> out;
  const auto add = [&](const std::string& folder) {
    std::string path = folder + "/neap-" + std::to_string(pid) + ".sock";
    if (!folder.empty() && std::find(out.begin(), out.end(), path) == out.end()) out.push_back(std::move(path));
  };
  add(places.of_process);
  add(places.of_caller);
  if (places.owner) add("/run/user/" + std::to_string(*places.owner));
  add(kSharedFolder);
  return out;
}

class ControlSocket {
 public:
  // What a line is answered with; UserError becomes "error ...". Called from a thread of the socket's.
  using Handler = std::function<std::string(const std::string& line)>;

  // Where no socket can be made training goes on without one; why() says so.
  explicit ControlSocket(Handler handler);
  ~ControlSocket();
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

  const std::string& why() const { return why_; }

 private:
  void run();
  void serve(int peer) const;

  Handler handler_;
  std::string path_;
  std::string why_;  // there is no socket; empty: there is one
  int listener_ = -1;
  int stop_[2] = {-1, -1};  // a pipe that ends the thread
  std::thread thread_;
};

// Sends a line to that process and returns its answer. UserError: there is no such process, or it is none that answers.
std::string tell_process(long pid, const std::string& line);

}  // namespace neap
