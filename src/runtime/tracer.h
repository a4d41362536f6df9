// What --trace shows: when calls and transfers ran, and who had which piece of the arena, for the last steps of a run.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/executor.h"

namespace neap {

class Tracer {
 public:
  Tracer();
  ~Tracer();

  // Around each step. The executor may be another one every time. What is noted then are times; nothing is formatted
  // until the end. What before() returns is for people: why a trace shows less than it could; empty: it does not.
  std::string before(Executor& executor);
  void after(const Executor& executor, std::int64_t step);

  // UserError when the file cannot be written.
  void write(const std::filesystem::path& path) const;

 private:
  static constexpr std::size_t kSteps = 3;
  struct Picture;  // what does not change from step to step of one plan
  struct Step;

  std::map<const Executor*, std::shared_ptr<const Picture>> pictures_;
  std::deque<Step> steps_;  // the last kSteps
};

}  // namespace neap
