#include "pool/spill_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <liburing.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/bytes.h"
#include "neap/error.h"

namespace neap {
namespace {

constexpr std::int64_t kPiece = kMiB;  // measured: the fastest, with 8 of them on their way
constexpr unsigned kDepth = 8;

std::string reason(int error) { return std::strerror(error); }

// Nobody else can open it, and it is gone with the process, killed or not.
int open_unnamed(const std::string& folder, bool is_direct) {
  const int flags = O_RDWR | O_CLOEXEC | (is_direct ? O_DIRECT : 0);
  const int fd = ::open(folder.c_str(), flags | O_TMPFILE, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
  std::string path = folder + "/neap-spill-XXXXXX";
  const int named = ::mkostemp(path.data(), flags & ~O_RDWR);
  if (named >= 0) ::unlink(path.c_str());
  return named;
}

}  // namespace

struct SpillFile::Ring {
  io_uring ring{};
  ~Ring() { io_uring_queue_exit(&ring); }
};

SpillFile::SpillFile(const std::string& folder, std::int64_t bytes) {
  const auto refuse = [&](const std::string& why) {
    if (fd_ >= 0) ::close(fd_);
    throw UserError(fmt::format("cannot spill to '{}': {}; give another --spill-dir", folder, why));
  };
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0) refuse(reason(errno));
  if (!S_ISDIR(info.st_mode)) refuse("it is no folder");
  is_direct_ = true;
  fd_ = open_unnamed(folder, true);
  if (fd_ < 0 && errno == EINVAL) {  // a file system in memory, say
    is_direct_ = false;
    fd_ = open_unnamed(folder, false);
  }
  if (fd_ < 0) refuse(reason(errno));
  // Space is taken before the first step: a disk that fills up meanwhile cannot stop one in its middle.
  if (bytes > 0) {
    const int error = ::posix_fallocate(fd_, 0, bytes);
    if (error == ENOSPC || error == EFBIG || error == EDQUOT)
      refuse(fmt::format("{} do not fit there", human_bytes(bytes)));
    if (error != 0 && ::ftruncate(fd_, bytes) != 0) refuse(reason(errno));
  }
  auto ring = std::make_unique<Ring>();
  if (io_uring_queue_init(kDepth, &ring->ring, 0) == 0) {
    ring_ = std::move(ring);
  } else {
    (void)ring.release();  // it was never set up
  }
}

SpillFile::~SpillFile() {
  ring_.reset();
  if (fd_ >= 0) ::close(fd_);
}

bool SpillFile::is_direct() const { return is_direct_; }

std::string SpillFile::write(std::int64_t offset, const std::byte* src, std::int64_t bytes) {
  return transfer(true, offset, const_cast<std::byte*>(src), bytes);
}

std::string SpillFile::read(std::int64_t offset, std::byte* dst, std::int64_t bytes) {
  return transfer(false, offset, dst, bytes);
}

namespace {

// The slow way, for what the ring could not do whole and for systems without one.
std::string plainly(int fd, bool is_write, std::int64_t offset, std::byte* data, std::int64_t bytes) {
  for (std::int64_t at = 0; at < bytes;) {
    const auto rest = static_cast<std::size_t>(bytes - at);
    const ssize_t n = is_write ? ::pwrite(fd, data + at, rest, offset + at) : ::pread(fd, data + at, rest, offset + at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return reason(errno);
    if (n == 0) return "the file is shorter than it was";
    at += n;
  }
  return {};
}

}  // namespace

std::string SpillFile::transfer(bool is_write, std::int64_t offset, std::byte* data, std::int64_t bytes) {
  if (!ring_) return plainly(fd_, is_write, offset, data, bytes);
  io_uring* ring = &ring_->ring;
  std::string error;
  std::int64_t next = 0;
  unsigned on_its_way = 0;
  while (next < bytes || on_its_way > 0) {
    bool has_new = false;
    while (next < bytes && on_its_way < kDepth) {
      io_uring_sqe* sqe = io_uring_get_sqe(ring);
      if (sqe == nullptr) break;
      const auto size = static_cast<unsigned>(std::min(kPiece, bytes - next));
      if (is_write) {
        io_uring_prep_write(sqe, fd_, data + next, size, static_cast<__u64>(offset + next));
      } else {
        io_uring_prep_read(sqe, fd_, data + next, size, static_cast<__u64>(offset + next));
      }
      io_uring_sqe_set_data64(sqe, static_cast<__u64>(next));
      next += size;
      ++on_its_way;
      has_new = true;
    }
    if (has_new) io_uring_submit(ring);
    io_uring_cqe* cqe = nullptr;
    const int waited = io_uring_wait_cqe(ring, &cqe);
    if (waited == -EINTR) continue;
    if (waited < 0) return reason(-waited);
    const auto at = static_cast<std::int64_t>(io_uring_cqe_get_data64(cqe));
    const std::int64_t size = std::min(kPiece, bytes - at);
    const int result = cqe->res;
    io_uring_cqe_seen(ring, cqe);
    --on_its_way;
    if (result == size || !error.empty()) continue;
    // Refused or cut short: once more, so that the reason comes from a plain call.
    error = plainly(fd_, is_write, offset + at, data + at, size);
  }
  return error;
}

}  // namespace neap
