// The joint decision: the chain's dynamic program, in which what a layer keeps may also be stored in fewer bits or
// leave the arena. Every layer has options with the bytes that they leave in the arena and the time that they add: what
// is computed again, what the codec takes, what a transfer takes from the calls and what of it cannot lie beside them,
// and the link's time at a price. The link is one for all layers, so the price is what makes them share it.
#pragma once

#include <span>
#include <vector>

#include "policy/chain.h"

namespace neap {

struct PricedWay {
  Retention retention;
  std::vector<TensorId> leaving;  // for the wait between forward and backward
  std::vector<TensorId> rounded;  // in the level that the problem allows them
  double ms = 0;                  // a step by the program, without the price
  double link_ms = 0;             // of all transfers
};

class PricedChain {
 public:
  // Of r's problem: fewer bits where it has levels to choose from, transfers if `may_spill`.
  PricedChain(const Recompute& r, std::span<const Layer> layers, bool may_spill);

  // At so many milliseconds for a millisecond of the link, 0 to 1, the best ways for memory from the least to the most,
  // as the program sees it; the caller judges them.
  std::vector<PricedWay> ways(double price) const;

 private:
  // What a tensor may become for its wait, beside being kept: fewer bytes in the arena for more time.
  struct Move {
    TensorId id;
    std::int64_t bytes = 0;  // that it frees
    double ms = 0;           // with the price
    double plain_ms = 0;     // without
    double link_ms = 0;
    bool rounds = false;
    bool leaves = false;
  };
  // An option of a link with the first of its moves made.
  struct Option {
    std::uint16_t base = 0;
    std::uint16_t moves = 0;
    std::int64_t bytes = 0;
    double ms = 0;
  };
  struct Priced {
    std::vector<std::vector<Move>> moves;  // per option of the chain's, from the cheapest byte to the dearest
    std::vector<Option> options;
    std::vector<Move> boundary;  // all of it leaves, where it may; empty: it stays
  };
  struct Best {
    double ms = LayerChain::kNever;
    std::uint16_t option = 0;
    std::uint16_t checkpoint = 0;  // the input of that link waits; 0: an option
    bool leaves = false;           // that input
  };
  using Table = std::vector<std::vector<Best>>;  // by link, by slots

  void find_waits();
  double link_ms(std::int64_t bytes) const;
  Move leaving(TensorId id, std::int64_t bytes, double price) const;
  void add_moves(TensorId id, double price, std::vector<Move>& out) const;
  Priced priced(const ChainLink& link, double price) const;
  Best solve(std::span<const Priced> links, const Table& table, std::size_t first, int slots) const;
  PricedWay lay_out(std::span<const Priced> links, const Table& table, int slots) const;
  static void make(std::span<const Move> moves, PricedWay& way);

  const Recompute& r_;
  LayerChain chain_;
  double backward_ms_ = 0;
  std::vector<bool> can_leave_;   // per tensor
  std::vector<bool> can_round_;   // per tensor
  std::vector<double> waits_ms_;  // per tensor: from its last use in forward to its first in backward
};

}  // namespace neap
