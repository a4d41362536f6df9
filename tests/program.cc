#include "tests/program.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace neap {

ScratchFolder::ScratchFolder() {
  static std::atomic<int> counter = 0;
  path_ = std::filesystem::temp_directory_path() /
          ("neap-test-" + std::to_string(getpid()) + "-" + std::to_string(counter++));
  std::filesystem::create_directories(path_);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::vector<std::string> ScratchFolder::files() const {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) out.push_back(entry.path().filename());
  return out;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void write_text(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

Outcome run_neap(const std::string& arguments, const std::string& before) {
  const ScratchFolder folder;
  const std::string command = "{ " + before + " " NEAP_PROGRAM " " + arguments + "\n} >" + (folder / "out") + " 2>" +
                              (folder / "err") + " </dev/null";
  const int status = std::system(command.c_str());
  Outcome out;
  out.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  out.out = read_file(folder / "out");
  out.err = read_file(folder / "err");
  return out;
}

}  // namespace neap
