// Checkpoints: all state and the step in one safetensors file, replaced as a whole. See docs/formats.md.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "train/safetensors.h"

namespace neap {

struct CheckpointInfo {
  std::int64_t step = 0;
  std::map<std::string, std::string> run;  // model, seed, batch, optimizer: must agree to go on to the same bits
  std::string numerics_id;
  std::string levels;  // Levels::text(); empty where everything is stored exactly
};

std::filesystem::path checkpoint_path(const std::filesystem::path& folder);

void write_checkpoint(const std::filesystem::path& folder, const CheckpointInfo& info,
                      std::span<const SafeTensor> state);

// A checkpoint whose bytes hold. UserError names the file and what is wrong with it.
class Checkpoint {
 public:
  explicit Checkpoint(const std::filesystem::path& folder);
  const CheckpointInfo& info() const { return info_; }
  const SafeTensorsFile& tensors() const { return file_; }
  // UserError names the first setting in which `run` differs.
  // `unsaid`: what a run is that says nothing of it.
  void check_same_run(std::map<std::string, std::string> run, const std::map<std::string, std::string>& unsaid) const;

 private:
  std::filesystem::path path_;
  SafeTensorsFile file_;
  CheckpointInfo info_;
};

// A hash of names, types and bytes.
std::uint64_t hash_of(std::span<const SafeTensor> tensors);

}  // namespace neap
