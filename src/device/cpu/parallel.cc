// Parallel regions of one thread. libgomp makes a team for each of them, on the heap, and frees it afterwards: too slow
// for small work, and a step must not allocate. The library is linked with --wrap=GOMP_parallel (CMakeLists.txt), which
// sends the compiler's calls here; without it everything works, and allocates.
#include <omp.h>

extern "C" {

// The linker's names.
// NOLINTNEXTLINE(readability-identifier-naming)
void __real_GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);

// `threads` is 0 where the code does not say how many, and 1 where an if() clause does not hold. Outside of any region
// a body that is simply called finds itself to be thread 0 of 1, and its barriers return at once.
// NOLINTNEXTLINE(readability-identifier-naming)
void __wrap_GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags) {
  const bool is_alone = threads == 1 || (threads == 0 && omp_get_max_threads() == 1);
  if (is_alone && omp_get_level() == 0) {
    body(data);
  } else {
    __real_GOMP_parallel(body, data, threads, flags);
  }
}

}  // extern "C"
