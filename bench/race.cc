// Several trainings in one process, step by step in turn, so that what else the machine does hits all of them alike:
//   build/bench/race STEPS  FROM UNTIL FLAGS...  [--vs FROM UNTIL FLAGS...]...
// Each entrant takes the flags of `neap train`, starts with round FROM and leaves after round UNTIL (1 is the first).
// One JSON object a step on standard output, with "entrant" and "round"; then a summary for each.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "cli/train_flags.h"
#include "neap/error.h"
#include "report/json.h"

namespace neap {
namespace {

struct Entrant {
  std::int64_t from = 1;
  std::int64_t until = 0;
  TrainFlags flags;
  std::unique_ptr<Trainer> trainer;  // null: not there yet, or gone
};

Entrant parse(std::vector<std::string> words) {
  if (words.size() < 3) throw UserError("an entrant is FROM UNTIL MODEL and flags");
  Entrant out;
  out.from = std::atoll(words[0].c_str());
  out.until = std::atoll(words[1].c_str());
  CLI::App app;
  add_train_flags(app, out.flags);
  std::vector<std::string> flags(words.rbegin(), words.rend() - 2);  // as the parser wants them
  app.parse(flags);
  out.flags.finish();
  out.flags.options.steps = out.until - out.from + 1;
  return out;
}

std::vector<Entrant> entrants_of(int argc, char** argv) {
  std::vector<Entrant> out;
  std::vector<std::string> words;
  for (int i = 2; i <= argc; ++i) {
    const bool is_end = i == argc || std::string_view(argv[i]) == "--vs";
    if (!is_end) {
      words.emplace_back(argv[i]);
      continue;
    }
    out.push_back(parse(std::exchange(words, {})));
  }
  return out;
}

void print(Json object, std::size_t entrant, std::int64_t round) {
  object["entrant"] = entrant;
  object["round"] = round;
  fmt::print("{}\n", object.dump());
  std::fflush(stdout);  // whoever reads acts at certain rounds
}

void advance(Entrant& e, std::size_t index, std::int64_t round) {
  if (!e.trainer) e.trainer = std::make_unique<Trainer>(e.flags.options);
  print(to_json(e.trainer->advance()), index, round);
  if (round < e.until) return;
  print(to_json(e.trainer->summary()), index, round);
  e.trainer.reset();
}

void race(std::vector<Entrant>& entrants, std::int64_t rounds) {
  for (std::int64_t round = 1; round <= rounds; ++round) {
    for (std::size_t i = 0; i < entrants.size(); ++i) {
      const std::size_t turn = (i + static_cast<std::size_t>(round)) % entrants.size();
      Entrant& e = entrants[turn];
      if (e.from <= round && round <= e.until) advance(e, turn, round);
    }
  }
}

int run(int argc, char** argv) {
  if (argc < 3) throw UserError("race STEPS FROM UNTIL MODEL FLAGS [--vs FROM UNTIL MODEL FLAGS]...");
  std::vector<Entrant> entrants = entrants_of(argc, argv);
  race(entrants, std::atoll(argv[1]));
  return 0;
}

}  // namespace
}  // namespace neap

int main(int argc, char** argv) {
  try {
    return neap::run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "race: {}\n", e.what());
    return 2;
  }
}
