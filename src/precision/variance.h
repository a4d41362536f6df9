// The error that a level adds to a tensor, as an expected squared error of an element.
//
// An element that lies f of a step s above the step below it is rounded up with probability f, so that
//   E (x' - x)^2 = f (1-f)^2 s^2 + (1-f) f^2 s^2 = f (1 - f) s^2,
// which is s^2 / 6 on average over f in [0, 1): twice that of rounding to nearest (s^2 / 12), and the price of being
// unbiased. s is a group's range / steps. FP16 and BF16 have a step of 2^-10 and 2^-7 of the power of two below |x| and
// round to nearest: s^2 / 12, where the mean of s^2 is 0.45 of the mean square times 2^-20 and 2^-14 for smooth
// distributions.
//
// Why the relative variance is what counts: let a linear layer save x_i and receive dy_i for sample i, and let xi_i be
// the error of x_i. Its weight gradient gets sum xi_i dy_i^T in addition, of expected square sum |xi_i|^2 |dy_i|^2. The
// minibatch gradient's own variance is sum |x_i|^2 |dy_i|^2 while samples disagree. The ratio is E xi^2 / E x^2.
// Where weights are shared over positions, or the op is not linear, a measured sensitivity corrects it (choice.h).
#pragma once

#include <cstddef>

#include "precision/statistics.h"

namespace neap::precision {

// Before encoding, by a profile. Infinite where encode would report the tensor.
double added_variance(Level level, const Statistics& statistics);
// The same over the mean square; 0 for a tensor of zeros.
double relative_variance(Level level, const Statistics& statistics);

// For normal values around zero: what is said of tensors without a profile, and never decided by.
double assumed_variance(Level level);

// After encoding, by the scales in the history: the mean of s^2 / 6. Integer levels only; 0 for an empty tensor.
double history_variance(Level level, const std::byte* history, std::int64_t elements);

}  // namespace neap::precision
