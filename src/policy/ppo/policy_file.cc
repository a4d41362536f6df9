#include "policy/ppo/policy_file.h"

#include <fmt/format.h>
#include <omp.h>

#include <charconv>
#include <cmath>
#include <cstring>

#include "core/random.h"
#include "device/cpu/isa.h"
#include "neap/error.h"
#include "observe/hardware_counters.h"
#include "policy/ppo/actor_critic.h"

namespace neap::ppo {
namespace {

constexpr std::string_view kMagic = "neap-recurrent-policy 1";
constexpr std::size_t kMostText = 1 << 20;
constexpr std::size_t kMostWeights = 1 << 16;

[[noreturn]] void refuse(std::string_view what) {
  throw UserError(fmt::format("a policy for recurrent layers: {}; make one with 'neap pretrain recurrent'", what));
}

// Lines of the text, one after another.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {}
  std::string_view next() {
    const std::size_t end = text_.find('\n', at_);
    if (end == std::string_view::npos) refuse("the file is cut off");
    const std::string_view line = text_.substr(at_, end - at_);
    at_ = end + 1;
    return line;
  }
  std::size_t at() const { return at_; }
  bool is_over() const { return at_ == text_.size(); }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

std::string_view after(std::string_view line, std::string_view key) {
  if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ' ') {
    refuse(fmt::format("a line with '{}' is missing", key));
  }
  return line.substr(key.size() + 1);
}

template <class T>
T number(std::string_view text, int base = 10) {
  T out{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  if (error != std::errc{} || end != text.data() + text.size()) refuse("a number is broken");
  return out;
}

// Weights are written as the bits of their floats, eight hexadecimal digits each.
void read_weights(Lines& lines, std::size_t count, std::vector<float>& out) {
  while (out.size() < count) {
    const std::string_view line = lines.next();
    if (line.empty() || line.size() % 8 != 0 || line.size() / 8 > count - out.size())
      refuse("a line of weights is broken");
    for (std::size_t i = 0; i < line.size(); i += 8) {
      const auto bits = number<std::uint32_t>(line.substr(i, 8), 16);
      float value = 0;
      std::memcpy(&value, &bits, sizeof value);
      if (!std::isfinite(value)) refuse("a weight is no number");
      out.push_back(value);
    }
  }
}

constexpr std::string_view kDefault =
#include "policy/ppo/default_policy.inc"
    ;

}  // namespace

std::string machine_text() {
  const Caches& caches = find_caches();
  return fmt::format("{}-{}-{}-{}", isa_name(), omp_get_max_threads(), caches.l2_bytes, caches.l3_bytes);
}

std::string to_text(const Learnt& learnt) {
  std::string out = fmt::format("{}\nfeatures {}\nmachine {}\n", kMagic, kFeatures, learnt.machine);
  for (const auto& [name, values] : learnt.weights) {
    out += fmt::format("tensor {} {}\n", name, values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &values[i], sizeof bits);
      out += fmt::format("{:08x}", bits);
      if (i % 14 == 13 || i + 1 == values.size()) out += '\n';
    }
  }
  return out + fmt::format("end {:016x}\n", hash_text(out));
}

Learnt parse_learnt(std::string_view text) {
  if (text.size() > kMostText) refuse("the file is far too large");
  Lines lines(text);
  if (!text.starts_with("neap-recurrent-policy ")) refuse("the file is none");
  if (lines.next() != kMagic) refuse("the file is of another version of neap");
  if (number<std::size_t>(after(lines.next(), "features")) != kFeatures)
    refuse("the file is of another version of neap");
  Learnt out{.machine = std::string(after(lines.next(), "machine"))};
  std::size_t total = 0;
  for (;;) {
    const std::size_t before = lines.at();
    const std::string_view line = lines.next();
    if (line.starts_with("end ")) {
      if (number<std::uint64_t>(line.substr(4), 16) != hash_text(text.substr(0, before)))
        refuse("its checksum is wrong");
      if (!lines.is_over()) refuse("something follows its end");
      return out;
    }
    const std::string_view tensor = after(line, "tensor");
    const std::size_t blank = tensor.find(' ');
    if (blank == std::string_view::npos) refuse("a tensor has no size");
    const auto count = number<std::size_t>(tensor.substr(blank + 1));
    if (count == 0 || count > kMostWeights || (total += count) > kMostWeights) refuse("it has too many weights");
    const auto [at, is_new] = out.weights.try_emplace(std::string(tensor.substr(0, blank)));
    if (!is_new) refuse("a tensor is there twice");
    read_weights(lines, count, at->second);
  }
}

const Learnt& default_learnt() {
  static const Learnt kLearnt = parse_learnt(kDefault);
  return kLearnt;
}

Learnt usable_learnt(std::string_view text, std::string& why) {
  why.clear();
  if (text.empty()) return default_learnt();
  try {
    Learnt out = parse_learnt(text);
    if (out.machine != "any" && out.machine != machine_text()) {
      refuse(fmt::format("it was measured on another machine ({}, this one is {})", out.machine, machine_text()));
    }
    ActorCritic(2, {}, 0).load(out.weights);  // names and sizes
    return out;
  } catch (const UserError& e) {
    why = std::string(e.what()) + "; the one that comes with neap is used";
  }
  return default_learnt();
}

}  // namespace neap::ppo
