// A run as the report shows it: gathered line by line while it trains, or read back from what --json wrote. Its size is
// bounded, however long the run: neighbouring steps are merged when there are too many.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/json.h"

namespace neap {

// One step, or several neighbours.
struct RunPoint {
  std::int64_t step = 0;  // the last of them
  std::int64_t count = 1;
  double loss = 0;     // mean; NaN: it was none
  double step_ms = 0;  // mean
  double predicted_ms = 0;
  std::int64_t peak_bytes = 0;     // most
  std::int64_t budget_bytes = -1;  // least; negative: none
  double spilled_bytes = 0;        // mean
  double stalled_ms = 0;           // mean
  double recomputed_ms = 0;        // mean
  std::int64_t plan = 0;           // of the last
};

class RunRecord {
 public:
  // One object of --json: a step, an evaluation or the summary. Anything else is counted among the problems.
  void add(const Json& object);
  // A whole file; `name` is for messages. Lines that cannot be read are counted, not fatal. UserError: there is not one
  // step or summary in it.
  void add_lines(std::string_view text, const std::string& name);

  // What is missing or could not be read, in words; empty: nothing.
  std::string problem() const;
  // All that the page needs.
  Json to_json() const;

 private:
  static constexpr std::size_t kMostPoints = 2048;  // even
  static constexpr std::size_t kMostPlans = 48;
  static constexpr std::size_t kMostNotes = 500;

  void add_step(const Json& object);
  void refuse_nothing(const std::string& name) const;
  bool begins_with_the_run() const;
  void merge();
  void note(std::int64_t step, std::string kind, std::string text);

  std::vector<RunPoint> points_;
  RunPoint open_{.count = 0};  // what is gathered for the next point
  std::int64_t stride_ = 1;    // steps a point
  Json plans_ = Json::array();
  Json evals_ = Json::array();
  Json changes_ = Json::array();
  Json summary_;  // null: the run did not end
  std::int64_t budget_ = -2;
  std::int64_t steps_ = 0;
  std::int64_t plans_seen_ = 0;  // like the next two: with those that had no room
  std::int64_t evals_seen_ = 0;
  std::int64_t changes_seen_ = 0;
  std::int64_t first_step_ = 0;
  std::int64_t first_plan_ = 0;  // that the first line tells; 0: none
  bool has_rows_ = false;        // of neap compare
  std::int64_t unreadable_ = 0;
  std::int64_t first_unreadable_ = 0;  // its line
};

}  // namespace neap
