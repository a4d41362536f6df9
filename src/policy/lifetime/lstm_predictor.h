// Lifetimes predicted by an LSTM that keeps learning: it watches its own quality, trains anew on a rolling window of
// steps when it is consistently wrong, and takes the new network only if that is better on steps held out.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pool/predictor.h"

namespace neap {

struct LifetimeOptions {
  bool per_layer = false;     // one lifetime for all that a layer asks for at a time, instead of one a tensor
  bool uses_history = true;   // false: from the event and its place in the step alone
  std::size_t window = 32;    // steps that are remembered
  std::size_t first = 8;      // steps before the first training
  int updates = 2500;         // of one training
  bool in_background = true;  // on a thread of lowest priority; false: inside observe()
  std::uint64_t seed = 0;
};

struct LifetimeReport {
  std::int64_t steps = 0;      // observed
  std::int64_t trainings = 0;  // done
  std::int64_t adopted = 0;    // of these: better, and in use
  std::int64_t last_adopted_at = 0;
  double held_out_pinball = 0;    // of the network in use when it was taken
  double recent_pinball = 0;      // of the last predictions
  double training_ms = 0;         // in all
  std::int64_t arena_bytes = 0;   // of the network that predicts, and of the one that trained last
  std::int64_t window_bytes = 0;  // of the remembered steps
};

struct RecordedStep;

// predict() and observe() are called by one thread. The results are a function of the seed and the calls, except that
// a training in the background ends when it ends.
class LstmPredictor final : public LifetimePredictor {
 public:
  explicit LstmPredictor(LifetimeOptions options = {});
  ~LstmPredictor() override;
  LstmPredictor(const LstmPredictor&) = delete;
  LstmPredictor& operator=(const LstmPredictor&) = delete;

  std::string_view name() const override { return "lstm"; }
  void predict(std::span<const AllocationEvent> step, std::span<Lifetime> out) override;
  // Counts towards the quality if predict() was asked about this very step before.
  void observe(std::span<const AllocationEvent> step, std::span<const Tick> lifespans) override;

  // Of its networks, the remembered steps and what it knows of each site.
  std::int64_t own_bytes() const override;

  // Learns from recorded executions before a run begins; by the same test as later.
  void study(std::span<const RecordedStep> recording);

  // Waits until no training runs, and takes its result.
  void wait();
  LifetimeReport report() const;

 private:
  class Inside;
  LifetimeOptions options_;
  std::unique_ptr<Inside> inside_;
};

// "lstm", "lstm-layers" (per layer), or one of predictor_named().
std::unique_ptr<LifetimePredictor> make_lifetime_predictor(std::string_view name, std::uint64_t seed = 0);

}  // namespace neap
