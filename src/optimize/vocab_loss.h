// Operator tiling of the loss over a vocabulary: the layer that makes the logits, cross entropy, and the gradients of
// both become one call (ops/vocab_loss), in which the logits never exist beside the weight's gradient.
#pragma once

#include "optimize/optimization.h"

namespace neap {

Graph tile_vocab_loss(const Graph& graph, const Where& where = {});

inline constexpr Optimization kTiledVocabLoss = {.name = "vocab-loss",
                                                 .what = "the loss over a vocabulary in tiles, without whole logits",
                                                 .makes = "vocab_loss",
                                                 .strategy = Strategy::kMemory,
                                                 .is_bitwise = false,
                                                 .tolerance = 1e-5,
                                                 .on_cuda = OnCuda::kYes,
                                                 .apply = tile_vocab_loss};

}  // namespace neap
