// The words of the text form, shared by print() and parse_graph(). docs: one line a tensor or node, in program order.
//
//   input x f32[batch,4]                              leaves: input, param, frozen (a parameter that is not trained),
//   param fc.weight f32[3,4] uniform(0.5)             buffer, optimizer, constant; how they start, unless with 0
//   constant two f32[1] = 00000040                    bytes in memory order; above kMaxConstantBytes only a hash
//   y f32[batch,3] = matmul(x, fc.weight) @fc         outputs = op(inputs) @layer
//   a f32[1], b f32[2] = split(c, none) {axis=0, sizes=[1,2]} backward as cut
//   output loss = y
//
// An input that is not given is `none`. The phase is left out for forward; `as` gives the node's name where it is not
// the first output's. Names that are not plain words are quoted. Attributes: 1, 1.0, "text", [1,2], reals[1.0,2.0],
// shape[batch,4]. `#` begins a comment.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "graph/graph.h"

namespace neap::text {

inline constexpr std::size_t kMaxConstantBytes = 256;
inline constexpr std::string_view kNone = "none";
inline constexpr std::string_view kFrozen = "frozen";
inline constexpr std::string_view kOutput = "output";
inline constexpr std::array<std::pair<std::string_view, Phase>, 3> kPhases = {
    {{"forward", Phase::kForward}, {"backward", Phase::kBackward}, {"update", Phase::kUpdate}}};
inline constexpr std::array<std::pair<std::string_view, Init::Kind>, 3> kInits = {
    {{"constant", Init::Kind::kConstant}, {"normal", Init::Kind::kNormal}, {"uniform", Init::Kind::kUniform}}};

// Letters, digits and _.:/- after a letter or underscore.
bool is_word_start(char c);
bool is_word_char(char c);
// Has a meaning of its own at the start of a line or among inputs, so that a tensor of that name is quoted.
bool is_keyword(std::string_view word);

}  // namespace neap::text
