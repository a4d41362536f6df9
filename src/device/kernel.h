// A prepared kernel. It owns its oneDNN primitive or cuDNN plan; one is prepared for each distinct call of an op.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace neap {

class Stream;

// Where a call's tensors lie. A null input was not given; a null output is not wanted.
struct Buffers {
  std::span<const std::byte* const> inputs;
  std::span<std::byte* const> outputs;
  std::byte* workspace = nullptr;

  template <class T>
  const T* in(std::size_t i) const {
    return i < inputs.size() ? reinterpret_cast<const T*>(inputs[i]) : nullptr;
  }
  template <class T>
  T* out(std::size_t i) const {
    return reinterpret_cast<T*>(outputs[i]);
  }
  // An input that the op declares in `mutates`.
  template <class T>
  T* state(std::size_t i) const {
    return const_cast<T*>(in<T>(i));
  }
};

struct Kernel {
  virtual ~Kernel() = default;
  virtual std::int64_t workspace_bytes() const { return 0; }        // booked in the arena
  virtual std::string numerics() const { return {}; }               // the algorithm, where a library chose one
  virtual void launch(const Buffers& buffers, Stream& stream) = 0;  // never allocates, never synchronises
};

// A kernel that is one function.
class FunctionKernel final : public Kernel {
 public:
  using Function = std::function<void(const Buffers&)>;
  explicit FunctionKernel(Function run, std::int64_t workspace = 0) : run_(std::move(run)), workspace_(workspace) {}
  std::int64_t workspace_bytes() const override { return workspace_; }
  void launch(const Buffers& buffers, Stream& /*stream*/) override { run_(buffers); }

 private:
  Function run_;
  std::int64_t workspace_;
};

}  // namespace neap
