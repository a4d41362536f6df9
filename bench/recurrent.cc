// Recurrent layers by gear and gate policy, forward and backward, interleaved in one run.
//   recurrent_gears gears      every gear against rolled
//   recurrent_gears gates      gates made again against gates kept: time, and what is saved
//   recurrent_gears switch     what a switch of gears costs in a sequence of 128 steps
//   recurrent_gears shapes     the shapes that bench/recurrent_peer.py gives to PyTorch: one line of JSON each
#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "device/cpu/isa.h"
#include "policy/ppo/measure.h"

namespace {

using neap::CellKind;
using neap::Gear;
using neap::ppo::Action;
using neap::ppo::Setting;
using neap::ppo::Timer;

// DeepBench's training set scaled to two cores: T <= 100, H <= 1024.
const std::vector<Setting> kShapes = {
    {CellKind::kLstm, 50, 16, 512, 512, 25},  {CellKind::kLstm, 50, 32, 512, 512, 25},
    {CellKind::kLstm, 48, 64, 512, 512, 16},  {CellKind::kLstm, 25, 16, 1024, 1024, 25},
    {CellKind::kLstm, 100, 8, 256, 256, 20},  {CellKind::kLstm, 100, 1, 256, 256, 20},
    {CellKind::kGru, 50, 16, 512, 512, 25},   {CellKind::kGru, 48, 32, 512, 512, 16},
    {CellKind::kGru, 25, 16, 1024, 1024, 25}, {CellKind::kGru, 100, 1, 256, 256, 20},
    {CellKind::kLstm, 128, 32, 512, 512, 16},  // a layer of lstm-lm
    {CellKind::kGru, 128, 32, 512, 512, 16},
};

const char* name_of(CellKind kind) { return kind == CellKind::kLstm ? "lstm" : kind == CellKind::kGru ? "gru" : "rnn"; }

// On one thread, the time that it had a processor: on a machine that others use too that is steadier.
Timer timer() { return omp_get_max_threads() == 1 ? Timer::kThread : Timer::kElapsed; }

// Rounds for about as long in every setting.
int rounds_for(const Setting& s) {
  const std::int64_t work = s.steps * s.batch * s.hidden * (s.hidden + s.input);
  return static_cast<int>(std::clamp<std::int64_t>(4'000'000'000 / work, 3, 60));
}

std::vector<double> interleaved(const Setting& s, const std::vector<Action>& actions) {
  return neap::ppo::times_of(s, actions, rounds_for(s), timer());
}

void print_setting(const Setting& s) {
  std::printf("%-5s T %4ld batch %4ld input %5ld H %5ld chunk %3ld:", name_of(s.kind), s.steps, s.batch, s.input,
              s.hidden, s.chunk);
}

void gears() {
  const std::vector<Gear>& all = neap::default_gears();
  std::vector<Action> actions;
  for (const Gear& g : all) actions.push_back({g, true});
  for (const Setting& s :
       {Setting{CellKind::kLstm, 64, 1, 256, 256, 16}, Setting{CellKind::kLstm, 64, 32, 512, 512, 16},
        Setting{CellKind::kGru, 64, 1, 256, 256, 16}, Setting{CellKind::kGru, 64, 32, 512, 512, 16},
        Setting{CellKind::kTanh, 64, 32, 512, 512, 16}}) {
    const auto us = interleaved(s, actions);
    print_setting(s);
    for (std::size_t a = 0; a < all.size(); ++a) std::printf("  %s %.2fx", all[a].text().c_str(), us[0] / us[a]);
    std::printf("  (rolled %.1f us a step)\n", us[0]);
    std::fflush(stdout);
  }
}

void gates() {
  for (const Setting& s :
       {Setting{CellKind::kLstm, 64, 1, 256, 256, 16}, Setting{CellKind::kLstm, 64, 32, 512, 512, 16},
        Setting{CellKind::kGru, 64, 32, 512, 512, 16}}) {
    const auto us = interleaved(s, {{Gear::whole(), true}, {Gear::whole(), false}});
    // Beside its input a layer saves h, the gates and, of an LSTM, c.
    const double states = s.kind == CellKind::kLstm ? 2 : 1;
    print_setting(s);
    std::printf("  made again: %.2fx the time, %.0f %% less saved\n", us[1] / us[0], 100 * 4 / (states + 4));
    std::fflush(stdout);
  }
}

void switches() {
  for (const Setting& s :
       {Setting{CellKind::kLstm, 128, 1, 256, 256, 16}, Setting{CellKind::kLstm, 128, 32, 512, 512, 16}}) {
    const Gear a = Gear::unrolled(8);
    const Gear b = Gear::whole();
    const auto best = neap::ppo::times_of_tapes(s, {{a}, {b}, {a, b}}, rounds_for(s), timer());
    const double mean = (best[0] + best[1]) / 2;  // half of the chunks in each
    const std::int64_t switches = s.steps / s.chunk - 1;
    print_setting(s);
    std::printf("  %.1f and %.1f us a step; switching at every chunk %.1f: %.2f %% of a sequence a switch\n", best[0],
                best[1], best[2], 100 * (best[2] / mean - 1) / static_cast<double>(switches));
    std::fflush(stdout);
  }
}

void shapes() {
  for (const Setting& s : kShapes) {
    const auto us = interleaved(s, {{Gear::whole(), true}});
    std::printf("{\"kind\": \"%s\", \"steps\": %ld, \"batch\": %ld, \"input\": %ld, \"hidden\": %ld, \"ms\": %.3f}\n",
                name_of(s.kind), s.steps, s.batch, s.input, s.hidden, us[0] * static_cast<double>(s.steps) / 1e3);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "gears";
  if (what != "shapes") std::printf("ISA %s, %d threads\n", neap::isa_name(), omp_get_max_threads());
  if (what == "gears") gears();
  if (what == "gates") gates();
  if (what == "switch") switches();
  if (what == "shapes") shapes();
  return 0;
}
