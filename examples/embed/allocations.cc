// The program's own malloc stands in front of the C library's (glibc), and hands on to it.
#include "allocations.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace {

std::atomic<bool> g_on = false;
std::atomic<std::int64_t> g_count = 0;

void note() {
  if (g_on) ++g_count;
}

}  // namespace

void count_allocations(bool on) { g_on = on; }
std::int64_t counted_allocations() { return g_count; }

extern "C" {

// NOLINTBEGIN(readability-identifier-naming): glibc's names
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* old, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
// NOLINTEND(readability-identifier-naming)

void* malloc(std::size_t bytes) {
  note();
  return __libc_malloc(bytes);
}

void* calloc(std::size_t count, std::size_t bytes) {
  note();
  return __libc_calloc(count, bytes);
}

void* realloc(void* old, std::size_t bytes) {
  note();
  return __libc_realloc(old, bytes);
}

void* memalign(std::size_t alignment, std::size_t bytes) {
  note();
  return __libc_memalign(alignment, bytes);
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return memalign(alignment, bytes); }

int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  *out = memalign(alignment, bytes);
  return *out == nullptr ? ENOMEM : 0;
}

void* mmap(void* address, std::size_t bytes, int protection, int flags, int file, off_t offset) {
  note();
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}

}  // extern "C"
