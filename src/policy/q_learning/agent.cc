#include "policy/q_learning/agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <istream>
#include <ostream>

#include "core/random.h"
#include "neap/error.h"

namespace neap::q_learning {
namespace {

constexpr std::size_t kPressures = 16;
constexpr std::size_t kDensities = 8;
constexpr std::size_t kPositions = 4;
constexpr std::size_t kBounds = 2;
constexpr std::size_t kStates = kPressures * kDensities * kPositions * kBounds;
constexpr double kSlack = 1e-6;  // of a byte: sums of the same bytes in another order

std::size_t bin(double value, std::size_t bins) {
  return static_cast<std::size_t>(std::clamp(value, 0.0, static_cast<double>(bins) - 1));
}

}  // namespace

void check(const AgentOptions& o) {
  for (const int n : o.every) {
    if (n < 2 || n > 4096) throw UserError(fmt::format("a checkpoint every {} layers: take 2 to 4096", n));
  }
  if (o.every.size() > 64) throw UserError("at most 64 numbers of layers can be offered");
  const auto is_share = [](double x) { return x >= 0 && x <= 1; };
  if (!is_share(o.rate) || !is_share(o.epsilon)) throw UserError("the agent's rate and epsilon lie between 0 and 1");
  for (const double w : {o.reward.time, o.reward.memory, o.reward.bandwidth}) {
    if (!(w >= 0 && w < 1e6)) throw UserError("the weights of a reward are not negative and below 1000000");
  }
  if (o.reward.time + o.reward.memory + o.reward.bandwidth <= 0) {
    throw UserError("a reward whose weights are all 0 says nothing");
  }
}

// One pass over a chain: where it stands, how much is left, what may be chosen.
class Agent::Walk {
 public:
  Walk(const Chain& chain, const std::vector<Choice>& offered)
      : chain_(chain), offered_(offered), least_(least_bytes(chain, offered)), left_(chain.budget) {
    rest_.assign(chain.layers.size() + 1, 0.0);
    rest_ms_ = rest_;
    for (std::size_t i = chain.layers.size(); i-- > 0;) {
      rest_[i] = rest_[i + 1] + chain.layers[i].input_bytes + chain.layers[i].inside_bytes;
      rest_ms_[i] = rest_ms_[i + 1] + chain.layers[i].ms;
    }
    density_ = chain.total_bytes() / chain.total_ms();
  }

  bool is_over() const { return at_ >= chain_.layers.size(); }
  std::size_t at() const { return at_; }
  double left() const { return left_; }
  double rest() const { return std::max(rest_ms_[at_] / chain_.total_ms(), 1e-9); }

  std::size_t state() const {
    const ChainLayer& l = chain_.layers[at_];
    // 1 and above: the rest can be stored; each bin below is a factor of 2^(1/4).
    const double pressure = std::max(left_, 0.0) / std::max(rest_[at_], 1.0);
    const std::size_t p =
        pressure >= 1 ? kPressures - 1 : bin(kPressures - 2 + std::log2(pressure + 1e-9) * 4, kPressures - 1);
    const double density = (l.inside_bytes + 1) / std::max(l.ms, 1e-9) / density_;
    const std::size_t d = bin(std::log2(density) + static_cast<double>(kDensities) / 2, kDensities);
    const std::size_t where = at_ * kPositions / chain_.layers.size();
    const std::size_t bound = l.bandwidth > 0.5 ? 1 : 0;
    return ((p * kDensities + d) * kPositions + where) * kBounds + bound;
  }

  // Choices after which the rest can still be had.
  std::vector<std::size_t> allowed() const {
    std::vector<std::size_t> out;
    for (std::size_t c = 0; c < offered_.size(); ++c) {
      const Effect e = effect_of(chain_, at_, offered_[c]);
      if (e.kept + std::max(e.passing, least_[at_ + e.layers]) <= left_ + kSlack) out.push_back(c);
    }
    return out;
  }

  Effect effect(std::size_t choice) const { return effect_of(chain_, at_, offered_[choice]); }

  void take(std::size_t choice) {
    const Effect e = effect(choice);
    left_ -= e.kept;
    at_ += e.layers;
  }

