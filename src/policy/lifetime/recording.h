// Recorded executions: the allocation events of steps with their exact lifespans, as lines of JSON. The first line says
// what it is, {"neap_lifetimes": 1, "model": NAME}; each further one is a step,
// {"length": N, "ticks": N, "events": [[site, layer, op, phase, bytes, tick, lifespan], ...]}. See docs/formats.md.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/file.h"
#include "pool/predictor.h"

namespace neap {

struct RecordedStep {
  std::vector<AllocationEvent> events;
  std::vector<Tick> lifespans;
  friend bool operator==(const RecordedStep&, const RecordedStep&) = default;
};

struct Recording {
  std::string model;
  std::vector<RecordedStep> steps;
  friend bool operator==(const Recording&, const Recording&) = default;
};

// Writes step by step; without commit() nothing changes, whatever happens.
class RecordingWriter {
 public:
  // UserError when the file cannot be written.
  RecordingWriter(const std::filesystem::path& path, const std::string& model);
  void add(std::span<const AllocationEvent> step, std::span<const Tick> lifespans);
  void commit() { file_.commit(); }

 private:
  AtomicFile file_;
};

void write_recording(const std::filesystem::path& path, const Recording& recording);

// UserError names file, line and what is wrong with it.
Recording read_recording(const std::filesystem::path& path);

}  // namespace neap
