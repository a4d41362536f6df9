#include "train/data/image.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "neap/error.h"

namespace neap {
namespace {

constexpr float kUnknownMean = 0.5F;
constexpr float kUnknownDeviation = 0.5F;

float per_channel(const std::vector<float>& values, std::int64_t channel, std::int64_t channels, float fallback) {
  if (values.empty()) return fallback;
  if (values.size() != 1 && values.size() != static_cast<std::size_t>(channels)) {
    throw UserError(
        fmt::format("{} numbers to normalise {} channels: give one, or one a channel", values.size(), channels));
  }
  return values.size() == 1 ? values[0] : values[static_cast<std::size_t>(channel)];
}

// Uniform in [-padding, padding].
std::int64_t shift(std::uint32_t word, std::int64_t padding) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(word) * static_cast<std::uint64_t>(2 * padding + 1) >>
                                   32) -
         padding;
}

}  // namespace

std::array<float, 256> pixel_table(float mean, float deviation) {
  if (!std::isfinite(mean) || !std::isfinite(deviation) || deviation <= 0) {
    throw UserError(fmt::format("pixels cannot be normalised by mean {} and deviation {}", mean, deviation));
  }
  std::array<float, 256> table{};
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = (static_cast<float>(i) / 255.0F - mean) / deviation;
  return table;
}

ImageSource::ImageSource(Array array, const ImageSize& out, const DatasetOptions& options, const std::string& label)
    : array_(std::move(array)) {
  in_ = {array_.shape[1], array_.shape[2], array_.shape.size() == 4 ? array_.shape[3] : 1};
  out_ = {out.height > 0 ? out.height : in_.height, out.width > 0 ? out.width : in_.width,
          out.channels > 0 ? out.channels : in_.channels};
  if (out_.channels != in_.channels && in_.channels != 1) {
    throw UserError(fmt::format("'{}' has images of {} channels, not {}", label, in_.channels, out_.channels));
  }
  if (array_.dtype != DType::kU8) return;
  for (std::int64_t c = 0; c < out_.channels; ++c) {
    tables_.push_back(pixel_table(per_channel(options.mean, c, out_.channels, kUnknownMean),
                                  per_channel(options.deviation, c, out_.channels, kUnknownDeviation)));
  }
}

void ImageSource::blacken(float* row) const {
  for (std::int64_t i = 0; i < out_.width * out_.channels; ++i) {
    row[i] = tables_.empty() ? 0.0F : tables_[static_cast<std::size_t>(i % out_.channels)][0];
  }
}

// Column x of the result is column x + shift of `row`, black where there is none (a null row has none at all).
// value(pointer, channel of the result) reads one element.
template <class Value>
void ImageSource::copy_row(const std::byte* row, std::int64_t shift, bool flip, float* dst, const Value& value) const {
  const std::int64_t first = std::clamp<std::int64_t>(-shift, 0, out_.width);
  const std::int64_t last = std::clamp<std::int64_t>(in_.width - shift, first, out_.width);
  const bool whole = row != nullptr && first == 0 && last == out_.width;
  if (!whole) blacken(dst);
  if (row == nullptr) return;
  const std::int64_t bytes = byte_size(array_.dtype, 1);
  const std::int64_t channel_step = in_.channels == 1 ? 0 : bytes;
  for (std::int64_t x = first; x < last; ++x) {
    const std::byte* from = row + (x + shift) * in_.channels * bytes;
    float* to = dst + (flip ? out_.width - 1 - x : x) * out_.channels;
    for (std::int64_t c = 0; c < out_.channels; ++c) to[c] = value(from + c * channel_step, c);
  }
}

template <class Value>
void ImageSource::copy_window(std::uint64_t sample, const Augment& augment, float* dst, const Value& value) const {
  const Philox random{mix(mix(augment.seed, hash_text("augment")), augment.epoch)};
  const std::array<std::uint32_t, 4> words = random(sample);
  const bool flip = augment.flip && (words[0] & 1) != 0;
  const std::int64_t down = (in_.height - out_.height) / 2 + shift(words[1], augment.crop_padding);
  const std::int64_t right = (in_.width - out_.width) / 2 + shift(words[2], augment.crop_padding);
  const std::int64_t row_bytes = in_.width * in_.channels * byte_size(array_.dtype, 1);
  const std::byte* image = array_.bytes.data() + static_cast<std::int64_t>(sample) * in_.height * row_bytes;
  for (std::int64_t y = 0; y < out_.height; ++y) {
    const std::int64_t from = y + down;
    const bool inside = from >= 0 && from < in_.height;
    copy_row(inside ? image + from * row_bytes : nullptr, right, flip, dst + y * out_.width * out_.channels, value);
  }
}

void ImageSource::copy(std::uint64_t sample, const Augment& augment, float* dst) const {
  if (array_.dtype == DType::kU8) {
    copy_window(sample, augment, dst, [this](const std::byte* from, std::int64_t channel) {
      return tables_[static_cast<std::size_t>(channel)][static_cast<std::size_t>(*from)];
    });
  } else {
    copy_window(sample, augment, dst, [](const std::byte* from, std::int64_t) {
      float value = 0;
      std::memcpy(&value, from, sizeof(value));
      return value;
    });
  }
}

}  // namespace neap
