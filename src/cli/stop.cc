#include "cli/stop.h"

#include <csignal>

namespace neap {
namespace {

volatile std::sig_atomic_t g_stop = 0;

void ask_to_stop(int /*signal*/) { g_stop = 1; }

}  // namespace

void stop_when_asked() {
  std::signal(SIGINT, ask_to_stop);
  std::signal(SIGTERM, ask_to_stop);
}

bool is_asked_to_stop() { return g_stop != 0; }

}  // namespace neap
