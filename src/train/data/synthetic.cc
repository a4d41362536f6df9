#include "train/data/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "core/random.h"
#include "neap/error.h"
#include "train/data/column.h"
#include "train/data/sequences.h"
#include "train/data/wanted.h"

namespace neap {
namespace {

constexpr std::int64_t kImage = 32;
constexpr std::int64_t kChannels = 3;
constexpr std::int64_t kClasses = 10;
constexpr std::uint64_t kAlphabet = 256;  // tokens in use, so that a large vocabulary is learnt as soon as a small one
constexpr std::uint32_t kSurprise = 0x1999999A;  // a tenth of 2^32

std::uint64_t scale(std::uint32_t word, std::uint64_t bound) { return static_cast<std::uint64_t>(word) * bound >> 32; }

// 2^x, linear between whole numbers.
float power_of_two(float x) {
  const float whole = std::floor(x);
  return std::ldexp(1.0F + (x - whole), static_cast<int>(whole));
}

// The sum of four uniform bytes has mean 510 and deviation sqrt(4 * (256^2 - 1) / 12), and is near enough to normal.
float noise(std::uint32_t word) {
  const std::uint32_t pairs = (word & 0x00ff00ff) + (word >> 8 & 0x00ff00ff);
  const auto sum = static_cast<int>((pairs & 0xffff) + (pairs >> 16));
  return static_cast<float>(sum - 510) * (1.0F / 147.801F);
}

// A triangle wave over phases of 2^32 a period, between -1 and 1.
float wave(std::uint32_t phase) {
  return static_cast<float>(std::abs(static_cast<std::int64_t>(static_cast<std::int32_t>(phase)))) * 0x1p-30F - 1.0F;
}

// What a class looks like. Periods of 4 to 32 elements.
struct Pattern {
  Pattern(std::uint64_t seed, std::uint64_t which) {
    const std::array<std::uint32_t, 4> words = Philox{mix(seed, hash_text("pattern"))}(which);
    across = (1U << 27) + static_cast<std::uint32_t>(scale(words[0], (1U << 30) - (1U << 27)));
    down = (1U << 27) + static_cast<std::uint32_t>(scale(words[1], (1U << 30) - (1U << 27)));
    start = words[2];
    shifts = words[3];
  }
  float at(std::uint32_t y, std::uint32_t x, std::uint32_t channel) const {
    const auto shift = static_cast<float>(shifts >> (channel % 4 * 8) & 0xff) * (1.0F / 255.0F) - 0.5F;
    return wave(start + down * y + across * x) + shift;
  }
  std::uint32_t across;
  std::uint32_t down;
  std::uint32_t start;
  std::uint32_t shifts;  // a byte for each of four channels
};

std::vector<Field> default_fields(const DatasetOptions& options) {
  const std::int64_t size = options.image > 0 ? options.image : kImage;
  const std::int64_t channels = options.channels > 0 ? options.channels : kChannels;
  return {{"image", DType::kF32, {size, size, channels}, true}, {"label", DType::kI32, {}, false}};
}

}  // namespace

SyntheticSet::SyntheticSet(const DatasetOptions& options)
    : seed_(options.seed),
      varying_(options.varying),
      part_key_(mix(mix(options.seed, hash_text("synthetic")), static_cast<std::uint64_t>(options.split))) {
  if (options.samples == 0) throw UserError("a synthetic data set needs at least one sample");
  size_ = options.split == Split::kTrain ? options.samples : std::max<std::uint64_t>(options.samples / 10, 1);
  fields_ = options.wanted.empty() ? default_fields(options) : options.wanted;
  classes_ = options.classes > 0 ? options.classes : kClasses;
  const bool is_free = options.wanted.empty();
  for (Field& field : fields_) {
    if (field.dtype != DType::kF32 && !is_integer(field.dtype)) {
      throw UserError(fmt::format("input '{}' is {}, for which no data can be made", field.name, name(field.dtype)));
    }
    if (!is_integer(field.dtype)) continue;
    const bool is_class = field.sample_shape.rank() == 0;
    if (field.bound == 0) field.bound = is_class ? (is_free ? classes_ : options.classes) : options.vocab;
    if (is_class && is_target_name(field.name) && field.bound > 0) classes_ = field.bound;
    if (!is_class) vocab_ = std::max(vocab_, field.bound);
  }
}

std::uint64_t SyntheticSet::class_of(std::uint64_t sample, std::int64_t classes) const {
  return scale(Philox{mix(part_key_, hash_text("class"))}(sample)[0], static_cast<std::uint64_t>(classes));
}

void SyntheticSet::fill_floats(std::uint64_t sample, const Field& field, float* dst) const {
  const Philox random{mix(part_key_, hash_text(field.name))};
  const Pattern pattern(seed_, class_of(sample, classes_));
  const bool image = field.sample_shape.rank() == 3;
  const auto width = static_cast<std::uint32_t>(image ? field.sample_shape.size(1) : field.sample_shape.count());
  const auto channels = static_cast<std::uint32_t>(image ? field.sample_shape.size(2) : 1);
  const auto count = static_cast<std::uint64_t>(field.sample_shape.count());
  std::array<std::uint32_t, 4> words{};
  std::uint32_t x = 0;
  std::uint32_t y = 0;
  std::uint32_t c = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i % 4 == 0) words = random(i / 4, sample);
    dst[i] = field.bound > 0 ? static_cast<float>(words[i % 4] >> 8) * 0x1p-24F * static_cast<float>(field.bound)
                             : noise(words[i % 4]) + pattern.at(y, x, c);
    if (++c < channels) continue;
    c = 0;
    if (++x < width) continue;
    x = 0;
    ++y;
  }
}

