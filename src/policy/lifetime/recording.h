// Recorded executions: the allocation events of steps with their exact lifespans, as lines of JSON. The first line says
// what it is, {"neap_lifetimes": 1, "model": NAME}; each further one is a step,
// {"length": N, "ticks": N, "events": [[site, layer, op, phase, bytes, tick, lifespan], ...]}. See docs/formats.md.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

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

// Replaces the file as a whole, or not at all.
void write_recording(const std::filesystem::path& path, const Recording& recording);

// UserError names file, line and what is wrong with it.
Recording read_recording(const std::filesystem::path& path);

}  // namespace neap
