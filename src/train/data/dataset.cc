#include "train/data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/file.h"
#include "neap/error.h"
#include "train/data/array_set.h"
#include "train/data/idx.h"
#include "train/data/inflate.h"
#include "train/data/npy.h"
#include "train/data/npz.h"
#include "train/data/synthetic.h"
#include "train/data/token_set.h"
#include "train/data/tokens.h"
#include "train/data/wanted.h"

namespace neap {
namespace {

namespace fs = std::filesystem;
using DatasetPtr = std::shared_ptr<const Dataset>;

constexpr std::int64_t kFashionClasses = 10;
constexpr float kFashionMean = 0.2860F;  // of the training images
constexpr float kFashionDeviation = 0.3530F;

void check_options(const DatasetOptions& options) {
  const double fraction = options.validation_fraction;
  if (!(fraction >= 0 && fraction < 1)) {
    throw UserError(fmt::format("the validation fraction {} is not between 0 and 1", fraction));
  }
  for (const std::int64_t number : {options.length, options.image, options.channels, options.classes, options.vocab}) {
    if (number < 0) throw UserError(fmt::format("a data set cannot have a size of {}", number));
  }
}

// For data that come as one part: what is not held out is for training.
void check_split(const std::string& spec, const DatasetOptions& options) {
  if (options.split == Split::kTest) {
    throw UserError(fmt::format("'{}' has no test split: give a file of its own, or hold out a fraction", spec));
  }
  if (options.split == Split::kValidation && options.validation_fraction == 0) {
    throw UserError(fmt::format("'{}' has no validation split: give the fraction to hold out", spec));
  }
}

DatasetPtr open_sources(std::vector<Source> sources, const DatasetOptions& options) {
  auto whole = std::make_shared<ArraySet>(std::move(sources), options);
  return options.split == Split::kTest ? whole : hold_out(std::move(whole), options);
}

DatasetPtr open_fashion_mnist(DatasetOptions options) {
  const bool test = options.split == Split::kTest;
  if (!test && options.split == Split::kValidation) check_split("fashion-mnist", options);
  const std::string prefix = test ? "t10k" : "train";
  const fs::path images = options.fashion_mnist / (prefix + "-images-idx3-ubyte.gz");
  const fs::path labels = options.fashion_mnist / (prefix + "-labels-idx1-ubyte.gz");
  for (const fs::path& path : {images, labels}) {
    std::error_code ignored;
    if (!fs::exists(path, ignored)) {
      throw UserError(fmt::format("'{}' is missing: install Debian's package dataset-fashion-mnist", path.string()));
    }
  }
  if (options.classes == 0) options.classes = kFashionClasses;
  if (options.mean.empty() && options.deviation.empty()) {
    options.mean = {kFashionMean};
    options.deviation = {kFashionDeviation};
  }
  Array pixels = read_idx(images);
  Array classes = read_idx(labels);
  if (!is_image(pixels)) throw UserError(fmt::format("'{}' does not hold images", images.string()));
  if (!is_label(classes)) throw UserError(fmt::format("'{}' does not hold labels", labels.string()));
  return open_sources({{"image", std::move(pixels), images.string()}, {"label", std::move(classes), labels.string()}},
                      options);
}

Array read_array(const fs::path& path) { return is_npy(MappedFile(path).bytes()) ? read_npy(path) : read_idx(path); }

DatasetPtr open_pair(const fs::path& first, const fs::path& second, const DatasetOptions& options) {
  check_split(first.string(), options);
  Array a = read_array(first);
  Array b = read_array(second);
  if (is_label(a) && is_image(b)) {
    throw UserError(
        fmt::format("'{}' holds labels and '{}' images: give the images first", first.string(), second.string()));
  }
  const bool classification = is_image(a) && is_label(b);
  return open_sources({{classification ? "image" : "x", std::move(a), first.string()},
                       {classification ? "label" : "y", std::move(b), second.string()}},
                      options);
}

// The parts of "a=FILE,b=FILE"; empty when that is not what is written.
std::vector<std::pair<std::string, std::string>> named_files(std::string_view spec) {
  std::vector<std::pair<std::string, std::string>> out;
  while (true) {
    const std::size_t comma = spec.find(',');
    const std::string_view part = spec.substr(0, comma);
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos || equals == 0) return {};
    out.emplace_back(part.substr(0, equals), part.substr(equals + 1));
    if (comma == std::string_view::npos) return out;
    spec.remove_prefix(comma + 1);
  }
}

DatasetPtr open_named(const std::vector<std::pair<std::string, std::string>>& files, const std::string& spec,
                      const DatasetOptions& options) {
  check_split(spec, options);
  const Roles roles = roles_of(options.wanted);
  std::vector<Source> sources;
  for (const auto& [name, path] : files) {
    if (!options.wanted.empty() && !wanted_for(name, options.wanted, roles)) {
      throw UserError(
          fmt::format("data '{}': the model has no input '{}', only {}", spec, name, list_of(options.wanted)));
    }
    sources.push_back({name, read_array(path), path});
  }
  return open_sources(std::move(sources), options);
}

constexpr std::string_view kTrainSuffix = "_train";
constexpr std::string_view kTestSuffix = "_test";

// Arrays named for a split other than the wanted one are left out; the suffix goes.
DatasetPtr open_npz(const fs::path& path, const DatasetOptions& options) {
  std::vector<NamedArray> arrays = read_npz(path);
  const auto named = [&](std::string_view suffix) {
    return std::any_of(arrays.begin(), arrays.end(), [&](const NamedArray& a) { return a.name.ends_with(suffix); });
  };
  const bool has_splits = named(kTrainSuffix) && named(kTestSuffix);
  if (!has_splits || options.split != Split::kTest) check_split(path.string(), options);
  const std::string_view suffix = options.split == Split::kTest ? kTestSuffix : kTrainSuffix;
  std::vector<Source> sources;
  for (NamedArray& a : arrays) {
    const std::string label = fmt::format("{}:{}", path.string(), printable(a.name));
    if (has_splits && !a.name.ends_with(suffix)) continue;
    std::string field = has_splits ? a.name.substr(0, a.name.size() - suffix.size()) : a.name;
    sources.push_back({std::move(field), std::move(a.array), label});
  }
  return open_sources(std::move(sources), options);
}

bool has_zip_magic(std::span<const std::byte> bytes) {
  return bytes.size() >= 4 && std::memcmp(bytes.data(), "PK\3\4", 4) == 0;
}

DatasetPtr open_file(const fs::path& path, const DatasetOptions& options) {
  const MappedFile file(path);
  if (path.extension() == ".npz" || has_zip_magic(file.bytes())) return open_npz(path, options);
  if (is_npy(file.bytes()) || path.extension() == ".npy") {
    throw UserError(fmt::format("'{}' is one array: give a pair of files, X.npy,Y.npy, or an NPZ file", path.string()));
  }
  if (is_gzip(file.bytes())) {
    throw UserError(fmt::format("'{}' is compressed: unpack it, or give a pair IMAGES,LABELS", path.string()));
  }
  check_split(path.string(), options);
  Array stream = path.extension() == ".bin" ? read_tokens(path) : read_text(path);
  return std::make_shared<TokenSet>(std::move(stream), options, path.string());
}

}  // namespace

std::shared_ptr<const Dataset> open_dataset(const std::string& spec, const DatasetOptions& options) {
  check_options(options);
  if (spec.empty()) throw UserError("no data set is named");
  if (spec == "synthetic") return std::make_shared<SyntheticSet>(options);
  if (spec == "fashion-mnist") return open_fashion_mnist(options);
  std::error_code ignored;
  const std::size_t comma = spec.find(',');
  if (fs::exists(spec, ignored)) return open_file(spec, options);
  if (const auto files = named_files(spec); !files.empty()) return open_named(files, spec, options);
  if (comma == std::string::npos) return open_file(spec, options);
  return open_pair(spec.substr(0, comma), spec.substr(comma + 1), options);
}

}  // namespace neap
