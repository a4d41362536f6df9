// Counts the live heap bytes of a process and their peak: gcc -O2 -shared -fPIC malloc_peak.c -o malloc_peak.so, then
// LD_PRELOAD. Sizes are malloc_usable_size(), so each block counts what it really occupies. Blocks below kSmall are not
// counted: they are the interpreter's, and there are too many of them to count at no cost.
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>

enum { kSmall = 1024 };

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);
extern void __libc_free(void*);

static atomic_llong live, peak;

static void add(long long bytes) {
  long long now = atomic_fetch_add(&live, bytes) + bytes;
  long long seen = atomic_load(&peak);
  while (now > seen && !atomic_compare_exchange_weak(&peak, &seen, now)) {
  }
}

static long long counted(void* p) {
  size_t size = p ? malloc_usable_size(p) : 0;
  return size >= kSmall ? (long long)size : 0;
}

static void* grew(void* p) {
  long long bytes = counted(p);
  if (bytes) add(bytes);
  return p;
}

void* malloc(size_t size) { return grew(__libc_malloc(size)); }
void* calloc(size_t n, size_t size) { return grew(__libc_calloc(n, size)); }
void* memalign(size_t align, size_t size) { return grew(__libc_memalign(align, size)); }
void* aligned_alloc(size_t align, size_t size) { return grew(__libc_memalign(align, size)); }

int posix_memalign(void** out, size_t align, size_t size) {
  *out = grew(__libc_memalign(align, size));
  return *out || !size ? 0 : ENOMEM;
}

void* realloc(void* p, size_t size) {
  long long old = counted(p);
  void* q = __libc_realloc(p, size);
  if (q || !size) {
    atomic_fetch_sub(&live, old);
    grew(q);
  }
  return q;
}

void free(void* p) {
  long long bytes = counted(p);
  if (bytes) atomic_fetch_sub(&live, bytes);
  __libc_free(p);
}

long long heap_live(void) { return atomic_load(&live); }
long long heap_peak(void) { return atomic_load(&peak); }
void heap_reset_peak(void) { atomic_store(&peak, atomic_load(&live)); }
