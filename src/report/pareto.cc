#include "report/pareto.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/bytes.h"

namespace neap {
namespace {

constexpr int kMarks = 4;  // along an axis, both ends included

// From the least to the most, with some air; never empty.
struct Span {
  double low = 0;
  double high = 1;
  double share(double value) const { return (value - low) / (high - low); }
  double at(int mark) const { return low + (high - low) * mark / (kMarks - 1); }
};

template <class Value>
Span span_of(const std::vector<ParetoPoint>& points, Value value) {
  Span out{value(points.front()), value(points.front())};
  for (const ParetoPoint& p : points) out = {std::min(out.low, value(p)), std::max(out.high, value(p))};
  const double air = std::max(0.08 * (out.high - out.low), 0.02 * out.high + 1e-9);
  return {std::max(0.0, out.low - air), out.high + air};
}

struct Spans {
  explicit Spans(const std::vector<ParetoPoint>& points)
      : x(span_of(points, [](const ParetoPoint& p) { return static_cast<double>(p.bytes); })),
        y(span_of(points, [](const ParetoPoint& p) { return p.ms; })) {}
  Span x;
  Span y;
};

char letter(std::size_t i) { return static_cast<char>(i < 26 ? 'a' + i : i < 52 ? 'A' + (i - 26) : '+'); }

std::string byte_text(double bytes) { return human_bytes(static_cast<std::int64_t>(bytes)); }

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

}  // namespace

std::vector<std::size_t> pareto_front(const std::vector<ParetoPoint>& points) {
  std::vector<std::size_t> order(points.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(points[a].bytes, points[a].ms) < std::pair(points[b].bytes, points[b].ms);
  });
  std::vector<std::size_t> out;
  for (const std::size_t i : order) {
    if (out.empty() || points[i].ms < points[out.back()].ms) out.push_back(i);
  }
  return out;
}

std::string pareto_text(const std::vector<ParetoPoint>& points) {
  if (points.empty()) return {};
  constexpr int kColumns = 60;
  constexpr int kRows = 14;
  const Spans spans(points);
  std::vector<std::string> rows(kRows, std::string(kColumns, ' '));
  for (std::size_t i = points.size(); i-- > 0;) {  // the first stays visible where several meet
    const auto x = static_cast<std::size_t>(spans.x.share(static_cast<double>(points[i].bytes)) * (kColumns - 1));
    const auto y = static_cast<std::size_t>((1 - spans.y.share(points[i].ms)) * (kRows - 1));
    rows[y][x] = letter(i);
  }
  std::string out = "step time, ms\n";
  for (int r = 0; r < kRows; ++r) {
    const double ms = spans.y.high - (spans.y.high - spans.y.low) * r / (kRows - 1);
    out += fmt::format("{:>9.1f} |{}\n", ms, rows[static_cast<std::size_t>(r)]);
  }
  out += fmt::format("{:>9} +{}\n{:>11}{:<20}{:^20}{:>20}  peak\n", "", std::string(kColumns, '-'), "",
                     byte_text(spans.x.low), byte_text((spans.x.low + spans.x.high) / 2), byte_text(spans.x.high));
  const std::vector<std::size_t> front = pareto_front(points);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const bool is_front = std::find(front.begin(), front.end(), i) != front.end();
    out += fmt::format("  {} {} {:>11} {:>9.1f} ms  {}\n", letter(i), is_front ? '*' : ' ',
                       human_bytes(points[i].bytes), points[i].ms, points[i].label);
  }
  return out + "  * no other run takes both less memory and less time\n";
}

