#include "cli/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <numeric>

#include "neap/error.h"

namespace neap {
namespace {

// Letters that must change to get from one word to the other.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row.back();
}

std::vector<std::string> flags_of(const CLI::App& sub) {
  std::vector<std::string> out;
  for (const CLI::Option* option : sub.get_options()) {
    for (const std::string& name : option->get_lnames()) out.push_back(name);
  }
  return out;
}

std::vector<std::string> read_config(const CLI::App& sub, const std::string& path) {
  std::ifstream file(path);
  if (!file) throw UserError(fmt::format("config file '{}' cannot be read", path));
  std::vector<CLI::ConfigItem> items;
  try {
    items = CLI::ConfigINI().from_config(file);
  } catch (const CLI::Error& e) {
    throw UserError(fmt::format("config file '{}': {}", path, e.what()));
  }
  std::vector<std::string> out;
  for (const CLI::ConfigItem& item : items) {
    if (item.name == "++" || item.name == "--") continue;  // borders of a section
    const CLI::Option* option = sub.get_option_no_throw("--" + item.name);
    if (option == nullptr || item.name == "config") {
      const std::string meant = nearest(item.name, flags_of(sub));
      throw UserError(fmt::format("config file '{}': there is no setting '{}'{}", path, item.name,
                                  meant.empty() ? "" : fmt::format("; did you mean '{}'?", meant)));
    }
    // The reader splits at commas, which belong to the value of a flag that is given once: 1,0,0 or 50:1GiB,100:2GiB.
    if (option->get_multi_option_policy() != CLI::MultiOptionPolicy::TakeAll) {
      out.push_back(fmt::format("--{}={}", item.name, fmt::join(item.inputs, ",")));
      continue;
    }
    for (const std::string& value : item.inputs) out.push_back(fmt::format("--{}={}", item.name, value));
  }
  return out;
}

}  // namespace

std::string nearest(const std::string& written, const std::vector<std::string>& known) {
  std::string best;
  std::size_t least = std::max<std::size_t>(2, written.size() / 3) + 1;
  for (const std::string& word : known) {
    if (const std::size_t d = distance(written, word); d < least) {
      least = d;
      best = word;
    }
  }
  return best;
}

std::string meant_flag(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.empty()) return {};
  const auto subs = app.get_subcommands([&](const CLI::App* s) { return s->get_name() == arguments[0]; });
  if (subs.empty()) return {};
  const CLI::App* const sub = subs.front();
  for (const std::string& argument : arguments) {
    const std::string name = argument.substr(0, argument.find('='));
    if (!name.starts_with("--") || name == "--" || sub->get_option_no_throw(name) != nullptr) continue;
    const std::string meant = nearest(name.substr(2), flags_of(*sub));
    return meant.empty() ? std::string() : fmt::format("; did you mean '--{}'?", meant);
  }
  return {};
}

std::vector<std::string> with_config(CLI::App& app, int argc, char** argv) {
  std::vector<std::string> out(argv + 1, argv + argc);
  if (out.empty() || out[0].starts_with('-')) return out;
  const CLI::App* sub = nullptr;
  std::vector<std::string> names;
  for (const CLI::App* s : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(s->get_name());
    if (s->get_name() == out[0]) sub = s;
  }
  if (sub == nullptr) {
    const std::string meant = nearest(out[0], names);
    throw UserError(
        fmt::format("there is no command '{}'{}", out[0],
                    meant.empty() ? " (neap --help lists them)" : fmt::format("; did you mean '{}'?", meant)));
  }
  std::vector<std::string> settings;
  for (std::size_t i = 1; i < out.size(); ++i) {
    std::string path;
    if (out[i] == "--config" && i + 1 < out.size()) path = out[i + 1];
    if (out[i].starts_with("--config=")) path = out[i].substr(9);
    if (path.empty()) continue;
    for (std::string& setting : read_config(*sub, path)) settings.push_back(std::move(setting));
  }
  out.insert(out.begin() + 1, settings.begin(), settings.end());
  return out;
}

}  // namespace neap
