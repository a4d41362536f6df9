#include "cli/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>

#include "core/bytes.h"
#include "core/log_file.h"
#include "neap/error.h"

namespace neap {
namespace {

constexpr auto kTerminalPause = std::chrono::milliseconds(100);
constexpr auto kPlainPause = std::chrono::seconds(2);

std::string clock_text(double seconds) {
  const auto s = std::llround(seconds);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string bar(double share, int width) {
  const int full = std::clamp(static_cast<int>(std::lround(share * width)), 0, width);
  std::string out;
  for (int i = 0; i < width; ++i) out += i < full ? "█" : "░";
  return out;
}

}  // namespace

JsonLines::JsonLines(const std::string& path, Appears appears) : path_(path) {
  if (path.empty()) return;
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (path == "-") {
    is_stdout_ = true;
    through_ = stdout;
  } else if (std::filesystem::is_character_file(status) || std::filesystem::is_fifo(status)) {
    through_ = std::fopen(path.c_str(), "w");
    if (through_ == nullptr) throw UserError(fmt::format("cannot write '{}': {}", path, std::strerror(errno)));
  } else if (appears == Appears::kGrowing) {
    log_ = std::make_unique<LogFile>(path);
  } else {
    file_ = std::make_unique<AtomicFile>(path);
  }
}

JsonLines::~JsonLines() {
  if (through_ != nullptr && !is_stdout_) std::fclose(through_);
}

void JsonLines::line(const Json& object) {
  if (!is_on()) return;
  const std::string text = object.dump() + "\n";
  if (file_) {
    file_->write(text);
    return;
  }
  if (log_) {
    log_->line(text);
    return;
  }
  if (std::fwrite(text.data(), 1, text.size(), through_) != text.size() || std::fflush(through_) != 0) {
    throw UserError(fmt::format("cannot write '{}': {}", is_stdout_ ? "standard output" : path_, std::strerror(errno)));
  }
}

void JsonLines::draft(const Json& object) {
  if (log_) log_->draft(object.dump() + "\n");
}

void JsonLines::finish() {
  if (file_) file_->commit();
  file_.reset();
  if (log_) log_->finish();
  log_.reset();
}

void tell(std::string_view text) {
  std::string line = "neap: ";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    line += c == '\n' ? "\\n" : code < 0x20 || code == 0x7f ? fmt::format("\\x{:02x}", code) : std::string(1, c);
  }
  line += "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void refuse_one_file_for_two(const std::vector<NamedFile>& files) {
  std::map<std::filesystem::path, std::string> flags;
  for (const NamedFile& file : files) {
    std::error_code failed;
    const bool is_file = !file.path.empty() && file.path != "-";
    if (!is_file || std::filesystem::is_character_file(file.path, failed)) continue;
    const std::filesystem::path path = std::filesystem::weakly_canonical(file.path, failed);
    const auto [first, is_new] = flags.emplace(failed ? std::filesystem::path(file.path) : path, file.flag);
    if (!is_new) throw UserError(fmt::format("{} and {} are both '{}'", first->second, file.flag, file.path));
  }
}

void write_stdout(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw UserError(fmt::format("cannot write 'standard output': {}", std::strerror(errno)));
  }
}

Progress::Progress(std::int64_t first_step, std::int64_t steps, bool is_quiet)
    : first_step_(first_step), steps_(steps), is_quiet_(is_quiet), is_terminal_(isatty(STDOUT_FILENO) == 1) {}

Progress::~Progress() { done(); }

void Progress::show(const StepReport& report, std::int64_t arena_bytes) {
  if (is_quiet_) return;
  const auto now = Clock::now();
  const auto pause = is_terminal_ ? Clock::duration(kTerminalPause) : Clock::duration(kPlainPause);
  const bool is_end = report.step == steps_ || report.step == first_step_ + 1;
  if (!is_end && now - last_ < pause) return;
  last_ = now;
  show_line(report, arena_bytes);
}

void Progress::show_line(const StepReport& r, std::int64_t arena_bytes) {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const double rate = static_cast<double>(r.step - first_step_) / std::max(seconds, 1e-9);
  const double left = static_cast<double>(steps_ - r.step) / std::max(rate, 1e-9);
  const std::string figures = fmt::format("step {}/{}  loss {:.4f}  {:.2f} steps/s", r.step, steps_, r.loss, rate);
  if (!is_terminal_) {
    put(fmt::format("{}  memory {}  left {}\n", figures, human_bytes(r.peak_bytes), clock_text(left)));
    return;
  }
  const std::int64_t limit = r.budget_bytes.value_or(arena_bytes);
  const double share = limit > 0 ? static_cast<double>(r.peak_bytes) / static_cast<double>(limit) : 0;
  put(fmt::format("\r\x1b[K{}  {} {} of {}  left {}", figures, bar(share, 10), human_bytes(r.peak_bytes),
                  human_bytes(limit), clock_text(left)));
  is_open_ = true;
}

void Progress::done() {
  if (is_open_) put("\n");
  is_open_ = false;
}

void Progress::note(const std::string& line) {
  if (is_quiet_) return;
  done();
  put(line + "\n");
}

void Progress::put(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace neap
