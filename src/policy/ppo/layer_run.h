// A recurrent layer by itself with a sequence to run through, chunk by chunk: what is timed when nothing else runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "recurrent/gear.h"

namespace neap::ppo {

struct Setting {
  CellKind kind = CellKind::kLstm;
  std::int64_t steps = 64;  // of the sequence; a multiple of the chunk
  std::int64_t batch = 1, input = 1, hidden = 1;
  std::int64_t chunk = 16;
  std::int64_t chunks() const { return steps / chunk; }
};

class LayerRun {
 public:
  LayerRun(const Setting& setting, bool keeps_gates);

  // The k-th chunk. Backward wants all of forward before it, and the chunks from the last to the first.
  void forward(std::int64_t k, const Gear& gear);
  void backward(std::int64_t k, const Gear& gear);
  // Both over the whole sequence, the gears in turn, chunk by chunk.
  void run(std::span<const Gear> gears);

  std::int64_t workspace_bytes() const { return static_cast<std::int64_t>(workspace_.size()); }

 private:
  using Floats = std::vector<float>;

  Setting t_;
  ChunkShape s_;
  std::int64_t plane_;
  Floats w_ih_, w_hh_, bias_, x_, dy_, dw_ih_, dw_hh_, db_, dx_, h_, c_, gates_, state_, dstate_;
  std::vector<std::byte> workspace_;
};

}  // namespace neap::ppo
