#pragma once

#include <cstdint>

#include "device/cpu/isa.h"

namespace neap {

enum class UnaryFn : std::uint8_t {
  kElu,
  kSelu,
  kCelu,
  kHardSwish,
  kSoftplus,
  kSoftsign,
  kMish,
  kGelu,
  kGeluTanh,
  kSilu,
  kSigmoid,
  kTanh,
  kErf,
  kExp,
  kLog,
  kLog1p,
  kSqrt,
  kRsqrt,
  kReciprocal,
  kNeg,
  kAbs,
  kSquare,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kAsinh,
  kAcosh,
  kAtanh,
  kFloor,
  kCeil,
  kRound,
  kSign,
  kCount
};

// What the attributes say: alpha and gamma of the elu family.
struct UnaryArgs {
  float a = 0;
  float b = 0;
};

struct UnaryTable {
  using Forward = void (*)(const float* src, float* dst, std::int64_t n, UnaryArgs args);
  // dx from dy and what was saved, the input or the output as the op's definition says. In place over either.
  using Backward = void (*)(const float* diff_dst, const float* saved, float* diff_src, std::int64_t n, UnaryArgs args);

  // The same on bf16, computed in f32.
  using Half = std::uint16_t;
  using ForwardBf16 = void (*)(const Half* src, Half* dst, std::int64_t n, UnaryArgs args);
  using BackwardBf16 = void (*)(const Half* diff_dst, const Half* saved, Half* diff_src, std::int64_t n,
                                UnaryArgs args);

  static constexpr int kCount = static_cast<int>(UnaryFn::kCount);
  Forward forward[kCount];
  Backward backward[kCount];  // null: none of its own
  ForwardBf16 forward_bf16[kCount];
  BackwardBf16 backward_bf16[kCount];
};

NEAP_ISA_TABLE(UnaryTable, unary_table)

}  // namespace neap
