#include "device/cuda/cublas.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "neap/error.h"

namespace neap {
namespace {

class Library {
 public:
  Library() : name_(fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR)) {
    handle_ = dlopen(name_.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) throw DeviceError(fmt::format("--device cuda: cannot load {}: {}", name_, dlerror()));
  }
  template <class F>
  void find(F& function, const char* symbol) const {
    function = reinterpret_cast<F>(dlsym(handle_, symbol));
    if (function == nullptr) throw DeviceError(fmt::format("--device cuda: {} has no {}", name_, symbol));
  }

 private:
  std::string name_;
  void* handle_;
};

CublasLt load() {
  const Library library;
  CublasLt f{};
  library.find(f.create, "cublasLtCreate");
  library.find(f.version, "cublasLtGetVersion");
  library.find(f.status_text, "cublasLtGetStatusString");
  library.find(f.matmul, "cublasLtMatmul");
  library.find(f.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  library.find(f.make_product, "cublasLtMatmulDescCreate");
  library.find(f.free_product, "cublasLtMatmulDescDestroy");
  library.find(f.set_product, "cublasLtMatmulDescSetAttribute");
  library.find(f.make_layout, "cublasLtMatrixLayoutCreate");
  library.find(f.free_layout, "cublasLtMatrixLayoutDestroy");
  library.find(f.set_layout, "cublasLtMatrixLayoutSetAttribute");
  library.find(f.make_preference, "cublasLtMatmulPreferenceCreate");
  library.find(f.free_preference, "cublasLtMatmulPreferenceDestroy");
  library.find(f.set_preference, "cublasLtMatmulPreferenceSetAttribute");
  return f;
}

}  // namespace

const CublasLt& cublas_lt() {
  static const CublasLt functions = load();
  return functions;
}

}  // namespace neap