// 1: the field holds what follows each token of another field.
std::uint64_t SyntheticSet::first_token(std::size_t field) const {
  const Field& target = fields_[field];
  if (!is_target_name(target.name)) return 0;
  const auto is_beside = [&](const Field& f) {
    return &f != &target && is_integer(f.dtype) && f.sample_shape == target.sample_shape;
  };
  return target.name == "targets" || std::any_of(fields_.begin(), fields_.end(), is_beside) ? 1 : 0;
}

void SyntheticSet::fill_tokens(std::uint64_t sample, std::size_t field, std::byte* dst) const {
  const Field& f = fields_[field];
  const std::uint64_t alphabet = std::min(kAlphabet, static_cast<std::uint64_t>(f.bound));
  const Philox random{mix(part_key_, hash_text("tokens"))};
  const auto count = static_cast<std::uint64_t>(f.sample_shape.count());
  const std::uint64_t first = first_token(field);
  std::uint64_t token = 0;
  for (std::uint64_t i = 0; i < count + first; ++i) {
    const std::array<std::uint32_t, 4> words = random(i, sample);
    const bool surprise = i == 0 || words[0] < kSurprise;
    const std::uint64_t square = static_cast<std::uint64_t>(words[1]) * words[1] >> 32;
    token = surprise ? square * alphabet >> 32 : (token * 5 + 3) % alphabet;
    if (i >= first) store_integer(f.dtype, dst, i - first, static_cast<std::int64_t>(token));
  }
}

std::int64_t SyntheticSet::length(std::uint64_t index, std::int64_t most) const {
  if (!varying_) return most;
  const float normal = noise(Philox{mix(part_key_, hash_text("length"))}(index)[0]);
  const float share = 0.2F * power_of_two(0.85F * normal);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(share * static_cast<float>(most)), 1, most);
}

void SyntheticSet::fill(std::span<const std::uint64_t> indices, std::size_t field, std::byte* dst,
                        const Augment&) const {
  const Field& f = fields_.at(field);
  const auto count = static_cast<std::uint64_t>(f.sample_shape.count());
  for (const std::uint64_t index : indices) {
    require(index < size_, "sample out of range");
    if (f.dtype == DType::kF32) {
      fill_floats(index, f, reinterpret_cast<float*>(dst));
    } else if (f.bound == 0) {
      for (std::uint64_t i = 0; i < count; ++i) store_integer(f.dtype, dst, i, 1);
    } else if (f.sample_shape.rank() > 0) {
      fill_tokens(index, field, dst);
    } else {
      store_integer(f.dtype, dst, 0, static_cast<std::int64_t>(class_of(index, f.bound)));
    }
    if (varying_ && is_integer(f.dtype) && f.sample_shape.rank() == 1) {
      pad_row(f, dst, length(index, f.sample_shape.size(0)), f.sample_shape.size(0));
    }
    dst += sample_bytes(f);
  }
}

}  // namespace neap
