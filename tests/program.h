// Runs the program `neap` as a user would.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace neap {

struct Outcome {
  int status = -1;
  std::string out;
  std::string err;
};

// `arguments` go through a shell: quote what needs it.
Outcome run_neap(const std::string& arguments, const std::string& before = "");

// A folder that goes away with the object.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::vector<std::string> files() const;

 private:
  std::filesystem::path path_;
};

std::string read_file(const std::string& path);
void write_text(const std::string& path, const std::string& text);

}  // namespace neap
