// Data sets made of arrays with one entry a sample.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "train/data/array.h"
#include "train/data/column.h"
#include "train/data/dataset.h"

namespace neap {

struct Source {
  std::string name;   // of the field
  Array array;        // [N, ...]
  std::string label;  // in messages: the file, and the array in it
};

class ArraySet final : public Dataset {
 public:
  // UserError when the sources differ in N, an integer is out of range, or a wanted field has no source. Without wanted
  // fields, of all sources that are labels (integers [N]) the only one, if it is, gives classes().
  ArraySet(std::vector<Source> sources, const DatasetOptions& options);
  void fill(std::span<const std::uint64_t> indices, std::size_t field, std::byte* dst,
            const Augment& augment) const override;

 private:
  void check_length(const Array& array, const std::string& label);
  void add_all(std::vector<Source> sources, const DatasetOptions& options);
  void add_wanted(std::vector<Source> sources, const DatasetOptions& options);
  std::vector<std::unique_ptr<Column>> columns_;
  std::string first_label_;  // whose length the others must have
};

// Some samples of another data set, in the order of `indices`. What is random about a sample stays that of its index
// there.
class SubsetSet final : public Dataset {
 public:
  SubsetSet(std::shared_ptr<const Dataset> whole, std::vector<std::uint64_t> indices);
  void fill(std::span<const std::uint64_t> indices, std::size_t field, std::byte* dst,
            const Augment& augment) const override;

 private:
  std::shared_ptr<const Dataset> whole_;
  std::vector<std::uint64_t> indices_;
};

// The training or the validation part: floor(fraction * size) samples, at least one, drawn by seed, are held out.
std::shared_ptr<const Dataset> hold_out(std::shared_ptr<const Dataset> whole, const DatasetOptions& options);

}  // namespace neap
