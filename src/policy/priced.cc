#include "policy/priced.h"

#include <algorithm>

#include "core/bytes.h"
#include "policy/spill.h"

namespace neap {
namespace {

using precision::Level;

constexpr std::size_t kMostOptions = 12;

double per_byte(double ms, std::int64_t bytes) { return ms / static_cast<double>(std::max<std::int64_t>(bytes, 1)); }

}  // namespace

PricedChain::PricedChain(const Recompute& r, std::span<const Layer> layers, bool may_spill)
    : r_(r), chain_(r, layers), can_leave_(find_spillable(r.problem.graph, r.views)) {
  const PlanningProblem& p = r.problem;
  can_round_.assign(p.graph.tensors.size(), false);
  for (std::uint32_t i = 0; i < can_round_.size(); ++i) {
    // What settled levels round is no matter of choice, and its bytes are those of its level already.
    can_round_[i] = has_choice_of_levels(p) && can_leave_[i] && level_of(p, {i}) != Level::kFp32;
    can_leave_[i] = can_leave_[i] && may_spill && r.is_used({i});
  }
  find_waits();
}

// As if everything were kept: what is computed again only makes waits longer.
void PricedChain::find_waits() {
  std::vector<double> before_use;
  for (const NodeId id : r_.backward) {
    before_use.push_back(backward_ms_);
    backward_ms_ += r_.ms_of(id);
  }
  before_use.push_back(backward_ms_);
  double left = 0;
  for (const NodeId id : r_.forward) left += r_.ms_of(id);
  waits_ms_.assign(r_.problem.graph.tensors.size(), 0);
  const auto used = [&](TensorId id) {
    waits_ms_[id.index] = left + before_use[static_cast<std::size_t>(r_.first_use(id))];
  };
  for (const NodeId id : r_.forward) {
    left -= r_.ms_of(id);
    for (const TensorId output : r_.problem.graph.at(id).outputs) used(output);
    for (const TensorId input : r_.reads[id.index]) used(input);
  }
}

double PricedChain::link_ms(std::int64_t bytes) const {
  const Link& link = r_.problem.link;
  const auto at = [&](double rate) { return rate > 0 ? static_cast<double>(bytes) / rate : 0; };
  return at(link.write_bytes_per_ms) + at(link.read_bytes_per_ms);
}

PricedChain::Move PricedChain::leaving(TensorId id, std::int64_t bytes, double price) const {
  const Link& link = r_.problem.link;
  Move out{.id = id, .bytes = r_.bytes_of(id), .link_ms = link_ms(bytes), .leaves = true};
  const double beside = link.is_ahead ? waits_ms_[id.index] : 0;
  out.plain_ms = 2 * static_cast<double>(bytes) * link.host_ms_per_byte + std::max(0.0, out.link_ms - beside);
  out.ms = out.plain_ms + price * out.link_ms;
  return out;
}

// Fewer bits first and away after that, where both together free a byte at less than the second alone.
void PricedChain::add_moves(TensorId id, double price, std::vector<Move>& out) const {
  const PlanningProblem& p = r_.problem;
  const std::int64_t bytes = r_.bytes_of(id);
  const Move away = leaving(id, bytes, price);
  if (!can_round_[id.index]) {
    if (can_leave_[id.index]) out.push_back(away);
    return;
  }
  const Level level = level_of(p, id);
  const std::int64_t elements = p.graph.at(id).type.elements();
  const std::int64_t encoded = align_up(precision::encoded_bytes(level, elements));
  const double codec = codec_ms(p.costs.codec, Action::kEncode, level, elements) +
                       codec_ms(p.costs.codec, Action::kDecode, level, elements);
  Move round{.id = id, .bytes = bytes - encoded, .ms = codec, .plain_ms = codec, .rounds = true};
  if (!can_leave_[id.index]) return out.push_back(round);
  Move both = leaving(id, encoded, price);
  if (away.ms <= codec + both.ms) return out.push_back(away);
  both.bytes = encoded;
  if (per_byte(round.ms, round.bytes) < per_byte(both.ms, both.bytes)) {
    out.push_back(round);
    return out.push_back(both);
  }
  both.rounds = true;
  both.bytes = bytes;
  both.ms += codec;
  both.plain_ms += codec;
  out.push_back(both);
}

PricedChain::Priced PricedChain::priced(const ChainLink& link, double price) const {
  Priced out;
  for (std::size_t base = 0; base < link.options.size(); ++base) {
    const LayerOption& option = link.options[base];
    std::vector<Move>& moves = out.moves.emplace_back();
    for (const TensorId id : option.kept) add_moves(id, price, moves);
    // The longest wait first where bytes cost the same.
    std::ranges::stable_sort(moves, [&](const Move& a, const Move& b) {
      return std::pair(per_byte(a.ms, a.bytes), -waits_ms_[a.id.index]) <
             std::pair(per_byte(b.ms, b.bytes), -waits_ms_[b.id.index]);
    });
    Option next{.base = static_cast<std::uint16_t>(base), .moves = 0, .bytes = option.bytes, .ms = option.ms};
    out.options.push_back(next);
    for (const Move& move : moves) {
      ++next.moves;
      next.bytes -= move.bytes;
      next.ms += move.ms;
      out.options.push_back(next);
    }
  }
  std::ranges::stable_sort(out.options, {}, [](const Option& o) { return std::pair(o.bytes, o.ms); });
  double least = LayerChain::kNever;
  std::erase_if(out.options, [&](const Option& o) { return o.ms >= least || (least = o.ms, false); });
  thin_out(out.options, kMostOptions);
  for (const TensorId id : link.layers.back().boundary) {
    if (!can_leave_[id.index]) return out.boundary.clear(), out;
    out.boundary.push_back(leaving(id, r_.bytes_of(id), price));
  }
  return out;
}

PricedChain::Best PricedChain::solve(std::span<const Priced> links, const Table& table, std::size_t first,
                                     int m) const {
  Best best;
  const std::span<const ChainLink> chain = chain_.links();
  const auto offer = [&](Best b) { best = b.ms < best.ms ? b : best; };
  const bool is_last = first + 1 == chain.size();
  const auto rest = [&](std::size_t at, int left) { return table[at][static_cast<std::size_t>(left)].ms; };
  for (std::size_t o = 0; o < links[first].options.size() && m >= chain_.slots(chain[first].inside); ++o) {
    const Option& option = links[first].options[o];
    const int left = m - chain_.slots(option.bytes);
    if (left < 0) continue;
    const double ms = chain[first].ms + option.ms + (is_last ? 0 : rest(first + 1, left));
    offer({.ms = ms, .option = static_cast<std::uint16_t>(o)});
  }
  double forward = 0;
  for (std::size_t j = first + 1; j < chain.size(); ++j) {
    forward += chain[j - 1].ms;
    const double ms = forward + chain_.segment_ms(first, j - 1, m);
    const auto checkpoint = static_cast<std::uint16_t>(j);
    const int left = m - chain_.slots(chain[j - 1].boundary);
    if (left >= 0) offer({.ms = ms + rest(j, left), .checkpoint = checkpoint});
    if (links[j - 1].boundary.empty()) continue;
    double away = 0;
    for (const Move& move : links[j - 1].boundary) away += move.ms;
    offer({.ms = ms + away + rest(j, m), .checkpoint = checkpoint, .leaves = true});
  }
  return best;
}

void PricedChain::make(std::span<const Move> moves, PricedWay& way) {
  for (const Move& move : moves) {
    if (move.leaves) way.leaving.push_back(move.id);
    if (move.rounds) way.rounded.push_back(move.id);
    way.link_ms += move.link_ms;
    way.ms += move.plain_ms - move.ms;
  }
}

PricedWay PricedChain::lay_out(std::span<const Priced> links, const Table& table, int m) const {
  const std::span<const ChainLink> chain = chain_.links();
  PricedWay way{.retention = chain_.nothing(), .ms = backward_ms_ + table[0][static_cast<std::size_t>(m)].ms};
  for (std::size_t first = 0; first < chain.size();) {
    const Best best = table[first][static_cast<std::size_t>(m)];
    if (best.checkpoint == 0) {
      const Option& option = links[first].options[best.option];
      chain_.add_option(chain[first], chain[first].options[option.base], kThrough, way.retention);
      make(std::span(links[first].moves[option.base]).first(option.moves), way);
      m -= chain_.slots(option.bytes);
      ++first;
      continue;
    }
    const std::size_t end = best.checkpoint - 1U;
    chain_.add_boundary(chain[end], kThrough, way.retention);
    chain_.add_segment(first, end, m, chain_.begin_of(first, end), way.retention);
    if (best.leaves) {
      make(links[end].boundary, way);
    } else {
      m -= chain_.slots(chain[end].boundary);
    }
    first = best.checkpoint;
  }
  return way;
}

std::vector<PricedWay> PricedChain::ways(double price) const {
  std::vector<Priced> links;
  for (const ChainLink& link : chain_.links()) links.push_back(priced(link, price));
  Table table(links.size(), std::vector<Best>(LayerChain::kSlots + 1));
  for (std::size_t first = links.size(); first-- > 0;) {
    for (int m = 0; m <= LayerChain::kSlots; ++m)
      table[first][static_cast<std::size_t>(m)] = solve(links, table, first, m);
  }
  std::vector<PricedWay> out;
  double last = LayerChain::kNever;
  for (int m = 0; m <= LayerChain::kSlots; ++m) {
    const double ms = table[0][static_cast<std::size_t>(m)].ms;
    if (ms >= last) continue;  // more memory that buys nothing
    last = ms;
    out.push_back(lay_out(links, table, m));
  }
  return out;
}

}  // namespace neap
