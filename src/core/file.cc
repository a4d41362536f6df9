#include "core/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include "core/bytes.h"
#include "neap/error.h"

namespace neap {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBufferBytes = 256 * kKiB;
constexpr int kMaxLinks = 40;  // as the kernel's own limit

// Closes on every way out of a scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void cannot_read(const fs::path& path, const std::string& why) {
  throw UserError(fmt::format("cannot read '{}': {}", path.string(), why));
}

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

std::string descriptor_path(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

}  // namespace

std::string file_error(int error) {
  switch (error) {
    case ENOSPC: return "the disk is full";
    case EDQUOT: return "the disk quota is used up";
    case EFBIG: return "the file would exceed the largest size allowed";
    case EISDIR: return "it is a folder";
    default: return std::generic_category().message(error);
  }
}

std::filesystem::path follow_links(std::filesystem::path path) {
  std::error_code status;
  for (int hop = 0; hop < kMaxLinks && fs::is_symlink(path, status); ++hop) {
    const fs::path target = fs::read_symlink(path, status);
    path = target.is_absolute() ? target : folder_of(path) / target;
  }
  return path;
}

// File systems that cannot sync folders say EINVAL.
int sync_folder_of(const std::filesystem::path& path) {
  const Descriptor fd(::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return errno == EACCES ? 0 : errno;  // a folder may be writable and yet not readable
  return ::fsync(fd.get()) != 0 && errno != EINVAL ? errno : 0;
}

MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  // O_NONBLOCK: a named pipe must be refused, not waited for.
  const Descriptor fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) cannot_read(path_, file_error(errno));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) cannot_read(path_, file_error(errno));
  if (S_ISDIR(info.st_mode)) cannot_read(path_, "it is a folder");
  if (!S_ISREG(info.st_mode)) cannot_read(path_, "it is not a regular file");
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return;
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (address == MAP_FAILED) cannot_read(path_, file_error(errno));
  bytes_ = {static_cast<const std::byte*>(address), size};
}

void forget(std::span<const std::byte> mapped) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped.data());
  const std::uintptr_t first = (begin + page - 1) / page * page;  // whole pages only: others may share the rest
  const std::uintptr_t last = (begin + mapped.size()) / page * page;
  if (last > first) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

AtomicFile::AtomicFile(std::filesystem::path path, Temporary temporary)
    : path_(std::move(path)), target_(follow_links(path_)) {
  check_target();
  buffer_.reserve(kBufferBytes);
  open_temporary(temporary);
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (has_name_) ::unlink(temporary_.c_str());
}

void AtomicFile::fail(int error) const {
  throw UserError(fmt::format("cannot write '{}': {}", path_.string(), file_error(error)));
}

// A rename would replace a device or an unwritable file without a word.
void AtomicFile::check_target() const {
  if (!target_.has_filename()) fail(target_.empty() ? ENOENT : EISDIR);
  struct stat info {};
  if (::lstat(target_.c_str(), &info) != 0) {
    if (errno != ENOENT) fail(errno);
    return;
  }
  if (S_ISDIR(info.st_mode)) fail(EISDIR);
  if (S_ISLNK(info.st_mode)) fail(ELOOP);
  if (!S_ISREG(info.st_mode)) {
    throw UserError(fmt::format("cannot write '{}': it is not a regular file", path_.string()));
  }
  if (::faccessat(AT_FDCWD, target_.c_str(), W_OK, AT_EACCESS) != 0) fail(errno);
}

void AtomicFile::open_temporary(Temporary temporary) {
  const fs::path folder = folder_of(target_);
  if (temporary == Temporary::kUnnamed) {
    fd_ = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0644);
    const bool can_be_named = fd_ >= 0 && ::access(descriptor_path(fd_).c_str(), F_OK) == 0;
    if (fd_ >= 0 && !can_be_named) ::close(std::exchange(fd_, -1));
  }
  if (fd_ < 0) give_name();
  if (::fchmod(fd_, 0644) != 0) {
    // The destructor does not run for a constructor that throws.
    const int error = errno;
    ::close(std::exchange(fd_, -1));
    if (has_name_) ::unlink(temporary_.c_str());
    fail(error);
  }
}

// Creates the temporary under a name, or names the one that is open.
void AtomicFile::give_name() {
  static std::atomic<unsigned> counter = 0;
  while (true) {
    temporary_ = folder_of(target_) / fmt::format(".neap-{}-{}.tmp", ::getpid(), counter++);
    int status = 0;
    if (fd_ < 0) {
      fd_ = status = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    } else {
      status = ::linkat(AT_FDCWD, descriptor_path(fd_).c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW);
    }
    if (status >= 0) break;
    if (errno != EEXIST) fail(errno);
  }
  has_name_ = true;
}

void AtomicFile::write_through(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int error = written == 0 ? ENOSPC : errno;
      ::close(std::exchange(fd_, -1));  // what is there is incomplete: it can never be committed
      fail(error);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::flush() {
  write_through(buffer_);
  buffer_.clear();
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  require(fd_ >= 0, "write after commit");
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  if (bytes.size() >= kBufferBytes) {
    write_through(bytes);
  } else {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
}

void AtomicFile::commit() {
  require(fd_ >= 0, "commit twice");
  flush();
  if (::fsync(fd_) != 0) fail(errno);
  if (!has_name_) give_name();
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail(errno);
  has_name_ = false;
  ::close(std::exchange(fd_, -1));
  if (const int error = sync_folder_of(target_); error != 0) fail(error);
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

std::string printable(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  std::size_t end = std::min(text.size(), kLongest);
  const auto continues = [&](std::size_t i) { return i < text.size() && (text[i] & '\xc0') == '\x80'; };
  for (int back = 0; back < 3 && continues(end); ++back) --end;  // keep whole UTF-8 characters
  std::string out;
  for (const char c : text.substr(0, end)) {
    const auto code = static_cast<unsigned char>(c);
    out += code < 0x20 || code == 0x7f ? fmt::format("\\x{:02x}", code) : std::string(1, c);
  }
  return end < text.size() ? out + "..." : out;
}

}  // namespace neap
