// How a running `neap train` is spoken to: a socket named after its process, for its own user alone. One line in
// ("budget 512MiB"), one line out ("ok ..." or "error ...").
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace neap {

// $XDG_RUNTIME_DIR/neap-PID.sock, or the same in /tmp.
std::string control_path(long pid);

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
