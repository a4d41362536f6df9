// For tests: every kernel of an op gives the same bytes when an output takes the place of an input, and whatever the
// number of threads.
#pragma once

#include <omp.h>

#include "core/bytes.h"
#include "graph/op.h"
#include "ops/op_check.h"

namespace neap {

class PreparedCase {
 public:
  explicit PreparedCase(const OpCase& c) : case_(c) {
    call_.op = &op_named(c.op);
    call_.attrs = c.attrs;
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
      const bool is_absent = std::find(c.absent.begin(), c.absent.end(), i) != c.absent.end();
      call_.inputs.push_back(is_absent ? std::nullopt : std::optional(c.inputs[i]));
    }
    call_.outputs = call_.op->infer(call_);
  }

  // Outputs and, after them, the inputs as they are now. `alias`: that output lies in that input.
  std::vector<HostTensor> run(std::string_view kernel, std::optional<InOut> alias = {}) const {
    std::vector<HostTensor> inputs;
    for (std::size_t i = 0; i < case_.inputs.size(); ++i) {
      const auto given = case_.given.find(i);
      inputs.push_back(given != case_.given.end() ? given->second
                                                  : random_tensor(case_.inputs[i], 100 + i, case_.low, case_.high));
    }
    std::vector<HostTensor> outputs;
    for (const TensorType& type : call_.outputs) outputs.emplace_back(type);
    std::vector<const std::byte*> in;
    std::vector<std::byte*> out;
    for (std::size_t i = 0; i < inputs.size(); ++i) in.push_back(call_.has(i) ? inputs[i].data.data() : nullptr);
    for (HostTensor& t : outputs) out.push_back(t.data.data());
    if (alias) out[alias->output] = inputs[alias->input].data.data();
    launch(kernel, in, out);
    if (alias) outputs[alias->output].data = inputs[alias->input].data;
    for (HostTensor& t : inputs) outputs.push_back(std::move(t));
    return outputs;
  }

  const OpDef& op() const { return *call_.op; }
  bool fits(InOut alias) const {
    return call_.has(alias.input) && call_.in(alias.input).bytes() == call_.outputs[alias.output].bytes();
  }

 private:
  void launch(std::string_view name, const std::vector<const std::byte*>& in,
              const std::vector<std::byte*>& out) const {
    const auto kernel = prepare_cpu_kernel(call_, name);
    const auto bytes = static_cast<std::size_t>(align_up(kernel->workspace_bytes() + 1));
    const std::unique_ptr<std::byte, void (*)(void*)> workspace(
        static_cast<std::byte*>(std::aligned_alloc(static_cast<std::size_t>(kAlignment), bytes)), std::free);
    Stream stream;
    kernel->launch({.inputs = in, .outputs = out, .workspace = workspace.get()}, stream);
  }

  OpCase case_;
  OpCall call_;
};

inline void check_in_place(const OpCase& c) {
  const PreparedCase prepared(c);
  for (std::size_t k = 0; k < prepared.op().kernel_count; ++k) {
    const std::string_view kernel = prepared.op().kernels[k].name;
    const auto want = prepared.run(kernel);
    for (const InOut alias : prepared.op().in_place) {
      if (!prepared.fits(alias)) continue;
      const auto got = prepared.run(kernel, alias);
      EXPECT_EQ(got[alias.output].data, want[alias.output].data)
          << c.op << " by " << kernel << " in place of input " << int{alias.input};
    }
  }
}

inline void check_threads(const OpCase& c) {
  const PreparedCase prepared(c);
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const auto want = prepared.run({});
  for (const int threads : {2, 3, 7}) {
    omp_set_num_threads(threads);
    const auto got = prepared.run({});
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].data, want[i].data) << c.op << ", " << threads;
  }
  omp_set_num_threads(before);
}

// A float tensor with these values.
inline HostTensor tensor_of(const Shape& shape, const std::vector<float>& values) {
  HostTensor t({DType::kF32, shape});
  for (std::size_t i = 0; i < values.size(); ++i) t.floats()[i] = values[i];
  return t;
}

inline std::vector<float> values_of(const HostTensor& t) { return {t.floats(), t.floats() + t.type.elements()}; }

}  // namespace neap
