#include "pool/simple_predictors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <string>
#include <unordered_map>

#include "core/random.h"
#include "neap/error.h"

namespace neap {
namespace {

Lifetime certain(double ticks) { return {ticks, ticks, ticks}; }

class Constant final : public LifetimePredictor {
 public:
  Constant(std::string_view name, double ticks) : name_(name), ticks_(ticks) {}
  std::string_view name() const override { return name_; }
  void predict(std::span<const AllocationEvent> /*step*/, std::span<Lifetime> out) override {
    std::fill(out.begin(), out.end(), certain(ticks_));
  }
  void observe(std::span<const AllocationEvent> /*step*/, std::span<const Tick> /*lifespans*/) override {}

 private:
  std::string_view name_;
  double ticks_;
};

// Other numbers at each call.
class Random final : public LifetimePredictor {
 public:
  std::string_view name() const override { return "random"; }
  void predict(std::span<const AllocationEvent> step, std::span<Lifetime> out) override {
    for (std::size_t i = 0; i < step.size(); ++i) {
      const double ticks = random_.uniform() * static_cast<double>(step[i].ticks);
      out[i] = {0.5 * ticks, ticks, 2 * ticks};
    }
  }
  void observe(std::span<const AllocationEvent> /*step*/, std::span<const Tick> /*lifespans*/) override {}

 private:
  RandomStream random_{1};
};

class Informed final : public InformedPredictor {
 public:
  explicit Informed(bool lies) : lies_(lies) {}
  std::string_view name() const override { return lies_ ? "adversarial" : "oracle"; }
  void inform(std::span<const Tick> lifespans) override { truth_.assign(lifespans.begin(), lifespans.end()); }
  void predict(std::span<const AllocationEvent> step, std::span<Lifetime> out) override {
    require(truth_.size() == step.size(), "an informed predictor was shown this step");
    for (std::size_t i = 0; i < step.size(); ++i) {
      out[i] = certain(lies_ ? static_cast<double>(step[i].ticks) - truth_[i] : truth_[i]);
    }
  }
  void observe(std::span<const AllocationEvent> /*step*/, std::span<const Tick> /*lifespans*/) override {}

 private:
  bool lies_;
  std::vector<Tick> truth_;
};

class LastValue final : public LifetimePredictor {
 public:
  std::string_view name() const override { return "last-value"; }

  // The n-th event of a site was the n-th before, too; where there are more of them now, as the last one.
  void predict(std::span<const AllocationEvent> step, std::span<Lifetime> out) override {
    std::unordered_map<std::uint32_t, std::size_t> turns;
    for (std::size_t i = 0; i < step.size(); ++i) {
      const auto at = seen_.find(step[i].site);
      const std::size_t turn = turns[step[i].site]++;
      out[i] = at == seen_.end() ? Lifetime{} : certain(at->second[std::min(turn, at->second.size() - 1)]);
    }
  }

  void observe(std::span<const AllocationEvent> step, std::span<const Tick> lifespans) override {
    for (const AllocationEvent& e : step) seen_[e.site].clear();
    for (std::size_t i = 0; i < step.size(); ++i) seen_[step[i].site].push_back(lifespans[i]);
  }

 private:
  std::unordered_map<std::uint32_t, std::vector<double>> seen_;
};

// Quantiles of what a site has shown lately.
class Average final : public LifetimePredictor {
 public:
  std::string_view name() const override { return "average"; }

  void predict(std::span<const AllocationEvent> step, std::span<Lifetime> out) override {
    std::unordered_map<std::uint32_t, Lifetime> known;
    for (std::size_t i = 0; i < step.size(); ++i) {
      const auto [at, is_first] = known.try_emplace(step[i].site);
      if (is_first) at->second = quantiles(step[i].site);
      out[i] = at->second;
    }
  }

  void observe(std::span<const AllocationEvent> step, std::span<const Tick> lifespans) override {
    for (std::size_t i = 0; i < step.size(); ++i) {
      std::deque<double>& window = windows_[step[i].site];
      window.push_back(lifespans[i]);
      if (window.size() > kWindow) window.pop_front();
    }
  }

 private:
  static constexpr std::size_t kWindow = 256;

  Lifetime quantiles(std::uint32_t site) const {
    const auto at = windows_.find(site);
    if (at == windows_.end()) return {};
    std::vector<double> sorted(at->second.begin(), at->second.end());
    std::sort(sorted.begin(), sorted.end());
    const auto quantile = [&](double q) {
      return sorted[static_cast<std::size_t>(q * static_cast<double>(sorted.size() - 1))];
    };
    return {quantile(0.1), quantile(0.5), quantile(0.9)};
  }

  std::unordered_map<std::uint32_t, std::deque<double>> windows_;
};

// Least squares of lifespan on 1, length and bytes, with a little ridge: length and bytes often say the same.
class Regression final : public LifetimePredictor {
 public:
  std::string_view name() const override { return "regression"; }

