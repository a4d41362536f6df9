#include "train/data/column.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "neap/error.h"
#include "train/data/image.h"

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

class ImageColumn final : public Column {
 public:
  ImageColumn(Array array, const DatasetOptions& options, const std::string& label)
      : source_(std::move(array), options, label) {
    const ImageSize& size = source_.out();
    field = {"", DType::kF32, {size.height, size.width, size.channels}, true};
  }
  void copy(std::uint64_t sample, const Augment& augment, std::byte* dst) const override {
    source_.copy(sample, augment, reinterpret_cast<float*>(dst));
  }

 private:
  ImageSource source_;
};

class FlatColumn : public Column {
 public:
  FlatColumn(Array array, DType type)
      : array_(std::move(array)), elements_(static_cast<std::uint64_t>(array_.elements() / array_.shape[0])) {
    field = {"", type, sample_shape(array_), false};
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
  explicit IntegerColumn(Array array) : FlatColumn(std::move(array), DType::kI32) {}
  void copy(std::uint64_t sample, const Augment&, std::byte* dst) const override {
    store<std::int32_t>(sample, dst,
                        [&](std::uint64_t i) { return static_cast<std::int32_t>(integer_at(array(), i)); });
  }
};

std::unique_ptr<Column> choose(Array array, const DatasetOptions& options, const std::string& label) {
  if (array.dtype == DType::kF32) check_finite(array, label);
  if (is_image(array)) return std::make_unique<ImageColumn>(std::move(array), options, label);
  if (array.dtype == DType::kF32) return std::make_unique<FloatColumn>(std::move(array));
  if (array.dtype == DType::kU8 && array.shape.size() > 1) {
    return std::make_unique<PixelColumn>(std::move(array), options);
  }
  check_fits_i32(array, label);
  return std::make_unique<IntegerColumn>(std::move(array));
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
  if (array.shape.empty()) throw UserError(fmt::format("'{}' is a single number, not an array of samples", label));
  if (array.elements() == 0) throw UserError(fmt::format("'{}' holds no samples", label));
  std::unique_ptr<Column> column = choose(std::move(array), options, label);
  column->field.name = std::move(name);
  return column;
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
