#include "train/data/column.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/file.h"
#include "neap/error.h"
#include "train/data/image.h"
#include "train/data/wanted.h"

namespace neap {
namespace {

constexpr std::int64_t kMostChannels = 4;
constexpr float kPixelMean = 0.5F;
constexpr float kPixelDeviation = 0.5F;

Shape sample_shape(const Array& array) {
  return Shape::of(std::vector<std::int64_t>(array.shape.begin() + 1, array.shape.end()));
}

// Which sample an element belongs to, for messages.
std::string position(const Array& array, std::uint64_t index) {
  const auto per_sample = static_cast<std::uint64_t>(array.elements() / array.shape[0]);
  return per_sample == 1 ? fmt::format("sample {}", index)
                         : fmt::format("sample {}, element {}", index / per_sample, index % per_sample);
}

void check_finite(const Array& array, const std::string& label) {
  const auto count = static_cast<std::uint64_t>(array.elements());
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto value = element<float>(array, i);
    if (!std::isfinite(value)) {
      throw UserError(fmt::format("'{}': {} at {}", label, std::isnan(value) ? "NaN" : "infinity", position(array, i)));
    }
  }
}

void check_fits_i32(const Array& array, const std::string& label) {
  if (array.dtype != DType::kI64) return;
  const auto count = static_cast<std::uint64_t>(array.elements());
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto value = element<std::int64_t>(array, i);
    if (value != static_cast<std::int32_t>(value)) {
      throw UserError(fmt::format("'{}': {} at {} does not fit 32 bits", label, value, position(array, i)));
    }
  }
}

// Channels last in the file; last or first in the batch.
class ImageColumn final : public Column {
 public:
  ImageColumn(Array array, const ImageSize& out, bool channels_first, const DatasetOptions& options,
              const std::string& label)
      : source_(std::move(array), out, options, label), channels_first_(channels_first) {
    const auto [height, width, channels] = source_.out();
    const Shape shape = channels_first ? Shape{channels, height, width} : Shape{height, width, channels};
    field = {.dtype = DType::kF32, .sample_shape = shape, .image = true};
  }
  void copy(std::uint64_t sample, const Augment& augment, std::byte* dst) const override {
    auto* const to = reinterpret_cast<float*>(dst);
    const auto [height, width, channels] = source_.out();
    if (!channels_first_ || channels == 1) return source_.copy(sample, augment, to);
    thread_local std::vector<float> pixels;
    pixels.resize(static_cast<std::size_t>(height * width * channels));
    source_.copy(sample, augment, pixels.data());
    const float* from = pixels.data();
    for (std::int64_t i = 0; i < height * width; ++i) {
      for (std::int64_t c = 0; c < channels; ++c) to[c * height * width + i] = *from++;
    }
  }

 private:
  ImageSource source_;
  bool channels_first_;
};

class FlatColumn : public Column {
 public:
  FlatColumn(Array array, DType type)
      : array_(std::move(array)), elements_(static_cast<std::uint64_t>(array_.elements() / array_.shape[0])) {
    field = {.dtype = type, .sample_shape = sample_shape(array_)};
  }

 protected:
  // Calls convert(index in the array) for the elements of a sample and stores what it returns.
  template <class To, class Convert>
  void store(std::uint64_t sample, std::byte* dst, const Convert& convert) const {
    auto* const to = reinterpret_cast<To*>(dst);
    for (std::uint64_t i = 0; i < elements_; ++i) to[i] = convert(sample * elements_ + i);
  }
  const Array& array() const { return array_; }
  std::uint64_t elements() const { return elements_; }  // of a sample

 private:
  Array array_;
  std::uint64_t elements_;
};

class PixelColumn final : public FlatColumn {
 public:
  PixelColumn(Array array, const DatasetOptions& options)
      : FlatColumn(std::move(array), DType::kF32),
        table_(pixel_table(options.mean.size() == 1 ? options.mean[0] : kPixelMean,
                           options.deviation.size() == 1 ? options.deviation[0] : kPixelDeviation)) {}
  void copy(std::uint64_t sample, const Augment&, std::byte* dst) const override {
    store<float>(sample, dst, [&](std::uint64_t i) { return table_[element<std::uint8_t>(array(), i)]; });
  }

 private:
  std::array<float, 256> table_;
};

class FloatColumn final : public FlatColumn {
 public:
  explicit FloatColumn(Array array) : FlatColumn(std::move(array), DType::kF32) {}
  void copy(std::uint64_t sample, const Augment&, std::byte* dst) const override {
    const std::uint64_t bytes = elements() * sizeof(float);
    std::memcpy(dst, array().bytes.data() + sample * bytes, bytes);
  }
};

class IntegerColumn final : public FlatColumn {
 public:
  explicit IntegerColumn(Array array, DType type = DType::kI32) : FlatColumn(std::move(array), type) {}
  void copy(std::uint64_t sample, const Augment&, std::byte* dst) const override {
    for (std::uint64_t i = 0; i < elements(); ++i) {
      store_integer(field.dtype, dst, i, integer_at(array(), sample * elements() + i));
    }
  }
};

// Whole numbers that a model takes as floats: the targets of a regression, say.
class NumberColumn final : public FlatColumn {
 public:
  explicit NumberColumn(Array array) : FlatColumn(std::move(array), DType::kF32) {}
  void copy(std::uint64_t sample, const Augment&, std::byte* dst) const override {
    store<float>(sample, dst, [&](std::uint64_t i) { return static_cast<float>(integer_at(array(), i)); });
  }
};

