// Forward ops are recorded; finish() appends backward. See traces.h.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "remat/problem.h"

namespace neap::remat {

struct Var {
  TensorIndex tensor = 0;
  std::int64_t elements = 0;
};

// What an op's backward reads beside the gradient of its output, and how much longer it takes than forward.
struct Backward {
  bool reads_inputs = true;
  bool reads_output = false;
  double factor = 2;
};

class Tape {
 public:
  Var input(const std::string& name, std::int64_t elements);   // data: no gradient
  Var weight(const std::string& name, std::int64_t elements);  // a gradient that is kept
  // One output of `elements`; `extra`: elements of a second output that only backward reads (statistics, a mask).
  Var op(const std::string& kind, const std::vector<Var>& inputs, std::int64_t elements, double ms, Backward backward,
         std::int64_t extra = 0, bool recompute = true);
  // Parts of one tensor without bytes of their own.
  std::vector<Var> views(const Var& whole, int parts);
  Problem finish(const Var& loss);

 private:
  struct Record {
    OpIndex op;
    std::vector<Var> inputs;
    std::vector<Var> outputs;
    std::optional<Var> extra;
    Backward backward;
    bool is_view = false;
  };
  TensorIndex add_tensor(const std::string& name, std::int64_t bytes, OpIndex op);
  OpIndex add_op(std::string name, double ms, std::vector<TensorIndex> inputs);
  void add_backward(const Record& record);
  void give(const Var& to, TensorIndex gradient);

  Problem problem_;
  std::vector<Record> records_;
  std::vector<bool> wants_gradient_;              // per tensor
  std::map<TensorIndex, TensorIndex> gradients_;  // the sum so far
  std::vector<Var> weights_;
};

}  // namespace neap::remat
