// Recurrent layers by gear and gate policy, forward and backward, interleaved in one run.
//   recurrent_gears gears      every gear against rolled
//   recurrent_gears gates      gates made again against gates kept: time, and what is saved
//   recurrent_gears switch     what a switch of gears costs in a sequence of 128 steps
//   recurrent_gears onednn [N] beside oneDNN's LSTM primitive, from the N-th of the shapes on: time and workspace
//   recurrent_gears shapes [N] [COUNT]  the shapes that bench/recurrent_peer.py gives to PyTorch: one line of JSON each
#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "core/clock.h"
#include "device/cpu/isa.h"
#include "policy/ppo/measure.h"
#ifdef NEAP_WITH_ONEDNN
#include "bench/onednn_lstm.h"
#endif

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

// Bytes that an LSTM keeps for backward beside its output, and books while it runs.
std::int64_t bytes_of(const Setting& s, bool keeps_gates) {
  const std::int64_t kept = 4 * s.steps * s.batch * s.hidden * (keeps_gates ? 5 : 1);
  return kept + neap::ppo::LayerRun(s, keeps_gates).workspace_bytes();
}

#ifdef NEAP_WITH_ONEDNN
// Interleaved, the least of some rounds: Neap with the gates kept and made again, the primitives alone, and with the
// weights brought into their layouts.
void beside_onednn(const Setting& s) {
  neap::ppo::LayerRun keeping(s, true);
  neap::ppo::LayerRun making(s, false);
  neap::bench::OneDnnLstm peer(s.steps, s.batch, s.input, s.hidden);
  const Gear whole = Gear::whole();
  double best[4] = {};
  for (int round = 0; round <= std::clamp(rounds_for(s), 5, 20); ++round) {
    for (int turn = 0; turn < 8; ++turn) {  // each twice in a row: the second time its memory is in the caches
      const int i = turn / 2;
      const auto start = neap::Clock::now();
      if (i < 2) (i == 0 ? keeping : making).run({&whole, 1});
      if (i == 3) peer.bring_weights();
      if (i >= 2) peer.run();
      const double ms = neap::ms_since(start);
      if (round > 0) best[i] = best[i] == 0 ? ms : std::min(best[i], ms);
    }
  }
  const auto peer_bytes = static_cast<double>(peer.workspace_bytes() + peer.scratch_bytes());
  const auto share = [&](bool keeps) { return static_cast<double>(bytes_of(s, keeps)) / peer_bytes; };
  std::printf("| LSTM T %ld, batch %ld, H %ld | %.2f | %.2f | %.2f | %.2f | %.2f | %.1f | %.2f | %.2f |\n", s.steps,
              s.batch, s.hidden, best[0], best[2], best[0] / best[2], best[0] / best[3], best[1] / best[3],
              peer_bytes / (1 << 20), share(true), share(false));
  std::fflush(stdout);
}
#endif

void onednn(std::size_t from) {
#ifdef NEAP_WITH_ONEDNN
  std::printf(
      "| layer | Neap ms | oneDNN ms | ratio | with its weights' layouts | the same, gates made again | oneDNN's "
      "workspace MiB | Neap's beside it | gates made again |\n");
  for (std::size_t i = from; i < kShapes.size(); ++i) {
    if (kShapes[i].kind == CellKind::kLstm) beside_onednn(kShapes[i]);
  }
#else
  std::printf("this build has no oneDNN (from %zu)\n", from);
#endif
}

void shapes(std::size_t from, std::size_t count) {
  for (std::size_t i = from; i < std::min(kShapes.size(), from + count); ++i) {
    const Setting& s = kShapes[i];
    const auto us = interleaved(s, {{Gear::whole(), true}});
    std::printf("{\"kind\": \"%s\", \"steps\": %ld, \"batch\": %ld, \"input\": %ld, \"hidden\": %ld, \"ms\": %.3f}\n",
                name_of(s.kind), s.steps, s.batch, s.input, s.hidden, us[0] * static_cast<double>(s.steps) / 1e3);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "gears";
  const auto number = [&](int i, std::size_t otherwise) {
    return argc > i ? static_cast<std::size_t>(std::strtoul(argv[i], nullptr, 10)) : otherwise;
  };
  if (what != "shapes") std::printf("ISA %s, %d threads\n", neap::isa_name(), omp_get_max_threads());
  if (what == "gears") gears();
  if (what == "gates") gates();
  if (what == "switch") switches();
  if (what == "onednn") onednn(number(2, 0));
  if (what == "shapes") shapes(number(2, 0), number(3, kShapes.size()));
  return 0;
}
