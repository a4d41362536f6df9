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
#include <vector>

#include "neap/error.h"

namespace neap {
namespace {

constexpr unsigned kDepth = 8;
constexpr std::int64_t kMostRegistered = kGiB;  // of one buffer: the kernel's limit

std::string reason(int error) {
  const bool is_full = error == ENOSPC || error == EDQUOT;
  return is_full ? SpillFile::kFull : std::strerror(error);
}

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

struct SpillFile::Ring {
  io_uring ring{};
  bool has_file = false;  // registered, as file 0
  ~Ring() { io_uring_queue_exit(&ring); }
};

struct SpillFile::Transfer {
  bool is_write = false;
  std::int64_t offset = 0;
  std::byte* data = nullptr;
  std::int64_t bytes = 0;
  const EachPiece& each;

  std::int64_t piece(std::int64_t at) const { return std::min(kPiece, bytes - at); }
  void note(std::int64_t at) const {
    if (each) each(at, piece(at));
  }
};

SpillFile::SpillFile(const std::string& folder, std::int64_t bytes, std::span<std::byte> memory)
    : folder_(folder), given_(memory) {
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
    ring_->has_file = io_uring_register_files(&ring_->ring, &fd_, 1) == 0;
    if (is_direct_) register_memory(memory);
  } else {
    (void)ring.release();  // it was never set up
  }
}

bool SpillFile::grow(std::int64_t from, std::int64_t to) { return ::posix_fallocate(fd_, from, to - from) == 0; }

void SpillFile::register_memory(std::span<std::byte> memory) {
  std::vector<iovec> parts;
  for (std::size_t at = 0; at < memory.size(); at += static_cast<std::size_t>(kMostRegistered)) {
    const std::size_t size = std::min(memory.size() - at, static_cast<std::size_t>(kMostRegistered));
    parts.push_back({memory.data() + at, size});
  }
  if (parts.empty()) return;
  is_registered_ = io_uring_register_buffers(&ring_->ring, parts.data(), static_cast<unsigned>(parts.size())) == 0;
  if (is_registered_) memory_ = memory;
}

SpillFile::~SpillFile() {
  ring_.reset();
  if (fd_ >= 0) ::close(fd_);
}

std::string SpillFile::write(std::int64_t offset, const std::byte* src, std::int64_t bytes, const EachPiece& before) {
  return transfer(
      {.is_write = true, .offset = offset, .data = const_cast<std::byte*>(src), .bytes = bytes, .each = before});
}

std::string SpillFile::read(std::int64_t offset, std::byte* dst, std::int64_t bytes, const EachPiece& after) {
  return transfer({.is_write = false, .offset = offset, .data = dst, .bytes = bytes, .each = after});
}

void SpillFile::submit_piece(const Transfer& t, std::int64_t at, std::int64_t bytes) {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_->ring);
  require(sqe != nullptr, "the queue is as long as what is on its way");
  std::byte* const data = t.data + at;
  const auto size = static_cast<unsigned>(bytes);
  const std::int64_t position = t.offset + at;
  const auto offset = static_cast<__u64>(position);
  const int file = ring_->has_file ? 0 : fd_;
  const std::int64_t from = is_registered_ ? data - memory_.data() : -1;
  const bool is_inside = from >= 0 && from + bytes <= static_cast<std::int64_t>(memory_.size());
  const std::int64_t buffer = from / kMostRegistered;
  const bool is_fixed = is_inside && (from + bytes - 1) / kMostRegistered == buffer;
  if (is_fixed && t.is_write) {
    io_uring_prep_write_fixed(sqe, file, data, size, offset, static_cast<int>(buffer));
  } else if (is_fixed) {
    io_uring_prep_read_fixed(sqe, file, data, size, offset, static_cast<int>(buffer));
  } else if (t.is_write) {
    io_uring_prep_write(sqe, file, data, size, offset);
  } else {
    io_uring_prep_read(sqe, file, data, size, offset);
  }
  if (ring_->has_file) sqe->flags |= IOSQE_FIXED_FILE;
  io_uring_sqe_set_data64(sqe, static_cast<__u64>(at));
}

std::string SpillFile::transfer(const Transfer& t) {
  std::string error;
  std::int64_t next = 0;
  if (!ring_) {
    for (; next < t.bytes && error.empty(); next += kPiece) {
      if (t.is_write) t.note(next);
      error = plainly(fd_, t.is_write, t.offset + next, t.data + next, t.piece(next));
      if (!t.is_write && error.empty()) t.note(next);
    }
    return error;
  }
  unsigned on_its_way = 0;
  const auto has_more = [&] { return next < t.bytes && error.empty(); };
  while (has_more() || on_its_way > 0) {
    while (has_more() && on_its_way < kDepth) {
      if (t.is_write) t.note(next);
      submit_piece(t, next, t.piece(next));
      io_uring_submit(&ring_->ring);
      next += kPiece;
      ++on_its_way;
    }
    io_uring_cqe* cqe = nullptr;
    const int waited = io_uring_wait_cqe(&ring_->ring, &cqe);
    if (waited == -EINTR || waited == -EAGAIN) continue;
    if (waited < 0) return reason(-waited);
    const auto at = static_cast<std::int64_t>(io_uring_cqe_get_data64(cqe));
    const int result = cqe->res;
    io_uring_cqe_seen(&ring_->ring, cqe);
    --on_its_way;
    if (!error.empty()) continue;
    // Refused or cut short: once more, so that the reason comes from a plain call.
    if (result != t.piece(at)) error = plainly(fd_, t.is_write, t.offset + at, t.data + at, t.piece(at));
    if (!t.is_write && error.empty()) t.note(at);
  }
  return error;
}

}  // namespace neap
