// Lines of a run, for those who watch it or look at what a killed one has left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace neap {

// Lines that are there while a run writes them, in FILE.part, which takes FILE's name by finish(). A run that is killed
// or fails leaves FILE.part, which the next one replaces, and an older FILE stays. A line costs one write(2); nothing
// exists before the first.
class LogFile {
 public:
  // UserError at once when FILE cannot be written, or another run writes it.
  explicit LogFile(std::filesystem::path path);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  static std::filesystem::path part_of(const std::filesystem::path& path);

  // `text` ends with the end of a line. UserError: it could not be written, and the lines before it stand.
  void line(std::string_view text);
  // A line that the next one takes the place of.
  void draft(std::string text);
  // Makes the lines durable and gives them their name; without a line nothing changes.
  void finish();

 private:
  [[noreturn]] void fail(int error) const;
  void check_part() const;
  bool is_still_ours() const;
  void open();
  void put(std::string_view text);
  int write_at_end(std::string_view text) const;
  int cut(std::size_t behind) const;

  std::filesystem::path path_;    // as the caller wrote it, for messages
  std::filesystem::path target_;  // with symbolic links followed
  std::filesystem::path part_;
  int fd_ = -1;
  std::int64_t size_ = 0;  // of all lines but the draft
  std::string draft_;
};

}  // namespace neap
