#include "core/log_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "core/file.h"
#include "neap/error.h"

namespace neap {

LogFile::LogFile(std::filesystem::path path)
    : path_(std::move(path)), target_(follow_links(path_)), part_(part_of(path_)) {
  const AtomicFile probe(path_);  // says now, not after the first step, that it cannot be written
  check_part();
}

LogFile::~LogFile() {
  if (fd_ >= 0) ::close(fd_);
}

std::filesystem::path LogFile::part_of(const std::filesystem::path& path) { return follow_links(path) += ".part"; }

void LogFile::fail(int error) const {
  throw UserError(fmt::format("cannot write '{}': {}", path_.string(), file_error(error)));
}

// Two runs would each take the other's lines for their own; a folder or a device of that name is nobody's log.
void LogFile::check_part() const {
  struct stat info {};
  if (::lstat(part_.c_str(), &info) != 0) {
    if (errno != ENOENT) fail(errno);
    return;
  }
  if (!S_ISREG(info.st_mode)) {
    throw UserError(fmt::format("cannot write '{}': '{}' is in the way", path_.string(), part_.string()));
  }
  const int fd = ::open(part_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return;
  const bool is_taken = ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(fd);
  if (is_taken) throw UserError(fmt::format("cannot write '{}': another run writes it now", path_.string()));
}

void LogFile::open() {
  check_part();
  ::unlink(part_.c_str());  // of a run that was killed
  fd_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd_ < 0) fail(errno);
  ::fchmod(fd_, 0644);    // as AtomicFile, whatever the umask
  ::flock(fd_, LOCK_EX);  // who looks holds it for an instant; not every file system can: then nobody sees another run
}

// 0 or the error.
int LogFile::write_at_end(std::string_view text) const {
  for (std::int64_t at = size_; !text.empty();) {
    const ssize_t written = ::pwrite(fd_, text.data(), text.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written == 0 ? ENOSPC : errno;
    text.remove_prefix(static_cast<std::size_t>(written));
    at += written;
  }
  return 0;
}

int LogFile::cut(std::size_t behind) const {
  return ::ftruncate(fd_, size_ + static_cast<std::int64_t>(behind)) != 0 ? errno : 0;
}

void LogFile::put(std::string_view text) {
  if (fd_ < 0) open();
  int error = write_at_end(text);
  if (error == 0 && text.size() < draft_.size()) error = cut(text.size());
  if (error == 0) return;
  if (write_at_end(draft_) == 0) cut(draft_.size());  // whole lines are what stays
  fail(error);
}

void LogFile::line(std::string_view text) {
  put(text);
  size_ += static_cast<std::int64_t>(text.size());
  draft_.clear();
}

void LogFile::draft(std::string text) {
  put(text);
  draft_ = std::move(text);
}

bool LogFile::is_still_ours() const {
  struct stat open {};
  struct stat named {};
  return ::fstat(fd_, &open) == 0 && ::lstat(part_.c_str(), &named) == 0 && open.st_dev == named.st_dev &&
         open.st_ino == named.st_ino;
}

void LogFile::finish() {
  if (fd_ < 0) return;
  if (::fsync(fd_) != 0) fail(errno);
  if (!is_still_ours()) {
    throw UserError(fmt::format("cannot write '{}': '{}' was taken away", path_.string(), part_.string()));
  }
  if (::rename(part_.c_str(), target_.c_str()) != 0) fail(errno);
  ::close(std::exchange(fd_, -1));
  if (const int error = sync_folder_of(target_); error != 0) fail(error);
}

}  // namespace neap
