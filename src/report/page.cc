#include "report/page.h"

#include "report/assets.h"

namespace neap {
namespace {

// JSON inside of a <script>: nothing in it may end the element or open a comment.
std::string inside_script(const Json& json) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

// Marks are of the form <!--name-->. Each part goes in once, and what it brings is not looked at again.
std::string filled(std::string_view page, const std::vector<std::pair<std::string_view, std::string_view>>& parts) {
  std::string out;
  for (const auto& [mark, text] : parts) {
    const std::size_t at = page.find(mark);
    out += page.substr(0, at);
    out += text;
    page.remove_prefix(at + mark.size());
  }
  return out += page;
}

}  // namespace

std::string report_page(const RunRecord& run) {
  const std::string data = inside_script(run.to_json());
  return filled(kPageHtml,
                {{"/*style*/", kPageCss}, {"/*data*/", data}, {"/*chart*/", kChartJs}, {"/*page*/", kPageJs}});
}

}  // namespace neap
