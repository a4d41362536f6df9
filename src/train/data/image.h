// Pixels into a batch: normalised, cut or padded, flipped.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "train/data/array.h"
#include "train/data/dataset.h"

namespace neap {

// Height, width and channels of one image in an array of shape [N,H,W] or [N,H,W,C].
struct ImageSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;
};

class ImageSource {
 public:
  // `array` is u8, normalised to (x/255 - mean) / deviation, or f32, taken as it is. Sizes of 0 in `out`: as they are.
  ImageSource(Array array, const ImageSize& out, const DatasetOptions& options, const std::string& label);

  const ImageSize& out() const { return out_; }
  void copy(std::uint64_t sample, const Augment& augment, float* dst) const;

 private:
  template <class Value>
  void copy_row(const std::byte* row, std::int64_t shift, bool flip, float* dst, const Value& value) const;
  template <class Value>
  void copy_window(std::uint64_t sample, const Augment& augment, float* dst, const Value& value) const;
  void blacken(float* row) const;

  Array array_;
  ImageSize in_;
  ImageSize out_;
  std::vector<std::array<float, 256>> tables_;  // u8 only: the value of every byte, for every channel of out_
};

// The values of all 256 bytes under a mean and deviation of pixels in [0, 1].
std::array<float, 256> pixel_table(float mean, float deviation);

}  // namespace neap