namespace {

constexpr double kLeft = 80;
constexpr double kTop = 50;
constexpr double kWidth = 620;
constexpr double kHeight = 300;
constexpr double kLine = 20;
constexpr double kBottom = kTop + kHeight;
constexpr double kList = kBottom + 70;

double x_of(const Spans& spans, double bytes) { return kLeft + kWidth * spans.x.share(bytes); }
double y_of(const Spans& spans, double ms) { return kBottom - kHeight * spans.y.share(ms); }

std::string svg_head(const std::string& title, std::size_t lines) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 740 {:.0f}\" role=\"img\" aria-label=\"{}\">\n"
      "<style>svg{{background:#fff}}text{{font:13px system-ui,sans-serif;fill:#16202c}}.m{{fill:#536172}}"
      ".g{{stroke:#d9dfe6}}.f{{fill:none;stroke:#0072b2;stroke-width:2}}.p{{fill:#9aa5b1}}.b{{fill:#0072b2}}"
      "@media(prefers-color-scheme:dark){{svg{{background:#1a212a}}text{{fill:#e8edf2}}.m{{fill:#a3b0bd}}"
      ".g{{stroke:#33404d}}.f{{stroke:#4a9fe0}}.b{{fill:#4a9fe0}}}}</style>\n"
      "<text x=\"{}\" y=\"28\" style=\"font-weight:600\">{}</text>\n",
      kList + kLine * (static_cast<double>(lines) + 1), escaped(title), kLeft, escaped(title));
}

std::string svg_axes(const Spans& spans) {
  std::string out;
  for (int mark = 0; mark < kMarks; ++mark) {
    const double x = x_of(spans, spans.x.at(mark));
    const double y = y_of(spans, spans.y.at(mark));
    out += fmt::format(
        "<line class=\"g\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/><text class=\"m\" x=\"{0:.1f}\" "
        "y=\"{3}\" "
        "text-anchor=\"middle\">{4}</text>\n",
        x, kTop, kBottom, kBottom + 20, byte_text(spans.x.at(mark)));
    out += fmt::format(
        "<line class=\"g\" y1=\"{0:.1f}\" y2=\"{0:.1f}\" x1=\"{1}\" x2=\"{2}\"/><text class=\"m\" x=\"{3}\" "
        "y=\"{4:.1f}\" "
        "text-anchor=\"end\">{5:.1f}</text>\n",
        y, kLeft, kLeft + kWidth, kLeft - 8, y + 4, spans.y.at(mark));
  }
  out += fmt::format("<text class=\"m\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">peak memory</text>\n",
                     kLeft + kWidth / 2, kBottom + 42);
  return out + fmt::format(
                   "<text class=\"m\" transform=\"translate(18 {}) rotate(-90)\" text-anchor=\"middle\">step time, "
                   "ms</text>\n",
                   kTop + kHeight / 2);
}

// The point, its letter, and its line in the list below.
std::string svg_point(const Spans& spans, const ParetoPoint& point, std::size_t i, bool is_front) {
  const double x = x_of(spans, static_cast<double>(point.bytes));
  const double y = y_of(spans, point.ms);
  return fmt::format(
             "<circle class=\"{0}\" cx=\"{1:.1f}\" cy=\"{2:.1f}\" r=\"5\"/><text x=\"{3:.1f}\" "
             "y=\"{4:.1f}\">{5}</text>\n",
             is_front ? "b" : "p", x, y, x + 7, y - 6, letter(i)) +
         fmt::format("<text x=\"{}\" y=\"{:.0f}\">{} {}{}: {}, {:.1f} ms</text>\n", kLeft,
                     kList + kLine * static_cast<double>(i), letter(i), escaped(point.label),
                     is_front ? " (on the front)" : "", human_bytes(point.bytes), point.ms);
}

}  // namespace

std::string pareto_svg(const std::vector<ParetoPoint>& points, const std::string& title) {
  std::string out = svg_head(title, points.size());
  if (points.empty()) return out + "</svg>\n";
  const Spans spans(points);
  out += svg_axes(spans);
  const std::vector<std::size_t> front = pareto_front(points);
  std::string path;
  for (const std::size_t i : front) {
    path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", x_of(spans, static_cast<double>(points[i].bytes)),
                        y_of(spans, points[i].ms));
  }
  out += fmt::format("<polyline class=\"f\" points=\"{}\"/>\n", path);
  for (std::size_t i = 0; i < points.size(); ++i) {
    out += svg_point(spans, points[i], i, std::find(front.begin(), front.end(), i) != front.end());
  }
  return out + "</svg>\n";
}

}  // namespace neap
