#include "plan/transfers.h"

#include <algorithm>
#include <deque>

namespace neap {

double transfer_ms(const Link& link, Action action, std::int64_t bytes) {
  const bool is_out = action == Action::kSpillBegin || action == Action::kSpillWait;
  const double rate = is_out ? link.write_bytes_per_ms : link.read_bytes_per_ms;
  return rate > 0 ? static_cast<double>(bytes) / rate : 0;
}

namespace {

class Spreader {
 public:
  Spreader(Schedule& schedule, const Graph& graph, const Costs& costs, const Decisions& decisions)
      : schedule_(schedule), graph_(graph), costs_(costs), decisions_(decisions) {}

  void run() {
    delay_waits();
    advance_fetches();
  }

 private:
  double ms(const Call& call) const { return ms_of(call, schedule_, graph_, costs_); }

  std::int64_t bytes_of(const Call& call) const { return schedule_.slots[call.slot]; }

  // A spill is waited for once it is done by our reckoning, or when too much is on its way, or when forward ends.
  void delay_waits() {
    struct Flying {
      Call wait;
      double done = 0;
    };
    std::deque<Flying> flying;
    std::int64_t in_flight = 0;
    double now = 0;
    double channel_free = 0;
    std::vector<Call> out;
    const auto land = [&] {
      now = std::max(now, flying.front().done);
      in_flight -= bytes_of(flying.front().wait);
      out.push_back(std::move(flying.front().wait));
      flying.pop_front();
    };
    for (Call& call : schedule_.calls) {
      if (call.action == Action::kSpillWait) {
        channel_free = std::max(channel_free, now) +
                       decisions_.link.lead * transfer_ms(decisions_.link, call.action, bytes_of(call));
        in_flight += bytes_of(call);
        flying.push_back({std::move(call), channel_free});
        while (!flying.empty() && in_flight > decisions_.flight_bytes) land();
        continue;
      }
      while (!flying.empty() && flying.front().done <= now) land();
      // The channel's order: all that goes out is out before anything comes in. And a step whose write fails is run
      // again, so it has changed nothing up to then.
      if (call.action == Action::kFetchBegin || call.changes_state) {
        while (!flying.empty()) land();
      }
      now += ms(call);
      out.push_back(std::move(call));
    }
    while (!flying.empty()) land();
    schedule_.calls = std::move(out);
  }

  // From the last fetch to the first: each begins so early that it is done when it is waited for, and before the next
  // one begins to move, as far as the bytes on their way allow.
  void advance_fetches() {
    std::vector<double> clock;  // when each call starts
    std::vector<std::size_t> waits;
    double now = 0;
    std::size_t first = 0;
    std::vector<std::size_t> firsts;  // per fetch: it does not go before this call
    for (std::size_t c = 0; c < schedule_.calls.size(); ++c) {
      const Call& call = schedule_.calls[c];
      clock.push_back(now);
      now += ms(call);
      if (call.action == Action::kFetchWait) {
        waits.push_back(c);
        firsts.push_back(first);
      }
      if (call.action == Action::kSpillWait) first = c + 1;
    }
    if (waits.empty()) return;
    std::vector<std::size_t> target(waits.size());  // the call before which each fetch begins
    double must_end = now;
    for (std::size_t i = waits.size(); i-- > 0;) {
      const Call& wait = schedule_.calls[waits[i]];
      must_end = std::min(must_end, clock[waits[i]]);
      must_end -= decisions_.link.lead * transfer_ms(decisions_.link, wait.action, bytes_of(wait));
      const auto at = std::upper_bound(clock.begin(), clock.end(), must_end) - clock.begin();
      target[i] = std::clamp<std::size_t>(at == 0 ? 0 : static_cast<std::size_t>(at) - 1, 0, waits[i] - 1);
    }
    hold_back(waits, target, firsts);
    place(waits, target);
  }

  void hold_back(const std::vector<std::size_t>& waits, std::vector<std::size_t>& target,
                 const std::vector<std::size_t>& firsts) const {
    std::size_t oldest = 0;  // of those on their way
    std::int64_t in_flight = 0;
    std::vector<std::size_t> free(schedule_.slots.size());  // behind the last fetch from each slot
    for (std::size_t i = 0; i < waits.size(); ++i) {
      std::size_t& slot_free = free[schedule_.calls[waits[i]].slot];
      std::size_t earliest = std::max({firsts[i], slot_free, i == 0 ? 0 : target[i - 1]});
      slot_free = waits[i] + 1;
      in_flight += bytes_of(schedule_.calls[waits[i]]);
      for (; oldest < i && in_flight - bytes_of(schedule_.calls[waits[i]]) > decisions_.flight_bytes; ++oldest) {
        in_flight -= bytes_of(schedule_.calls[waits[oldest]]);
        earliest = std::max(earliest, waits[oldest] + 1);
      }
      if (decisions_.flight_bytes == 0 && i > 0) earliest = std::max(earliest, waits[i] - 1);
      target[i] = std::clamp(target[i], std::min(earliest, waits[i]), waits[i]);
      if (decisions_.flight_bytes == 0) target[i] = waits[i];
      // Those that are waited for before this one begins are no longer on their way.
      for (; oldest < i && waits[oldest] < target[i]; ++oldest) {
        in_flight -= bytes_of(schedule_.calls[waits[oldest]]);
      }
    }
  }

  void place(const std::vector<std::size_t>& waits, const std::vector<std::size_t>& target) {
    std::vector<Call> out;
    std::size_t next = 0;
    for (std::size_t c = 0; c < schedule_.calls.size(); ++c) {
      for (; next < waits.size() && target[next] <= c; ++next) {
        Call begin = schedule_.calls[waits[next]];
        begin.action = Action::kFetchBegin;
        out.push_back(std::move(begin));
      }
      if (schedule_.calls[c].action != Action::kFetchBegin) out.push_back(schedule_.calls[c]);
    }
    schedule_.calls = std::move(out);
  }

  Schedule& schedule_;
  const Graph& graph_;
  const Costs& costs_;
  const Decisions& decisions_;
};

}  // namespace

void spread_transfers(Schedule& schedule, const Graph& graph, const Costs& costs, const Decisions& decisions) {
  Spreader(schedule, graph, costs, decisions).run();
}

}  // namespace neap