  void predict(std::span<const AllocationEvent> step, std::span<Lifetime> out) override {
    for (std::size_t i = 0; i < step.size(); ++i) {
      const auto at = sites_.find(step[i].site);
      out[i] = at == sites_.end() ? Lifetime{} : at->second.predict(features(step[i]));
    }
  }

  void observe(std::span<const AllocationEvent> step, std::span<const Tick> lifespans) override {
    for (std::size_t i = 0; i < step.size(); ++i) sites_[step[i].site].add(features(step[i]), lifespans[i]);
  }

 private:
  static constexpr std::size_t kTerms = 3;
  using Features = std::array<double, kTerms>;

  static Features features(const AllocationEvent& e) {
    return {1, static_cast<double>(e.length) / 64, static_cast<double>(e.bytes) / 65536};
  }

  struct Site {
    std::array<Features, kTerms> xx{};
    Features xy{};
    double yy = 0;
    mutable Features weights{};
    mutable double spread = 0;
    mutable bool is_fitted = false;

    void add(const Features& x, double y) {
      for (std::size_t i = 0; i < kTerms; ++i) {
        for (std::size_t j = 0; j < kTerms; ++j) xx[i][j] += x[i] * x[j];
        xy[i] += x[i] * y;
      }
      yy += y * y;
      is_fitted = false;
    }

    Lifetime predict(const Features& x) const {
      constexpr double kDecile = 1.2816;  // of a normal distribution, in deviations
      if (!is_fitted) fit();
      double y = 0;
      for (std::size_t i = 0; i < kTerms; ++i) y += weights[i] * x[i];
      y = std::max(1.0, y);
      return {std::max(1.0, y - kDecile * spread), y, y + kDecile * spread};
    }

    // Gaussian elimination; the matrix is positive definite by its ridge.
    void fit() const {
      auto a = xx;
      Features b = xy;
      for (std::size_t i = 0; i < kTerms; ++i) a[i][i] += 1e-6 * (1 + xx[i][i]);
      for (std::size_t i = 0; i < kTerms; ++i) {
        for (std::size_t j = i + 1; j < kTerms; ++j) {
          const double factor = a[j][i] / a[i][i];
          for (std::size_t k = i; k < kTerms; ++k) a[j][k] -= factor * a[i][k];
          b[j] -= factor * b[i];
        }
      }
      double error = yy;
      for (std::size_t i = kTerms; i-- > 0;) {
        weights[i] = b[i];
        for (std::size_t k = i + 1; k < kTerms; ++k) weights[i] -= a[i][k] * weights[k];
        weights[i] /= a[i][i];
      }
      for (std::size_t i = 0; i < kTerms; ++i) error -= weights[i] * xy[i];
      spread = std::sqrt(std::max(0.0, error) / std::max(1.0, xx[0][0]));
      is_fitted = true;
    }
  };

  std::unordered_map<std::uint32_t, Site> sites_;
};

struct Entry {
  std::string_view name;
  std::unique_ptr<LifetimePredictor> (*make)();
};

const Entry kPredictors[] = {
    {"oracle", [] { return std::unique_ptr<LifetimePredictor>(new Informed(false)); }},
    {"last-value", [] { return std::unique_ptr<LifetimePredictor>(new LastValue); }},
    {"average", [] { return std::unique_ptr<LifetimePredictor>(new Average); }},
    {"regression", [] { return std::unique_ptr<LifetimePredictor>(new Regression); }},
    {"zero", [] { return std::unique_ptr<LifetimePredictor>(new Constant("zero", 0)); }},
    {"infinite",
     [] {
       constexpr double kForever = std::numeric_limits<double>::infinity();
       return std::unique_ptr<LifetimePredictor>(new Constant("infinite", kForever));
     }},
    {"nan",
     [] {
       constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
       return std::unique_ptr<LifetimePredictor>(new Constant("nan", kNone));
     }},
    {"random", [] { return std::unique_ptr<LifetimePredictor>(new Random); }},
    {"adversarial", [] { return std::unique_ptr<LifetimePredictor>(new Informed(true)); }},
};

}  // namespace

std::unique_ptr<LifetimePredictor> predictor_named(std::string_view name) {
  std::string names;
  for (const Entry& entry : kPredictors) {
    if (entry.name == name) return entry.make();
    names += fmt::format("{}{}", names.empty() ? "" : ", ", entry.name);
  }
  throw UserError(fmt::format("there is no predictor of lifetimes '{}'; take one of: {}", name, names));
}

std::vector<std::string_view> predictor_names() {
  std::vector<std::string_view> out;
  for (const Entry& entry : kPredictors) out.push_back(entry.name);
  return out;
}

}  // namespace neap
