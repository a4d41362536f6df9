// Files: read through a mapping, and replaced as a whole or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace neap {

// A regular file mapped read-only. UserError names the file and the reason. Pages come in when they are touched, so a
// file may be larger than memory; one that somebody shortens while it is mapped raises SIGBUS, as any mapping does.
class MappedFile {
 public:
  explicit MappedFile(std::filesystem::path path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  const std::filesystem::path& path() const { return path_; }
  std::size_t size() const { return bytes_.size(); }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

// Lets go of the memory behind these bytes of a mapping until they are read again.
void forget(std::span<const std::byte> mapped);

// Writes a file so that after any failure, exception, crash or power cut its name holds either the old bytes or all of
// the new ones. Without commit() nothing changes. Where the file system can, the new bytes have no name until they are
// complete, so that even a killed process leaves nothing behind.
class AtomicFile {
 public:
  // kNamed is what file systems without O_TMPFILE get; a test may ask for it.
  enum class Temporary { kUnnamed, kNamed };

  explicit AtomicFile(std::filesystem::path path, Temporary temporary = Temporary::kUnnamed);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Makes the bytes durable and puts them in place, mode 0644. Nothing may be written afterwards.
  void commit();

 private:
  [[noreturn]] void fail(int error) const;
  void check_target() const;
  void open_temporary(Temporary temporary);
  void give_name();
  void flush();
  void write_through(std::span<const std::byte> bytes);

  std::filesystem::path path_;    // as the caller wrote it, for messages
  std::filesystem::path target_;  // with symbolic links followed
  std::filesystem::path temporary_;
  bool has_name_ = false;  // temporary_ exists and must be removed or renamed
  int fd_ = -1;
  std::vector<std::byte> buffer_;
};

// All of `text` through an AtomicFile.
void write_file(const std::filesystem::path& path, std::string_view text);

// What an errno of a file means to its owner.
std::string file_error(int error);

// Where a chain of symbolic links ends: replacing a link itself would cut the user's; its target is what is meant.
std::filesystem::path follow_links(std::filesystem::path path);

// A name is durable only when its folder is. 0 or the errno.
int sync_folder_of(const std::filesystem::path& path);

// Text out of a file, fit for a message of one line: control characters escaped, no longer than ~80 bytes.
std::string printable(std::string_view text);

}  // namespace neap
