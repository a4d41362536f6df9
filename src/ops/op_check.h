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

// In the program that checks kernels on CUDA (op_check_cuda_test.cc); null elsewhere. Every CUDA kernel of the node, in
// each of the ways it may be called, against `want`: the outputs by the reference, then the inputs that the op changes.
struct NodeCase {
  OpCall call;
  std::vector<const HostTensor*> inputs;  // null: not given
  std::vector<const HostTensor*> want;
  double tolerance = 0;
  std::string what;
};
[[gnu::weak]] void check_node_on_cuda(const NodeCase& c);

// Fails unless they agree: numbers of f32 up to the tolerance, relative to 1 + |value|, all else to the bit.
void expect_same(const HostTensor& got, const HostTensor& want, double tolerance, const std::string& what);

// All of it: kernels and gradient. On CUDA: each node of the op and of its gradient.
void check_op(const OpCase& c);
void check_kernels(const OpCase& c);
void check_gradient(const OpCase& c);

}  // namespace neap
