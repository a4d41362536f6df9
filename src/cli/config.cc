#include "cli/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <system_error>

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

// Without a comment that stands behind a value, which the reader would take for a part of it: a # or ; behind a space,
// outside of quotes. A quote that opens inside a word is an apostrophe.
std::string without_comment(const std::string& line) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  char quote = 0;
  char before = ' ';
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if ((c == '"' || c == '\'') && (is_space(before) || before == '=' || before == ',')) {
      quote = c;
    } else if ((c == '#' || c == ';') && is_space(before)) {
      return line.substr(0, i);
    }
    before = c;
  }
  return line;
}

std::string text_of(const std::string& path) {
  std::error_code absent;  // the stream says so
  if (std::filesystem::is_directory(path, absent)) {
    throw UserError(fmt::format("config file '{}' cannot be read: it is a folder", path));
  }
  std::ifstream file(path);
  if (!file) throw UserError(fmt::format("config file '{}' cannot be read", path));
  std::string out;
  for (std::string line; std::getline(file, line);) out += without_comment(line) + '\n';
  return out;
}

std::vector<CLI::ConfigItem> items_of(const std::string& path) {
  std::istringstream text(text_of(path));
  CLI::ConfigINI reader;
  reader.comment('\0');  // its own rule would cut quoted values, too
  try {
    return reader.from_config(text);
  } catch (const CLI::Error& e) {
    throw UserError(fmt::format("config file '{}': {}", path, e.what()));
  }
}

const CLI::Option& option_of(const CLI::App& sub, const std::string& path, const std::string& name) {
  if (name == "config") {
    throw UserError(fmt::format("config file '{}': 'config' stands in no file; copy the other file's lines", path));
  }
  if (const CLI::Option* option = sub.get_option_no_throw("--" + name)) return *option;
  const std::string meant = nearest(name, flags_of(sub));
  throw UserError(fmt::format("config file '{}': there is no setting '{}'{}", path, name,
                              meant.empty() ? "" : fmt::format("; did you mean '{}'?", meant)));
}

std::vector<std::string> values_of(const CLI::Option& option, const CLI::ConfigItem& item) {
  if (option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll) return item.inputs;
  // The reader splits at commas, which belong to the value of a flag that is given once: 1,0,0 or 50:1GiB,100:2GiB.
  return {fmt::format("{}", fmt::join(item.inputs, ","))};
}

std::vector<std::string> read_config(const CLI::App& sub, const std::string& path) {
  std::vector<std::string> out;
  for (const CLI::ConfigItem& item : items_of(path)) {
    if (item.name == "++" || item.name == "--") continue;  // borders of a section
    for (const std::string& value : values_of(option_of(sub, path, item.name), item)) {
      if (value.empty()) {  // the parser would take the next argument for it
        throw UserError(fmt::format("config file '{}': '{}' has no value; give one, or leave it out", path, item.name));
      }
      out.push_back(fmt::format("--{}={}", item.name, value));
    }
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

namespace {

// None: the first argument is no command.
const CLI::App* command_of(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.empty()) return nullptr;
  const auto subs = app.get_subcommands([&](const CLI::App* s) { return s->get_name() == arguments[0]; });
  return subs.empty() ? nullptr : subs.front();
}

bool takes_value(const CLI::App& sub, const std::string& argument) {
  const CLI::Option* const option = argument.starts_with("--") ? sub.get_option_no_throw(argument) : nullptr;
  return option != nullptr && option->get_items_expected_min() > 0;
}

}  // namespace

void refuse_missing_values(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* const sub = command_of(app, arguments);
  if (sub == nullptr) return;
  for (std::size_t i = 0; i + 1 < arguments.size(); ++i) {
    const std::string& next = arguments[i + 1];
    const std::string flag = next.substr(0, next.find('='));
    if (!takes_value(*sub, arguments[i])) continue;
    if (flag.starts_with("--") && sub->get_option_no_throw(flag) != nullptr) {
      throw UserError(fmt::format("{}: its value is missing, {} comes next", arguments[i], flag));
    }
    ++i;  // the value
  }
}

void refuse_empty_values(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    const std::vector<std::string>& given = option->results();
    if (std::ranges::find(given, "") == given.end()) continue;
    throw UserError(fmt::format("{}: its value is empty; give one, or leave it out", option->get_name()));
  }
}

std::string meant_flag(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* const sub = command_of(app, arguments);
  if (sub == nullptr) return {};
  for (const std::string& argument : arguments) {
    const std::string name = argument.substr(0, argument.find('='));
    if (!name.starts_with("--") || name == "--" || sub->get_option_no_throw(name) != nullptr) continue;
    const std::string meant = nearest(name.substr(2), flags_of(*sub));
    return meant.empty() ? std::string() : fmt::format("; did you mean '--{}'?", meant);
  }
  return {};
}

namespace {

bool is_given(const std::vector<std::string>& arguments, const std::string& name) {
  return std::ranges::any_of(arguments, [&](const std::string& a) { return a == name || a.starts_with(name + "="); });
}

// What the command line says wins. A file may be train's and compare's: then what compare takes a list of stands there
// twice, and the list counts.
void drop_what_is_overruled(const CLI::App& sub, const std::vector<std::string>& line,
                            std::vector<std::string>& settings) {
  constexpr std::pair<const char*, const char*> kOneAndList[] = {{"--budget", "--budgets"}, {"--policy", "--policies"}};
  const std::vector<std::string> in_files = settings;
  std::erase_if(settings, [&](const std::string& setting) {
    const std::string name = setting.substr(0, setting.find('='));
    for (const auto& [one, list] : kOneAndList) {
      if (sub.get_option_no_throw(list) == nullptr) continue;
      if (name == one && (is_given(line, list) || is_given(in_files, list))) return true;
      if (name == list && is_given(line, one)) return true;
    }
    return is_given(line, name);
  });
}

}  // namespace

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
  drop_what_is_overruled(*sub, out, settings);
  out.insert(out.begin() + 1, settings.begin(), settings.end());
  return out;
}

}  // namespace neap
