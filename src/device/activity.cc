#include "device/activity.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace neap {
namespace {

using Interval = std::pair<std::int64_t, std::int64_t>;

// Disjoint, in order.
std::vector<Interval> union_of(std::vector<Interval> parts) {
  std::sort(parts.begin(), parts.end());
  std::vector<Interval> out;
  for (const Interval& p : parts) {
    if (!out.empty() && p.first <= out.back().second) {
      out.back().second = std::max(out.back().second, p.second);
    } else {
      out.push_back(p);
    }
  }
  return out;
}

double ms_of(const std::vector<Interval>& disjoint) {
  std::int64_t ns = 0;
  for (const Interval& i : disjoint) ns += i.second - i.first;
  return static_cast<double>(ns) * 1e-6;
}

std::vector<Interval> shared_by(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  std::vector<Interval> out;
  for (std::size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    const Interval both = {std::max(a[i].first, b[k].first), std::min(a[i].second, b[k].second)};
    if (both.first < both.second) out.push_back(both);
    a[i].second < b[k].second ? ++i : ++k;
  }
  return out;
}

}  // namespace

std::string readable_kernel(const std::string& kernel) {
  int status = 0;
  char* text = abi::__cxa_demangle(kernel.c_str(), nullptr, nullptr, &status);
  std::string out = status == 0 && text != nullptr ? text : kernel;
  std::free(text);
  const std::size_t end = out.rfind(')') == out.size() - 1 ? out.rfind('(') : std::string::npos;
  return out.substr(0, end);
}

Busy busy_of(std::span<const Activity> activities) {
  std::vector<Interval> link;
  std::vector<Interval> compute;
  Busy out;
  for (const Activity& a : activities) {
    (is_on_link(a.kind) ? link : compute).emplace_back(a.begun_ns, a.ended_ns);
    if (is_on_link(a.kind)) out.link_bytes += a.bytes;
  }
  link = union_of(std::move(link));
  compute = union_of(std::move(compute));
  out.link_ms = ms_of(link);
  out.compute_ms = ms_of(compute);
  out.overlap_ms = ms_of(shared_by(link, compute));
  return out;
}

std::vector<TagTime> times_by_tag(std::span<const Activity> activities, std::size_t tags) {
  std::vector<TagTime> out(tags);
  for (const Activity& a : activities) {
    if (a.tag >= tags) continue;
    TagTime& t = out[a.tag];
    t.begun_ns = t.ended_ns == 0 ? a.begun_ns : std::min(t.begun_ns, a.begun_ns);
    t.ended_ns = std::max(t.ended_ns, a.ended_ns);
    t.busy_ms += static_cast<double>(a.ended_ns - a.begun_ns) * 1e-6;
  }
  return out;
}

}  // namespace neap
