// Vectors of the build's native width and the functions on them, for *_simd.cc files only (see cmake/isa.cmake).
//
// Everything has internal linkage inside neap::NEAP_ISA_NS, so that no build's code is linked into another's. Results
// may differ between instruction sets (the base build has no fused multiply-add) but never between runs, threads or
// positions in a vector.
#pragma once

#include "device/cpu/vmath_convert.h"
#include "device/cpu/vmath_function.h"
#include "device/cpu/vmath_random.h"
#include "device/cpu/vmath_vector.h"
