// neap report: the page of --report from what --json wrote, finished or not.
#include <fmt/format.h>

#include <filesystem>

#include "cli/commands.h"
#include "cli/output.h"
#include "core/file.h"
#include "neap/error.h"
#include "report/page.h"

namespace neap {
namespace {

struct ReportCommand {
  std::string run;
  std::string out;
};

int run(const ReportCommand& c) {
  const MappedFile file(c.run);
  RunRecord record;
  record.add_lines({reinterpret_cast<const char*>(file.bytes().data()), file.size()}, c.run);
  const std::string page = report_page(record);
  const std::string out = c.out.empty() ? std::filesystem::path(c.run).replace_extension(".html").string() : c.out;
  if (out == "-") {
    write_stdout(page);
    return 0;
  }
  write_file(out, page);
  fmt::print("{}\n", out);
  if (const std::string problem = record.problem(); !problem.empty())
    fmt::print(stderr, "neap: {}: {}\n", c.run, problem);
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
