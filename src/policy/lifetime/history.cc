#include "policy/lifetime/history.h"

#include <algorithm>
#include <cmath>

#include "neap/error.h"

namespace neap {
namespace {

constexpr double kFade = 0.9;

// Lifespans are whole numbers of at least one.
double whole(double ticks) { return std::max(1.0, std::round(ticks)); }

}  // namespace

std::size_t best_of(const Estimates& estimates) {
  std::size_t best = kGuesses;
  for (std::size_t i = 0; i < kGuesses; ++i) {
    if (!estimates[i].is_known) continue;
    if (best == kGuesses || estimates[i].error < estimates[best].error) best = i;
  }
  return best;
}

std::vector<Turn> turns_of(std::span<const AllocationEvent> step) {
  std::unordered_map<std::uint32_t, std::uint32_t> count;
  std::vector<Turn> out;
  out.reserve(step.size());
  for (const AllocationEvent& e : step) out.push_back({.from_start = count[e.site]++});
  for (std::size_t i = 0; i < step.size(); ++i) out[i].from_end = count[step[i].site] - 1 - out[i].from_start;
  return out;
}

void SiteHistory::Line::add(double at, double value) {
  n = n * kFade + 1;
  x = x * kFade + at;
  y = y * kFade + value;
  xx = xx * kFade + at * at;
  xy = xy * kFade + at * value;
}

bool SiteHistory::Line::is_known() const { return n * xx - x * x > 1e-6 * xx; }

double SiteHistory::Line::value(double at) const {
  const double slope = (n * xy - x * y) / (n * xx - x * x);
  return whole((y - slope * x) / n + slope * at);
}

// The first test replaces the error that an untested guess is given.
void SiteHistory::Record::check(double guess, double truth) {
  const double now = std::abs(std::log(truth / guess));
  error = tests == 0 ? now : 0.5 * error + 0.5 * now;
  ++tests;
}

Estimates SiteHistory::estimates(const AllocationEvent& event, Turn turn) const {
  Estimates out;
  const auto at = sites_.find(event.site);
  if (at == sites_.end()) return out;
  const auto set = [&out](Guess guess, double ticks, const Record& record) {
    out[static_cast<std::size_t>(guess)] = {
        .is_known = true, .ticks = ticks, .error = record.error, .tests = record.tests};
  };
  const Site& site = at->second;
  if (turn.from_start < site.from_start.size()) {
    const Place& place = site.from_start[turn.from_start];
    if (place.line.is_known()) set(Guess::kLine, place.line.value(event.ticks), place.line_record);
    if (place.last > 0) set(Guess::kLastFromStart, place.last, place.last_record);
  }
  if (turn.from_end < site.from_end.size()) {
    const Place& place = site.from_end[turn.from_end];
    if (place.last > 0) set(Guess::kLastFromEnd, place.last, place.last_record);
  }
  return out;
}

void SiteHistory::learn(std::span<const AllocationEvent> step, std::span<const Tick> lifespans) {
  require(step.size() == lifespans.size(), "one lifespan an event");
  const std::vector<Turn> turns = turns_of(step);
  for (std::size_t i = 0; i < step.size(); ++i) {
    Site& site = sites_[step[i].site];
    const double truth = lifespans[i];
    if (site.from_start.size() <= turns[i].from_start) site.from_start.resize(turns[i].from_start + 1);
    if (site.from_end.size() <= turns[i].from_end) site.from_end.resize(turns[i].from_end + 1);
    Place& first = site.from_start[turns[i].from_start];
    Place& last = site.from_end[turns[i].from_end];
    if (first.last > 0) first.last_record.check(first.last, truth);
    if (first.line.is_known()) first.line_record.check(first.line.value(step[i].ticks), truth);
    if (last.last > 0) last.last_record.check(last.last, truth);
    first.line.add(step[i].ticks, truth);
    first.last = last.last = lifespans[i];
  }
}

std::int64_t SiteHistory::bytes() const {
  std::size_t out = 0;
  for (const auto& [site, places] : sites_) {
    out += sizeof(Site) + (places.from_start.size() + places.from_end.size()) * sizeof(Place);
  }
  return static_cast<std::int64_t>(out);
}

}  // namespace neap
