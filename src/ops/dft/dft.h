// Fourier transforms of any length by those of powers of two: for kernels on CUDA, and for tests on the CPU.
//
// A power of two goes in stages of Stockham's, from one array to the other, whose results lie s = 1, 2, 4, ... side by
// side: pair i of a stage, (i, i + n / 2), goes to (2 i - i mod s) and s behind it.
//
// Any other length n is Bluestein's product, since k t = (k^2 + t^2 - (k - t)^2) / 2: with c_j = turn(-j^2 / (2 n)),
// y_k = c_k sum_t (x_t c_t) conj(c_(k-t)), a cyclic convolution over m >= 2 n - 1, a power of two.
#pragma once

#include <cmath>
#include <numbers>

#include "device/both.h"
#include "ops/kernel.h"

namespace neap::ops {

struct Complex {
  double re, im;

  NEAP_BOTH friend Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
  NEAP_BOTH friend Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
  NEAP_BOTH friend Complex operator*(Complex a, Complex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  NEAP_BOTH friend Complex operator*(double s, Complex a) { return {s * a.re, s * a.im}; }
};

NEAP_BOTH inline Complex conjugate(Complex a) { return {a.re, -a.im}; }

// exp(i 2 pi part / whole), 0 <= part < whole.
NEAP_BOTH inline Complex turn(std::int64_t part, std::int64_t whole) {
  const double angle = 2 * static_cast<double>(part) / static_cast<double>(whole);
#ifdef __CUDA_ARCH__
  Complex out;
  sincospi(angle, &out.im, &out.re);
  return out;
#else
  return {std::cos(std::numbers::pi * angle), std::sin(std::numbers::pi * angle)};
#endif
}

// By which part of n the second of pair i is turned.
NEAP_BOTH inline std::int64_t stockham_part(std::int64_t s, std::int64_t i) { return i - i % s; }

// Pair i < n / 2 of a stage; w is that turn, conjugate on the way forwards.
NEAP_BOTH inline void stockham_pair(const Complex* from, Complex* to, std::int64_t n, std::int64_t s, std::int64_t i,
                                    Complex w) {
  const Complex a = from[i];
  const Complex b = from[i + n / 2];
  const std::int64_t at = 2 * i - i % s;
  to[at] = a + b;
  to[at + s] = w * (a - b);
}

// Lines of a tensor as outer x length x inner, each element `parts` numbers.
struct Transform {
  std::int64_t outer = 1, in = 1, inner = 1, length = 1, out = 1, parts = 1;
  bool inverse = false;

  NEAP_BOTH std::int64_t lines() const { return outer * inner; }
  // The first number of element t of a line in x, and of result k in y.
  NEAP_BOTH std::int64_t x_at(std::int64_t line, std::int64_t t) const {
    return ((line / inner * in + t) * inner + line % inner) * parts;
  }
  NEAP_BOTH std::int64_t y_at(std::int64_t line, std::int64_t k) const {
    return ((line / inner * out + k) * inner + line % inner) * 2;
  }
  NEAP_BOTH double scale() const { return inverse ? 1 / static_cast<double>(length) : 1; }
  template <class T>
  NEAP_BOTH Complex load(const T* x, std::int64_t line, std::int64_t i) const {
    const T* at = x + x_at(line, i);
    return {static_cast<double>(at[0]), parts == 2 ? static_cast<double>(at[1]) : 0};
  }
  // Result k of a line, term by term.
  template <class T>
  NEAP_BOTH Complex result(const T* x, std::int64_t line, std::int64_t k) const {
    Complex sum{};
    for (std::int64_t i = 0; i < in && i < length; ++i) {
      const Complex w = turn(k * i % length, length);
      sum = sum + (inverse ? w : conjugate(w)) * load(x, line, i);
    }
    return scale() * sum;
  }
};

Transform transform_of(const OpCall& call);

// A transform by powers of two.
struct FastTransform {
  Transform t;
  bool is_product = false;  // Bluestein's
  std::int64_t m = 1;       // the power of two

  explicit FastTransform(const Transform& transform) : t(transform) {
    while (m < t.length) m *= 2;
    is_product = m != t.length;
    while (is_product && m < 2 * t.length - 1) m *= 2;
  }

  // c_j of this direction.
  NEAP_BOTH Complex chirp(std::int64_t j) const {
    const Complex c = turn(j * j % (2 * t.length), 2 * t.length);
    return t.inverse ? c : conjugate(c);
  }
  // Element j < m of a line, as it goes into the power of two.
  template <class T>
  NEAP_BOTH Complex load(const T* x, std::int64_t line, std::int64_t j) const {
    if (j >= t.length || j >= t.in) return {};
    return is_product ? chirp(j) * t.load(x, line, j) : t.load(x, line, j);
  }
  // Element j < m of what lines are convolved with.
  NEAP_BOTH Complex other(std::int64_t j) const {
    if (j < t.length) return conjugate(chirp(j));
    return m - j < t.length ? conjugate(chirp(m - j)) : Complex{};
  }
  // Result k < t.out from what came out of the power of two: of the transform, or of the convolution.
  NEAP_BOTH Complex result(std::int64_t k, Complex value) const {
    if (!is_product) return t.scale() * value;
    return t.scale() / static_cast<double>(m) * (chirp(k) * value);
  }
};

[[gnu::weak]] Prepared dft_cuda(const OpCall& call);

}  // namespace neap::ops
