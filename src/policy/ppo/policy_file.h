// What the agent learnt, as text: a version, the machine that it was measured on, the weights, a checksum.
#pragma once

#include <string>
#include <string_view>

#include "policy/network/network.h"

namespace neap::ppo {

struct Learnt {
  std::string machine;  // machine_text(), or "any"
  NetworkWeights weights;
};

// What times depend on most: instruction set, threads, caches.
std::string machine_text();

std::string to_text(const Learnt& learnt);
// UserError says in one line what is wrong: cut off, changed, of another version, not a policy at all.
Learnt parse_learnt(std::string_view text);

// What Neap comes with.
const Learnt& default_learnt();

// That of `text`; where it cannot be used (empty, broken, or of another machine) the one that Neap comes with, and
// `why` then says why in one line; empty: nothing to say.
Learnt usable_learnt(std::string_view text, std::string& why);

}  // namespace neap::ppo