 private:
  const Chain& chain_;
  const std::vector<Choice>& offered_;
  std::vector<double> least_;
  std::vector<double> rest_;     // bytes of storing everything from a layer on
  std::vector<double> rest_ms_;  // time of the layers from one on
  double left_;
  double density_ = 1;  // bytes a millisecond of the whole chain
  std::size_t at_ = 0;
};

Agent::Agent(AgentOptions options) : options_(std::move(options)), offered_(choices_of(options_.every)) {
  check(options_);
  table_.resize(kStates * offered_.size());
}

double Agent::random() { return static_cast<double>(unit_float(Philox{options_.seed}(draws_++, 0x9e1)[0])); }

std::size_t Agent::best_of(std::size_t state, std::span<const std::size_t> allowed) const {
  // Nobody has been here: store what may be stored (the least recomputation that the mask leaves).
  const auto known = [&](std::size_t a) { return cell(state, a).visits > 0; };
  if (std::none_of(allowed.begin(), allowed.end(), known)) return allowed.front();
  std::size_t best = allowed.size();
  for (std::size_t i = 0; i < allowed.size(); ++i) {
    if (!known(allowed[i])) continue;
    if (best == allowed.size() || cell(state, allowed[i]).value > cell(state, allowed[best]).value) best = i;
  }
  return allowed[best];
}

// Q-learning, from the end of the episode: each decision's reward and the best that can follow it.
void Agent::backup(const std::vector<Moment>& moments) {
  double ahead = 0;
  for (std::size_t i = moments.size(); i-- > 0;) {
    const Moment& m = moments[i];
    Cell& c = cell(m.state, m.action);
    const double target = (m.reward + ahead) / m.rest;
    const double rate = c.visits == 0 ? 1.0 : std::max(options_.rate / 10, options_.rate / std::sqrt(1.0 + c.visits));
    c.value += static_cast<float>(rate * (target - static_cast<double>(c.value)));
    ++c.visits;
    ahead = static_cast<double>(cell(m.state, best_of(m.state, m.allowed)).value) * m.rest;
  }
}

// Where the exact plan passes, every choice gets the value that the exact solution gives it.
void Agent::imitate(const Chain& chain) {
  const ExactPlan exact(chain, offered_, options_.reward);
  for (Walk walk(chain, offered_); !walk.is_over();) {
    const std::size_t state = walk.state();
    std::optional<std::size_t> best;
    double most = 0;
    for (const std::size_t a : walk.allowed()) {
      const Effect e = walk.effect(a);
      const double value =
          reward_of(options_.reward, chain, e) + exact.value(walk.at() + e.layers, walk.left() - e.kept);
      if (!std::isfinite(value)) continue;
      Cell& c = cell(state, a);
      c.value += static_cast<float>((value / walk.rest() - static_cast<double>(c.value)) / (1.0 + c.visits));
      ++c.visits;
      if (!best || value > most) {
        best = a;
        most = value;
      }
    }
    if (!best) return;  // the bins are too coarse for what is left
    walk.take(*best);
  }
}

void Agent::learn(const Chain& chain) {
  if (chain.layers.empty()) return;
  Chain lesson = chain;
  for (int i = 0; i < options_.lessons; ++i) {
    // Budgets from 0.8 to 1.2 of the given one, the given one first.
    lesson.budget = chain.budget * (i == 0 ? 1.0 : 0.8 + 0.4 * random());
    imitate(lesson);
  }
  for (int i = 0; i < options_.refinements; ++i) {
    const auto choices = propose(chain, true);
    if (!choices) return;
    std::vector<double> rewards;
    std::size_t at = 0;
    for (const Choice& choice : *choices) {
      const Effect e = effect_of(chain, at, choice);
      rewards.push_back(reward_of(options_.reward, chain, e));
      at += e.layers;
    }
    reinforce(chain, *choices, rewards);
  }
}

std::optional<Choices> Agent::propose(const Chain& chain, bool explore) {
  Choices out;
  for (Walk walk(chain, offered_); !walk.is_over();) {
    const std::vector<std::size_t> allowed = walk.allowed();
    if (allowed.empty()) return std::nullopt;
    std::size_t choice = best_of(walk.state(), allowed);
    if (explore && random() < options_.epsilon) {
      choice = allowed[static_cast<std::size_t>(random() * static_cast<double>(allowed.size()))];
    }
    out.push_back(offered_[choice]);
    walk.take(choice);
  }
  return out;
}

void Agent::reinforce(const Chain& chain, const Choices& choices, std::span<const double> rewards) {
  require(choices.size() == rewards.size(), "a reward for each choice");
  std::vector<Moment> moments;
  Walk walk(chain, offered_);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const auto at = std::find(offered_.begin(), offered_.end(), choices[i]);
    require(at != offered_.end() && !walk.is_over(), "choices are those that are offered");
    const auto action = static_cast<std::size_t>(at - offered_.begin());
    std::vector<std::size_t> allowed = walk.allowed();
    if (std::find(allowed.begin(), allowed.end(), action) == allowed.end()) return;  // the budget is smaller by now
    moments.push_back({.state = walk.state(),
                       .action = action,
                       .reward = rewards[i],
                       .rest = walk.rest(),
                       .allowed = std::move(allowed)});
    walk.take(action);
  }
  backup(moments);
}

std::int64_t Agent::bytes() const { return static_cast<std::int64_t>(table_.size() * sizeof(Cell)); }

void Agent::save(std::ostream& out) const {
  out << "neap-q 1 " << kStates << ' ' << offered_.size() << '\n';
  for (const Choice& c : offered_) out << static_cast<int>(c.kind) << ' ' << c.every << '\n';
  for (std::size_t i = 0; i < table_.size(); ++i) {
    if (table_[i].visits > 0)
      out << i << ' ' << fmt::format("{:a}", table_[i].value) << ' ' << table_[i].visits << '\n';
  }
}

void Agent::load(std::istream& in) {
  std::string magic;
  int version = 0;
  std::size_t states = 0;
  std::size_t actions = 0;
  in >> magic >> version >> states >> actions;
  if (!in || magic != "neap-q" || version != 1) throw UserError("what the agent learnt: the file is none of neap's");
  if (states != kStates || actions != offered_.size()) {
    throw UserError("what the agent learnt: the file is of an agent with other states or choices");
  }
  for (const Choice& c : offered_) {
    int kind = 0;
    std::int32_t every = 0;
    if (!(in >> kind >> every) || kind != static_cast<int>(c.kind) || every != c.every) {
      throw UserError("what the agent learnt: the file is of an agent with other choices");
    }
  }
  std::vector<Cell> table(table_.size());
  std::size_t at = 0;
  for (std::string value; in >> at;) {
    std::uint32_t visits = 0;
    if (!(in >> value >> visits) || at >= table.size()) throw UserError("what the agent learnt: a line is broken");
    char* end = nullptr;
    table[at] = {.value = std::strtof(value.c_str(), &end), .visits = visits};
    if (end == nullptr || *end != '\0' || !std::isfinite(table[at].value)) {
      throw UserError("what the agent learnt: a value is no number");
    }
  }
  if (!in.eof()) throw UserError("what the agent learnt: a line is broken");
  table_ = std::move(table);
}

}  // namespace neap::q_learning
