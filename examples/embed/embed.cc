// An application that trains inside memory which it supplies itself: a recurrent network learns to tell three kinds of
// vibration apart, from windows of a sensor's signal. Nothing is allocated while it trains, on no thread and by no
// library; the program checks that, and that it has learnt.
#include <neap/error.h>
#include <neap/layers.h>
#include <neap/recurrent.h>
#include <neap/train.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "allocations.h"

namespace {

constexpr std::int64_t kBatch = 32;
constexpr std::int64_t kWindow = 48;  // samples of the signal
constexpr std::int64_t kKinds = 3;

// All that training takes: weights, gradients, moments, activations. What is left over is not touched.
alignas(64) std::byte g_reservation[std::size_t{4} << 20];

class VibrationModel final : public neap::Model {
 public:
  std::string name() const override { return "vibration"; }
  std::int64_t batch() const override { return kBatch; }
  void build(neap::Builder& g, const neap::BuildRequest& request) const override {
    const neap::Value signal = g.input("signal", neap::DType::kF32, {request.batch, kWindow, 1});
    const neap::Value kind = g.input("kind", neap::DType::kI32, {request.batch});
    const neap::Value steps = g("transpose", {signal}, {{"perm", neap::Ints{1, 0, 2}}});  // time comes first
    const neap::Value last = neap::gru(g, steps, 32).h_n[0];
    neap::cross_entropy_loss(g, neap::linear(g, "head", last, kKinds), kind);
  }
};

// Stands for the sensor: sine, square and saw waves of random phase and pitch, with noise.
class Sensor {
 public:
  void fill(std::string_view input, std::span<std::byte> dst) {
    if (input == "signal") {
      float* out = reinterpret_cast<float*>(dst.data());
      for (std::int64_t i = 0; i < kBatch; ++i) record(i, out + i * kWindow);
    } else {
      std::memcpy(dst.data(), kinds_, sizeof kinds_);
    }
  }

 private:
  void record(std::int64_t i, float* out) {
    kinds_[i] = static_cast<std::int32_t>(next() % kKinds);
    const float pitch = 0.04F + 0.06F * uniform();
    float phase = uniform();
    for (std::int64_t t = 0; t < kWindow; ++t) {
      phase = std::fmod(phase + pitch, 1.0F);
      const float wave = kinds_[i] == 0   ? std::sin(6.2831853F * phase)
                         : kinds_[i] == 1 ? (phase < 0.5F ? 1.0F : -1.0F)
                                          : 2 * phase - 1;
      out[t] = wave + 0.2F * (uniform() - 0.5F);
    }
  }
  std::uint32_t next() {
    return static_cast<std::uint32_t>((state_ = state_ * 6364136223846793005U + 1442695040888963407U) >> 33);
  }
  float uniform() { return static_cast<float>(next() & 0xffffff) / 16777216.0F; }

  std::uint64_t state_ = 1;
  std::int32_t kinds_[kBatch] = {};
};

int run() {
  Sensor sensor;
  neap::TrainOptions options;
  options.steps = 400;
  options.optimizer.lr = 5e-3;
  options.reservation = g_reservation;
  options.own_kernels = true;
  neap::Trainer trainer(std::make_shared<VibrationModel>(), options,
                        [&](std::string_view input, std::span<std::byte> dst) { sensor.fill(input, dst); });
  std::printf("%lld of %zu bytes of the reservation are used\n", static_cast<long long>(trainer.plan().peak_bytes),
              sizeof g_reservation);

  count_allocations(true);
  float loss = 0;
  double mean = 0;  // over the last 20 steps
  while (trainer.step() < options.steps) {
    loss = trainer.advance().loss;
    mean += (loss - mean) / 20;
    if (trainer.step() % 50 != 0) continue;
    count_allocations(false);  // printing may allocate
    std::printf("step %4lld  loss %.4f\n", static_cast<long long>(trainer.step()), loss);
    count_allocations(true);
  }
  count_allocations(false);

  std::printf("%lld allocations while training\n", static_cast<long long>(counted_allocations()));
  if (counted_allocations() != 0) return 1;
  if (!(mean < 0.3)) {
    std::printf("it has not learnt: the loss is still %.3f\n", mean);
    return 1;
  }
  return 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const neap::DoesNotFit& e) {  // says how many bytes it takes
    std::fprintf(stderr, "embed: %s\n", e.what());
  } catch (const std::exception& e) {
    std::fprintf(stderr, "embed: %s\n", e.what());
  }
  return 1;
}
