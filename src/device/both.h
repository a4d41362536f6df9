// Before a function that kernels on the CPU and on CUDA share.
#pragma once

#ifdef __CUDACC__
#define NEAP_BOTH __host__ __device__
#else
#define NEAP_BOTH
#endif
