// Data sets as the training loop sees them: numbered samples with named fields of fixed shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "neap/dtype.h"
#include "neap/shape.h"

namespace neap {

struct Field {
  std::string name;
  DType dtype = DType::kF32;
  Shape sample_shape;      // without the batch
  bool image = false;      // augmentation applies
  std::int64_t bound = 0;  // integers lie in [0, bound); 0: not known

  friend bool operator==(const Field&, const Field&) = default;
};

// What happens to images on their way into a batch; a function of (seed, epoch, sample) alone, of no order or thread.
struct Augment {
  bool flip = false;              // left to right, every second time
  std::int64_t crop_padding = 0;  // shift by up to so many pixels each way; black (0 before normalisation) comes in
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
};

// Immutable once open: any thread may call any of this.
class Dataset {
 public:
  virtual ~Dataset() = default;
  Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  std::uint64_t size() const { return size_; }
  const std::vector<Field>& fields() const { return fields_; }
  std::size_t field(std::string_view name) const;    // its index; UserError when there is none
  std::int64_t classes() const { return classes_; }  // labels are in [0, classes); 0 without labels
  std::int64_t vocab() const { return vocab_; }      // tokens are in [0, vocab); 0 without tokens

  // Time steps of a sample, when at most `most` (from 1 to as many as its fields have) are taken. Behind them fill()
  // writes 0, and kIgnoredTarget (train/data/sequences.h) in a target.
  virtual std::int64_t length(std::uint64_t /*index*/, std::int64_t most) const { return most; }

  // Writes [indices.size(), sample_shape...] of one field to `dst`, aligned for its type.
  virtual void fill(std::span<const std::uint64_t> indices, std::size_t field, std::byte* dst,
                    const Augment& augment = {}) const = 0;

 protected:
  std::uint64_t size_ = 0;
  std::vector<Field> fields_;
  std::int64_t classes_ = 0;
  std::int64_t vocab_ = 0;
};

// Bytes of one sample of a field.
std::int64_t sample_bytes(const Field& field);

enum class Split : std::uint8_t { kTrain, kValidation, kTest };

struct DatasetOptions {
  Split split = Split::kTrain;
  // Share of the training part that is held out as kValidation: samples drawn by `seed`, or the end of a text.
  double validation_fraction = 0;
  std::uint64_t seed = 0;
  std::int64_t length = 0;    // tokens in a window; language sets need it
  std::int64_t image = 0;     // height and width wanted: cut or padded around the centre; 0: as they are
  std::int64_t channels = 0;  // 3 for grey images repeats them; 0: as they are
  std::int64_t classes = 0;   // 0: one more than the largest label
  std::int64_t vocab = 0;     // 0: 256 for text, one more than the largest token otherwise
  // Of pixels between 0 and 1, one number or one a channel; empty: the data set's own, 0.5 where it has none.
  std::vector<float> mean;
  std::vector<float> deviation;
  // What the model takes (empty: whatever there is). The data set then has these fields, of these types and shapes;
  // data find their field by name, or by role (train/data/wanted.h).
  std::vector<Field> wanted;
  bool varying = false;  // sequences of varying length: the paragraphs of a text, made-up ones of a skewed length
  std::uint64_t samples = 50'000;  // of `synthetic`
  std::filesystem::path fashion_mnist = "/usr/share/datasets/fashion-mnist";
};

// SPEC is one of
//   fashion-mnist     Debian's package; splits train and test          -> image, label
//   IMAGES,LABELS     two IDX files, plain or gzip                     -> image, label
//   X.npy,Y.npy       u8 images (N,H,W[,C]) with integer labels        -> image, label; anything else -> x, y
//   A=X.npy,B=Y.npy   fields by name, any number of NPY or IDX files   -> A, B
//   FILE.npz          fields named as the arrays; NAME_train and NAME_test are NAME of that split
//   FILE.bin          16-bit tokens                                    -> tokens, targets (tokens moved on by one)
//   synthetic         made by seed, learnable                          -> as wanted
//   any other file    a text, its bytes the tokens                     -> tokens, targets
// In NPY and NPZ: floats stay as they are; u8 of rank 2 and more are pixels, normalised to f32 like images; other
// integers become i32. Where a field is wanted its type decides: pixels or numbers, i32 or i64, height or channels
// first. UserError names the file, the field and both shapes where they differ, and the position of a label out of
// range or a float that is not finite.
std::shared_ptr<const Dataset> open_dataset(const std::string& spec, const DatasetOptions& options = {});

}  // namespace neap
