// cuBLASLt, loaded when a GPU is first used: it is so large that linking it would cost every run on the CPU 150 MB of
// memory and a sixth of a second.
#pragma once

#include <cublasLt.h>

namespace neap {

struct CublasLt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtGetVersion) version;
  decltype(&cublasLtGetStatusString) status_text;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulDescCreate) make_product;
  decltype(&cublasLtMatmulDescDestroy) free_product;
  decltype(&cublasLtMatmulDescSetAttribute) set_product;
  decltype(&cublasLtMatrixLayoutCreate) make_layout;
  decltype(&cublasLtMatrixLayoutDestroy) free_layout;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout;
  decltype(&cublasLtMatmulPreferenceCreate) make_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) free_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
};

// DeviceError when the library is not there.
const CublasLt& cublas_lt();

}  // namespace neap