std::unique_ptr<Column> choose(Array array, const DatasetOptions& options, const std::string& label) {
  if (is_image(array)) {
    const ImageSize size = {options.image, options.image, options.channels};
    return std::make_unique<ImageColumn>(std::move(array), size, false, options, label);
  }
  if (array.dtype == DType::kF32) return std::make_unique<FloatColumn>(std::move(array));
  if (array.dtype == DType::kU8 && array.shape.size() > 1) {
    return std::make_unique<PixelColumn>(std::move(array), options);
  }
  check_fits_i32(array, label);
  return std::make_unique<IntegerColumn>(std::move(array));
}

// An image is taken to have at most four channels: where both ends of a shape could be they, they are last.
std::unique_ptr<Column> choose_image(const Shape& shape, Array array, const DatasetOptions& options,
                                     const std::string& label) {
  const bool channels_first = shape.size(0) <= kMostChannels && shape.size(2) > kMostChannels;
  const ImageSize out = channels_first ? ImageSize{shape.size(1), shape.size(2), shape.size(0)}
                                       : ImageSize{shape.size(0), shape.size(1), shape.size(2)};
  return std::make_unique<ImageColumn>(std::move(array), out, channels_first, options, label);
}

std::unique_ptr<Column> choose(const Field& wanted, Array array, const DatasetOptions& options,
                               const std::string& label) {
  const bool is_same = sample_shape(array) == wanted.sample_shape;
  const bool is_float_data = array.dtype == DType::kF32;
  if (wanted.dtype == DType::kF32) {
    const bool is_ready = is_float_data && is_same && !wanted.image;
    if (is_image(array) && wanted.sample_shape.rank() == 3 && !is_ready) {
      return choose_image(wanted.sample_shape, std::move(array), options, label);
    }
    if (is_float_data) return std::make_unique<FloatColumn>(std::move(array));
    const bool is_pixels = array.dtype == DType::kU8 && array.shape.size() > 1;
    if (is_pixels) return std::make_unique<PixelColumn>(std::move(array), options);
    return std::make_unique<NumberColumn>(std::move(array));
  }
  if (is_float_data) return std::make_unique<FloatColumn>(std::move(array));
  if (wanted.bound > 0) check_range(array, wanted.bound, is_target_name(wanted.name) ? "label" : "number", label);
  if (wanted.dtype == DType::kI32) check_fits_i32(array, label);
  return std::make_unique<IntegerColumn>(std::move(array), wanted.dtype);
}

void check_samples(const Array& array, const std::string& label) {
  if (array.shape.empty()) throw UserError(fmt::format("'{}' is a single number, not an array of samples", label));
  if (array.elements() == 0) throw UserError(fmt::format("'{}' holds no samples", label));
  if (array.dtype == DType::kF32) check_finite(array, label);
}

}  // namespace

bool is_image(const Array& array) {
  const bool channels_last = array.shape.size() == 4 && array.shape[3] <= kMostChannels;
  if (array.dtype == DType::kF32) return channels_last;
  return array.dtype == DType::kU8 && (channels_last || array.shape.size() == 3);
}

bool is_label(const Array& array) { return array.shape.size() == 1 && array.dtype != DType::kF32; }

std::unique_ptr<Column> make_column(std::string name, Array array, const DatasetOptions& options,
                                    const std::string& label) {
  check_samples(array, label);
  std::unique_ptr<Column> column = choose(std::move(array), options, label);
  column->field.name = std::move(name);
  return column;
}

std::unique_ptr<Column> make_column(const Field& wanted, Array array, const DatasetOptions& options,
                                    const std::string& label) {
  check_samples(array, label);
  std::unique_ptr<Column> column = choose(wanted, std::move(array), options, label);
  Field& has = column->field;
  has.name = wanted.name;
  has.bound = wanted.bound;
  if (has.dtype != wanted.dtype || has.sample_shape != wanted.sample_shape) {
    throw UserError(fmt::format("'{}': field '{}' is {}{} a sample, the model takes {}{}", label,
                                printable(wanted.name), name(has.dtype), has.sample_shape.text(), name(wanted.dtype),
                                wanted.sample_shape.text()));
  }
  return column;
}

void store_integer(DType type, std::byte* dst, std::uint64_t index, std::int64_t value) {
  const auto put = [&](auto narrow) { std::memcpy(dst + index * sizeof narrow, &narrow, sizeof narrow); };
  switch (type) {
    case DType::kBool: return put(static_cast<std::uint8_t>(value != 0));
    case DType::kU8: return put(static_cast<std::uint8_t>(value));
    case DType::kI8: return put(static_cast<std::int8_t>(value));
    case DType::kU16: return put(static_cast<std::uint16_t>(value));
    case DType::kI32: return put(static_cast<std::int32_t>(value));
    case DType::kI64: return put(value);
    case DType::kU64: return put(static_cast<std::uint64_t>(value));
    default: throw InternalError(fmt::format("{} holds no integers", name(type)));
  }
}

void check_range(const Array& array, std::int64_t bound, const char* what, const std::string& label) {
  const auto count = static_cast<std::uint64_t>(array.elements());
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::int64_t value = integer_at(array, i);
    if (value < 0 || value >= bound) {
      throw UserError(fmt::format("'{}': {} {} at position {} is outside 0 to {}", label, what, value, i, bound - 1));
    }
  }
}

std::int64_t largest(const Array& array) {
  std::int64_t most = 0;
  const auto count = static_cast<std::uint64_t>(array.elements());
  for (std::uint64_t i = 0; i < count; ++i) most = std::max(most, integer_at(array, i));
  return most;
}

}  // namespace neap
