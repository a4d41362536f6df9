// Weights on their way into the arena of inference, where some are kept in another form than they come in
// (optimize/once.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "optimize/once.h"
#include "runtime/executor.h"

namespace neap {

class PreparedWeights {
 public:
  // `executor` runs `halves.rest`; both outlive this.
  PreparedWeights(const Halves& halves, Executor& executor);

  // What a file or the model has of a weight. It is kept outside of the arena until everything has come that is made of
  // it together with others: mostly for no longer than this call. DeviceError: it cannot be brought to where it waits.
  void give(const std::string& name, const std::byte* data);

  // InternalError: something has not come.
  void finish() const;

 private:
  void run_ready();
  void run(const Node& node);
  void release(TensorId id);
  void write(TensorId id, const std::byte* data);

  const Halves& halves_;
  Executor& executor_;
  std::vector<bool> done_;                                   // one a node of halves.once
  std::map<std::uint32_t, std::vector<std::byte>> waiting_;  // values of its tensors, as long as somebody wants them
};

}  // namespace neap
