#include "train/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/random.h"
#include "neap/error.h"

namespace neap {
namespace {

constexpr std::string_view kStep = "neap.step";
constexpr std::string_view kHash = "neap.hash";
constexpr std::string_view kNumerics = "neap.numerics_id";
constexpr std::string_view kLevels = "neap.levels";
constexpr std::string_view kRun = "neap.run.";

std::int64_t parse_step(const std::string& text, const std::filesystem::path& path) {
  std::int64_t step = -1;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (status != std::errc() || end != text.data() + text.size() || step < 0) {
    throw UserError(fmt::format("checkpoint '{}': '{}' is not a step", path.string(), printable(text)));
  }
  return step;
}

}  // namespace

std::filesystem::path checkpoint_path(const std::filesystem::path& folder) { return folder / "checkpoint.safetensors"; }

std::uint64_t hash_of(std::span<const SafeTensor> tensors) {
  std::vector<const SafeTensor*> sorted;
  for (const SafeTensor& t : tensors) sorted.push_back(&t);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  std::uint64_t hash = 0;
  for (const SafeTensor* t : sorted) {
    hash = hash_text(fmt::format("{} {}{}", t->name, name(t->dtype), t->shape.text()), hash);
    hash = hash_bytes(t->data.data(), t->data.size(), hash);
  }
  return hash;
}

void write_checkpoint(const std::filesystem::path& folder, const CheckpointInfo& info,
                      std::span<const SafeTensor> state) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw UserError(fmt::format("checkpoint folder '{}': {}", folder.string(), error.message()));
  SafeTensorsMetadata metadata = {{std::string(kStep), std::to_string(info.step)},
                                  {std::string(kHash), fmt::format("{:016x}", hash_of(state))},
                                  {std::string(kNumerics), info.numerics_id}};
  if (!info.levels.empty()) metadata[std::string(kLevels)] = info.levels;
  for (const auto& [key, value] : info.run) metadata[std::string(kRun) + key] = value;
  write_safetensors(checkpoint_path(folder), state, metadata);
}

Checkpoint::Checkpoint(const std::filesystem::path& folder) : path_(checkpoint_path(folder)), file_(path_) {
  const auto& metadata = file_.metadata();
  const auto get = [&](std::string_view key) {
    const auto at = metadata.find(std::string(key));
    if (at == metadata.end()) {
      throw UserError(fmt::format("'{}' is not a checkpoint: it has no '{}'", path_.string(), key));
    }
    return at->second;
  };
  info_.step = parse_step(get(kStep), path_);
  info_.numerics_id = get(kNumerics);
  if (get(kHash) != fmt::format("{:016x}", hash_of(file_.tensors()))) {
    throw UserError(fmt::format("checkpoint '{}' is damaged: its bytes do not match its hash", path_.string()));
  }
  if (const auto at = metadata.find(std::string(kLevels)); at != metadata.end()) info_.levels = at->second;
  for (const auto& [key, value] : metadata) {
    if (key.starts_with(kRun)) info_.run[key.substr(kRun.size())] = value;
  }
}

void Checkpoint::check_same_run(std::map<std::string, std::string> run,
                                const std::map<std::string, std::string>& unsaid) const {
  std::map<std::string, std::string> saved = info_.run;
  for (auto* const each : {&run, &saved}) each->insert(unsaid.begin(), unsaid.end());  // where nothing is said
  for (const auto& [key, value] : run) {
    const auto at = saved.find(key);
    if (at != saved.end() && at->second == value) continue;
    throw UserError(fmt::format("checkpoint '{}' was made with {} {}, this run has {}", path_.string(), key,
                                at == saved.end() ? "unknown" : printable(at->second), value));
  }
}

}  // namespace neap
