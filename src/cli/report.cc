// neap report: the page of --report from what --json wrote, finished or not.
#include <fmt/format.h>

#include <filesystem>
#include <string_view>
#include <system_error>

#include "cli/commands.h"
#include "cli/output.h"
#include "core/file.h"
#include "core/log_file.h"
#include "neap/error.h"
#include "report/page.h"

namespace neap {
namespace {

struct ReportCommand {
  std::string run;
  std::string out;
};

// A run that goes on or was killed has its lines beside the place that they get at its end (LogFile).
bool is_in_part(const std::string& run, const std::string& part) {
  std::error_code absent;  // a time before all others
  return std::filesystem::last_write_time(part, absent) > std::filesystem::last_write_time(run, absent);
}

RunRecord read_run(const std::string& run) {
  const std::string part = LogFile::part_of(run).string();
  const bool takes_part = is_in_part(run, part);
  const std::string& name = takes_part ? part : run;
  if (takes_part) tell(fmt::format("shows '{}', of a run that goes on or did not come to its end", part));
  const MappedFile file(name);
  std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.size());
  if (takes_part) text = text.substr(0, text.rfind('\n') + 1);  // the last line may be on its way
  RunRecord record;
  record.add_lines(text, name);
  return record;
}

int run(const ReportCommand& c) {
  const std::string out = c.out.empty() ? std::filesystem::path(c.run).replace_extension(".html").string() : c.out;
  refuse_one_file_for_two({{"RUN", c.run}, {"the page", out}});
  const RunRecord record = read_run(c.run);
  const std::string page = report_page(record);
  if (out == "-") {
    write_stdout(page);
  } else {
    write_file(out, page);
    write_stdout(out + "\n");
  }
  if (const std::string problem = record.problem(); !problem.empty()) tell(fmt::format("{}: {}", c.run, problem));
  return 0;
}

}  // namespace

Command add_report(CLI::App& app) {
  auto command = std::make_shared<ReportCommand>();
  app.add_option("RUN", command->run, "what neap train --json wrote")->required();
  app.add_option("-o,--output", command->out, "the page; without it RUN with the ending .html, - is standard output");
  return [command] { return run(*command); };
}

}  // namespace neap
