// Every way to run a sequence of a few steps: each profile with each gate policy, and every switch between two of them.
#pragma once

#include <omp.h>

#include <algorithm>
#include <string>
#include <vector>

#include "recurrent/tape.h"

namespace neap {

struct Profile {
  Gear gear;
  bool keeps_gates = true;
  friend bool operator==(const Profile&, const Profile&) = default;
};

inline std::vector<Profile> all_profiles() {
  std::vector<Profile> out;
  for (const bool keeps : {true, false}) {
    for (const Gear& gear : {Gear::rolled(), Gear::unrolled(2), Gear::unrolled(4), Gear::unrolled(8),
                             Gear::unrolled(16), Gear::whole(), Gear::hybrid(5)}) {
      out.push_back({gear, keeps});
    }
  }
  return out;
}

// All of it in one profile, cut into chunks.
inline Tape tape_of(std::int64_t steps, std::int64_t chunk, const Gear& gear, bool keeps_gates) {
  Tape out;
  for (std::int64_t start = 0; start < steps; start += chunk) {
    out.push_back({start, std::min(chunk, steps - start), gear, keeps_gates});
  }
  return out;
}

// Every profile as one chunk and in chunks of four; from every profile to every other one, before every step.
inline std::vector<Tape> all_tapes(std::int64_t steps) {
  std::vector<Tape> out;
  const std::vector<Profile> profiles = all_profiles();
  for (const Profile& a : profiles) {
    out.push_back(tape_of(steps, steps, a.gear, a.keeps_gates));
    out.push_back(tape_of(steps, 4, a.gear, a.keeps_gates));
    for (const Profile& b : profiles) {
      for (std::int64_t at = 1; at < steps && a != b; ++at) {
        out.push_back({{0, at, a.gear, a.keeps_gates}, {at, steps - at, b.gear, b.keeps_gates}});
      }
    }
  }
  return out;
}

// One thread while it lives: thousands of tiny parallel regions would wait for one another on a busy machine.
class OneThread {
 public:
  OneThread() { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_ = omp_get_max_threads();
};

inline std::string text_of(const Tape& tape) {
  std::string out;
  for (const TapeEntry& e : tape) {
    out += std::to_string(e.start) + ": " + e.gear.text() + (e.keeps_gates ? " keep, " : " recompute, ");
  }
  return out;
}

}  // namespace neap
