// One field of a data set that lies in an array [N, ...].
#pragma once

#include <memory>
#include <string>

#include "train/data/array.h"
#include "train/data/dataset.h"

namespace neap {

class Column {
 public:
  virtual ~Column() = default;
  Column() = default;
  Column(const Column&) = delete;
  Column& operator=(const Column&) = delete;

  Field field;
  virtual void copy(std::uint64_t sample, const Augment& augment, std::byte* dst) const = 0;
};

// u8 [N,H,W], u8 or f32 [N,H,W,C] with at most four channels.
bool is_image(const Array& array);
// Integers [N].
bool is_label(const Array& array);

// Chooses by type and shape: images and other u8 of rank 2 and more are normalised to f32, floats copied, other
// integers become i32. UserError names `label` and the position of a float that is not finite or an integer beyond 32
// bits.
std::unique_ptr<Column> make_column(std::string name, Array array, const DatasetOptions& options,
                                    const std::string& label);
// The same for a model's input, whose name, type and shape the column then has. UserError names both where they differ.
std::unique_ptr<Column> make_column(const Field& wanted, Array array, const DatasetOptions& options,
                                    const std::string& label);

// Integers that fit no wider type than this one; bool is 0 or 1.
void store_integer(DType type, std::byte* dst, std::uint64_t index, std::int64_t value);

// UserError unless every element lies in [0, bound).
void check_range(const Array& array, std::int64_t bound, const char* what, const std::string& label);
// The largest element and 0.
std::int64_t largest(const Array& array);

}  // namespace neap
