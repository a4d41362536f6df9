// What was decided in a run, as a file (docs/formats.md): which plan and which budget each step began with. A run that
// follows it (--replay) does the same at the same steps.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/log_file.h"
#include "plan/plan.h"

namespace neap {

// Plans of one program are alike only when all of these are.
struct DecisionsHead {
  std::string model;
  std::string numerics_id;
  std::int64_t batch = 0;
  friend bool operator==(const DecisionsHead&, const DecisionsHead&) = default;
};

// From this step on.
struct DecisionsEntry {
  std::int64_t step = 0;
  std::int64_t batch = 0;   // of the shape that the plan is for, like
  std::int64_t length = 0;  // this
  std::optional<std::int64_t> budget;
  std::optional<Plan> plan;  // none: the one before
};

// Null when a plan from a file is one of this graph; else what is wrong. validate() trusts ids, a file may hold
// anything.
std::optional<std::string> check_recorded(const Plan& plan, const Graph& graph, const Costs& costs);

// What a run knows of such a file before it knows itself: the first two lines, without the plan.
struct RecordedStart {
  DecisionsHead head;
  DecisionsEntry first;
};

// None: the file makes no sense (the reader says so).
std::optional<RecordedStart> recorded_start(const std::string& path);

class DecisionsWriter {
 public:
  // UserError at once when the file cannot be written. Its first line comes with the first entry.
  DecisionsWriter(const std::string& path, const DecisionsHead& head);
  void add(const DecisionsEntry& entry);
  void finish();

 private:
  void line(const std::string& text);

  LogFile file_;
  std::string head_;  // empty: it is written
};

class DecisionsReader {
 public:
  // UserError names file and line of what makes no sense, or why it is another run's.
  DecisionsReader(const std::string& path, const DecisionsHead& head);
  // In the order of steps; none: nothing changes there.
  const DecisionsEntry* at(std::int64_t step) const;
  const DecisionsEntry& first() const { return entries_.begin()->second; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::map<std::int64_t, DecisionsEntry> entries_;
};

}  // namespace neap
