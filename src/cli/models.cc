#include <fmt/format.h>

#include "cli/commands.h"
#include "neap/builtin_models.h"

namespace neap {

Command add_models(CLI::App& /*app*/) {
  return [] {
    for (const ModelInfo* m : models()) {
      fmt::print("{:<10} {}; batch {}", m->name, m->what, m->batch);
      if (m->task == Task::kTokens) fmt::print(", length {}", m->length);
      if (m->task == Task::kImages) fmt::print(", images {0}x{0}x{1}, {2} classes", m->image, m->channels, m->classes);
      fmt::print("\n");
      for (const ModelParameter& p : m->parameters) fmt::print("           {}={}  {}\n", p.name, p.value, p.what);
    }
    return 0;
  };
}

}  // namespace neap
