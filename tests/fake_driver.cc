// A CUDA driver that fails as it is told to, for tests on machines with any driver or none: the CUDA runtime loads it
// as libcuda.so.1. FAKE_CUDA_VERSION is the version it says it has, FAKE_CUDA_INIT what cuInit() returns, and
// FAKE_CUDA_REST what everything else returns.
#include <cstdlib>
#include <cstring>

namespace {

int number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

int one_device(int* count) {
  *count = 1;
  return 0;
}

int fail() { return number("FAKE_CUDA_REST", 2); }

}  // namespace

extern "C" {

int cuDriverGetVersion(int* version) {
  *version = number("FAKE_CUDA_VERSION", 13000);
  return 0;
}

int cuInit(unsigned /*flags*/) { return number("FAKE_CUDA_INIT", 0); }

int cuGetProcAddress_v2(const char* name, void** out, int /*version*/, unsigned long long /*flags*/, int* result) {
  const auto is = [name](const char* other) { return std::strcmp(name, other) == 0; };
  if (result != nullptr) *result = 0;
  *out = is("cuDriverGetVersion") ? reinterpret_cast<void*>(cuDriverGetVersion)
         : is("cuInit")           ? reinterpret_cast<void*>(cuInit)
         : is("cuGetProcAddress") ? reinterpret_cast<void*>(cuGetProcAddress_v2)
         : is("cuDeviceGetCount") ? reinterpret_cast<void*>(one_device)
                                  : reinterpret_cast<void*>(fail);
  return 0;
}

int cuGetProcAddress(const char* name, void** out, int version, unsigned long long flags) {
  return cuGetProcAddress_v2(name, out, version, flags, nullptr);
}
}
