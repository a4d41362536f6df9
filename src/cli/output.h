// Where JSON goes ("-" is standard output), and the progress line.
#pragma once

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/file.h"
#include "report/json.h"

namespace neap {

class LogFile;

// Lines of JSON for one run. "-" and what is no regular file (a pipe, a terminal) is written through at once.
class JsonLines {
 public:
  // When a regular file is there: once it is complete, or from the first line on, beside its place (LogFile).
  enum class Appears { kComplete, kGrowing };

  // Empty path: off. UserError at once when the path cannot be written.
  explicit JsonLines(const std::string& path, Appears appears = Appears::kComplete);
  ~JsonLines();

  bool is_on() const { return through_ != nullptr || file_ != nullptr || log_ != nullptr; }
  bool is_stdout() const { return is_stdout_; }
  void line(const Json& object);
  // What the next line replaces, should it ever come. Only in a growing file: elsewhere a line is there for good.
  void draft(const Json& object);
  void finish();

 private:
  bool is_stdout_ = false;
  std::FILE* through_ = nullptr;
  std::string path_;
  std::unique_ptr<AtomicFile> file_;
  std::unique_ptr<LogFile> log_;
};

// "neap: " and the text as one line on standard error. Where nobody takes it, it is lost; nothing else is.
void tell(std::string_view text);

// All of `text`; UserError when standard output takes no more.
void write_stdout(const std::string& text);

// A flag and the file that it writes or reads.
struct NamedFile {
  std::string flag;
  std::string path;  // empty or "-": no file
};
// UserError when two of them are one file: whoever is last would replace what the other has written.
void refuse_one_file_for_two(const std::vector<NamedFile>& files);

// Shows how training goes: one line that moves on a terminal, plain lines otherwise.
class Progress {
 public:
  Progress(std::int64_t first_step, std::int64_t steps, bool is_quiet);
  ~Progress();
  void show(const StepReport& report, std::int64_t arena_bytes);
  void done();
  void note(const std::string& line);

 private:
  // Training does not end because nobody reads of it; main() says in the end that something is missing.
  static void put(const std::string& text);
  void show_line(const StepReport& report, std::int64_t arena_bytes);
  using Clock = std::chrono::steady_clock;
  std::int64_t first_step_;
  std::int64_t steps_;
  bool is_quiet_;
  bool is_terminal_;
  bool is_open_ = false;  // a moving line stands on the terminal
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = {};
};

}  // namespace neap
