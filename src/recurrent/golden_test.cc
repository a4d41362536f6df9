// Every profile, gate policy and switch inside a sequence against PyTorch: two layers in both directions from given
// states, with and without rows that end earlier. The files are made by tests/parity/make_recurrent.py.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "recurrent/sequence_testing.h"
#include "recurrent/tapes_testing.h"
#include "train/safetensors.h"

namespace neap {
namespace {

using Floats = std::vector<float>;
constexpr std::int64_t kLayers = 2;

class Golden {
 public:
  explicit Golden(const std::string& name) : file_(std::string(NEAP_GOLDEN) + "/" + name + ".safetensors") {}

  const Shape& shape(const std::string& name) const { return at(name).shape; }
  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  template <class T = float>
  std::vector<T> values(const std::string& name) const {
    const SafeTensor& t = at(name);
    std::vector<T> out(t.data.size() / sizeof(T));
    std::memcpy(out.data(), t.data.data(), t.data.size());
    return out;
  }
  // The i-th of equal parts along the first axis.
  Floats part(const std::string& name, std::size_t i) const {
    const Floats all = values(name);
    const std::size_t n = all.size() / static_cast<std::size_t>(shape(name).size(0));
    return {all.begin() + static_cast<std::ptrdiff_t>(i * n), all.begin() + static_cast<std::ptrdiff_t>((i + 1) * n)};
  }

 private:
  const SafeTensor& at(const std::string& name) const {
    const SafeTensor* t = file_.find(name);
    if (t == nullptr) throw std::runtime_error("the golden file has no " + name);
    return *t;
  }
  SafeTensorsFile file_;
};

// [rows, a] and [rows, b] to [rows, a + b], and the way back.
Floats join(const Floats& a, const Floats& b, std::size_t rows) {
  Floats out;
  const std::size_t wide_a = a.size() / rows;
  const std::size_t wide_b = b.size() / rows;
  for (std::size_t r = 0; r < rows; ++r) {
    out.insert(out.end(), a.data() + r * wide_a, a.data() + (r + 1) * wide_a);
    out.insert(out.end(), b.data() + r * wide_b, b.data() + (r + 1) * wide_b);
  }
  return out;
}
Floats half(const Floats& all, std::size_t rows, std::size_t which) {
  Floats out;
  const std::size_t wide = all.size() / rows / 2;
  for (std::size_t r = 0; r < rows; ++r) {
    const float* from = all.data() + (2 * r + which) * wide;
    out.insert(out.end(), from, from + wide);
  }
  return out;
}

std::string suffix(std::size_t i) { return fmt::format("_l{}{}", i / 2, i % 2 == 1 ? "_reverse" : ""); }

// The layers of a golden file on the kernels, all by one tape.
class Stack {
 public:
  Stack(const Golden& golden, CellKind kind)
      : golden_(golden), rows_(static_cast<std::size_t>(golden.shape("x").size(0) * golden.shape("x").size(1))) {
    const Shape& x = golden.shape("x");
    for (std::size_t i = 0; i < 2 * kLayers; ++i) {
      SequenceCase c = {.kind = kind, .steps = x.size(0), .batch = x.size(1)};
      c.input = golden.shape("weight_ih" + suffix(i)).size(1);
      c.hidden = golden.shape("weight_hh" + suffix(i)).size(1);
      c.reverse = i % 2 == 1;
      c.has_lengths = golden.has("lengths");
      c.has_state = true;
      TapedSequence& s = parts_.emplace_back(c);
      s.w_ih = golden.values("weight_ih" + suffix(i));
      s.w_hh = golden.values("weight_hh" + suffix(i));
      s.b_ih = golden.values("bias_ih" + suffix(i));
      s.b_hh = golden.values("bias_hh" + suffix(i));
      s.h0 = golden.part("h0", i);
      s.dh_n = golden.part("wh", i);
      if (kind == CellKind::kLstm) s.c0 = golden.part("c0", i);
      if (kind == CellKind::kLstm) s.dc_n = golden.part("wc", i);
      if (c.has_lengths) s.lengths = golden.values<std::int32_t>("lengths");
    }
  }

