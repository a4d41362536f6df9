// Where JSON goes ("-" is standard output), and the progress line.
#pragma once

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

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

// All of `text`; UserError when standard output takes no more.
void write_stdout(const std::string& text);

// Shows how training goes: one line that moves on a terminal, plain lines otherwise.
class Progress {
 public:
  Progress(std::int64_t first_step, std::int64_t steps, bool is_quiet);
  ~Progress();
  void show(const StepReport& report, std::int64_t arena_bytes);
  void done();
  void note(const std::string& line);

 private:
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
