// The harness that every op goes through: each kernel against the reference, the gradient against finite differences.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "neap/error.h"
#include "ops/evaluate.h"

namespace neap {

struct OpCase {
  std::string op;
  std::vector<TensorType> inputs;
  Attrs attrs = {};
  double low = -1;  // float inputs are uniform in [low, high); integers in [0, integer_bound)
  double high = 1;
  std::int64_t integer_bound = 3;
  std::map<std::size_t, HostTensor> given = {};  // inputs with values of their own
  std::vector<std::size_t> absent = {};          // optional inputs that are left out (their type is ignored)
  double tolerance = 1e-5;                       // kernel against reference, relative to 1 + |value|
  double gradient_tolerance = 1e-2;              // analytic against central differences, relative to 1 + |value|
  double step = 1e-2;                            // of the central difference
  std::vector<std::size_t> flows = {0};          // outputs through which a gradient comes back
  std::vector<std::size_t> constant = {};        // inputs whose gradient is not checked
};

HostTensor random_tensor(const TensorType& type, std::uint64_t key, double low = -1, double high = 1,
                         std::int64_t integer_bound = 3);

// Outputs of the op by the named kernel (empty: the best).
std::vector<HostTensor> run_op(const OpCase& c, std::string_view kernel = {});

// All of it: kernels and gradient.
void check_op(const OpCase& c);
void check_kernels(const OpCase& c);
void check_gradient(const OpCase& c);

}  // namespace neap