  // The greatest difference from what is wanted, and where.
  std::pair<double, std::string> run(const Tape& tape) {
    forward(tape);
    backward(tape);
    worst_ = {0, ""};
    compare("y", top_, golden_.values("y"));
    compare("d.x", dx_, golden_.values("d.x"));
    for (std::size_t i = 0; i < parts_.size(); ++i) compare_part(i);
    return worst_;
  }

 private:
  void forward(const Tape& tape) {
    top_ = golden_.values("x");
    for (std::size_t l = 0; l < kLayers; ++l) {
      for (const std::size_t i : {2 * l, 2 * l + 1}) {
        parts_[i].x = top_;
        parts_[i].forward(tape);
      }
      top_ = join(parts_[2 * l].y(), parts_[2 * l + 1].y(), rows_);
    }
  }

  void backward(const Tape& tape) {
    dx_ = golden_.values("wy");
    for (std::size_t l = kLayers; l-- > 0;) {
      for (const std::size_t i : {2 * l, 2 * l + 1}) {
        parts_[i].dy = half(dx_, rows_, i % 2);
        parts_[i].backward(tape);
      }
      dx_ = parts_[2 * l].dx();
      for (std::size_t e = 0; e < dx_.size(); ++e) dx_[e] += parts_[2 * l + 1].dx()[e];
    }
  }

  void compare_part(std::size_t i) {
    const TapedSequence& s = parts_[i];
    compare("h_n", s.h_n(), golden_.part("h_n", i));
    compare("d.h0", s.dh0(), golden_.part("d.h0", i));
    compare("d.weight_ih" + suffix(i), s.dw_ih(), golden_.values("d.weight_ih" + suffix(i)));
    compare("d.weight_hh" + suffix(i), s.dw_hh(), golden_.values("d.weight_hh" + suffix(i)));
    compare("d.bias_ih" + suffix(i), s.db_ih(), golden_.values("d.bias_ih" + suffix(i)));
    compare("d.bias_hh" + suffix(i), s.db_hh(), golden_.values("d.bias_hh" + suffix(i)));
    if (!golden_.has("c0")) return;
    compare("c_n", s.c_n(), golden_.part("c_n", i));
    compare("d.c0", s.dc0(), golden_.part("d.c0", i));
  }

  void compare(const std::string& name, const Floats& got, const Floats& want) {
    if (got.size() != want.size()) worst_ = {INFINITY, name + " has another size"};
    for (std::size_t e = 0; e < std::min(got.size(), want.size()); ++e) {
      const double off = std::abs(double{got[e]} - want[e]) / (1 + std::abs(double{want[e]}));
      if (!(off <= worst_.first)) worst_ = {off, fmt::format("{}[{}]: {}, not {}", name, e, got[e], want[e])};
    }
  }

  const Golden& golden_;
  std::size_t rows_;
  std::vector<TapedSequence> parts_;
  Floats top_, dx_;
  std::pair<double, std::string> worst_;
};

class RecurrentGolden : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Torch, RecurrentGolden,
                         ::testing::Values("lstm", "gru", "rnn", "lstm-lengths", "gru-lengths", "rnn-lengths"),
                         [](const auto& which) {
                           std::string name = which.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(RecurrentGolden, EveryProfileGatePolicyAndSwitch) {
  const OneThread one;
  const std::string name = GetParam();
  const Golden golden(name);
  Stack stack(golden, name.starts_with("lstm")  ? CellKind::kLstm
                      : name.starts_with("gru") ? CellKind::kGru
                                                : CellKind::kTanh);
  for (const Tape& tape : all_tapes(golden.shape("x").size(0))) {
    const auto [off, where] = stack.run(tape);
    ASSERT_LT(off, 3e-6) << text_of(tape) << where;
  }
}

}  // namespace
}  // namespace neap
