#include "train/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/file_testing.h"

namespace neap {
namespace {

using testing::contents;
using testing::expect_user_error;
using testing::TempDir;

template <class T>
SafeTensor tensor(std::string name, DType type, Shape shape, const std::vector<T>& values) {
  return {std::move(name), type, std::move(shape), std::as_bytes(std::span(values))};
}

// A file with this header and as many zero bytes behind it.
std::string raw(std::string_view header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out.append(header).append(data_bytes, '\0');
}

void expect_refused(std::string_view header, std::size_t data_bytes, std::string_view tensor_name,
                    std::string_view why) {
  SCOPED_TRACE(header);
  const TempDir dir;
  const auto path = dir.file("bad.safetensors", raw(header, data_bytes));
  expect_user_error([&] { SafeTensorsFile file(path); }, {path.string(), tensor_name, why});
}

const std::vector<float> kFloats = {1, 2, 3, 4, 5, 6};
const std::vector<std::uint8_t> kBytes = {7, 8, 9};
const std::vector<std::uint16_t> kHalves = {10, 11};
const std::vector<std::int64_t> kLongs = {-1};

std::vector<SafeTensor> example() {
  return {tensor("b", DType::kU8, {3}, kBytes), tensor("w", DType::kF32, {2, 3}, kFloats),
          tensor("h\"\n", DType::kBF16, {2, 1}, kHalves), tensor("scalar", DType::kI64, {}, kLongs),
          SafeTensor{"none", DType::kF32, {0, 5}, {}}};
}

TEST(SafeTensors, WhatIsWrittenIsRead) {
  const TempDir dir;
  const auto tensors = example();
  write_safetensors(dir / "m", tensors, {{"format", "neap"}, {"step", "3"}});
  const SafeTensorsFile file(dir / "m");
  EXPECT_EQ(file.tensors().size(), tensors.size());
  for (const SafeTensor& t : tensors) {
    const SafeTensor* found = file.find(t.name);
    ASSERT_NE(found, nullptr) << t.name;
    EXPECT_EQ(found->dtype, t.dtype);
    EXPECT_EQ(found->shape, t.shape);
    EXPECT_TRUE(std::ranges::equal(found->data, t.data));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(found->data.data()) % static_cast<std::size_t>(byte_size(t.dtype, 1)),
              0U);
  }
  EXPECT_EQ(file.metadata(), (SafeTensorsMetadata{{"format", "neap"}, {"step", "3"}}));
  EXPECT_EQ(file.find("absent"), nullptr);
}

TEST(SafeTensors, TheBytesAreTheFormats) {
  const TempDir dir;
  write_safetensors(dir / "m", std::vector{tensor("b", DType::kU8, {3}, kBytes)}, {{"a", "\xc3\xa4"}});
  std::string header = R"({"__metadata__":{"a":"ä"},"b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(contents(dir / "m"), raw(header, 0) + "\x07\x08\x09");
}

TEST(SafeTensors, TheOrderGivenDoesNotMatter) {
  const TempDir dir;
  auto tensors = example();
  write_safetensors(dir / "a", tensors);
  std::reverse(tensors.begin(), tensors.end());
  write_safetensors(dir / "b", tensors);
  EXPECT_EQ(contents(dir / "a"), contents(dir / "b"));
}

TEST(SafeTensors, NoTensorsAtAll) {
  const TempDir dir;
  write_safetensors(dir / "m", {});
  EXPECT_TRUE(SafeTensorsFile(dir / "m").tensors().empty());
}

TEST(SafeTensors, RefusesToWriteWhatCannotBeRead) {
  const TempDir dir;
  const auto write = [&](const std::vector<SafeTensor>& tensors, const SafeTensorsMetadata& metadata = {}) {
    return [&dir, tensors, metadata] { write_safetensors(dir / "m", tensors, metadata); };
  };
  const SafeTensor b = tensor("b", DType::kU8, {3}, kBytes);
  expect_user_error(write({b, b}), {"'b'", "twice"});
  expect_user_error(write({tensor("b", DType::kU8, {3}, kBytes), tensor("b", DType::kF32, {6}, kFloats)}),
                    {"'b'", "twice"});
  expect_user_error(write({tensor("__metadata__", DType::kU8, {3}, kBytes)}), {"__metadata__"});
  expect_user_error(write({tensor("bits", DType::kBits, {24}, kBytes)}), {"'bits'", "cannot hold"});
  expect_user_error(write({tensor("\xff", DType::kU8, {3}, kBytes)}), {"UTF-8"});
  expect_user_error(write({b}, {{"k", "\xff"}}), {"UTF-8"});
  EXPECT_THROW(write({tensor("b", DType::kU8, {4}, kBytes)})(), InternalError);
  EXPECT_FALSE(std::filesystem::exists(dir / "m"));
}

TEST(SafeTensors, AFullDiskLeavesTheOldFileAlone) {
  const TempDir dir;
  write_safetensors(dir / "m", example());
  const std::string before = contents(dir / "m");
  const std::vector<float> large(100'000);
  {
    const testing::FileSizeLimit limit(4096);
    expect_user_error([&] { write_safetensors(dir / "m", std::vector{tensor("w", DType::kF32, {100'000}, large)}); },
                      {(dir / "m").string(), "largest size"});
  }
  EXPECT_EQ(contents(dir / "m"), before);
}

TEST(SafeTensors, RefusesFilesThatAreTooShort) {
  const TempDir dir;
  const auto open = [&](std::string_view bytes) {
    return [path = dir.file("bad", bytes)] { SafeTensorsFile file(path); };
  };
  expect_user_error(open(""), {"bad", "empty"});
  expect_user_error(open("1234567"), {"bad", "too short"});
  expect_user_error(open(std::string("\x03\0\0\0\0\0\0\0{}", 10)), {"bad", "3 bytes of 10"});
  expect_user_error(open(std::string(8, '\xff') + "{}"), {"bad", "header would take"});
  expect_user_error(open(std::string("\xf9\xff\xff\xff\xff\xff\xff\x7f{}", 10)), {"bad", "header would take"});
  expect_user_error([&] { SafeTensorsFile file(dir / "absent"); }, {"absent", "No such file"});
}

TEST(SafeTensors, RefusesEveryPrefixOfAFile) {
  const TempDir dir;
  write_safetensors(dir / "m", example(), {{"k", "v"}});
  const std::string whole = contents(dir / "m");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto path = dir.file("cut", std::string_view(whole).substr(0, size));
    expect_user_error([&] { SafeTensorsFile file(path); }, {"cut"});
  }
}

TEST(SafeTensors, RefusesMalformedHeaders) {
  expect_refused("", 0, "", "not a JSON object");
  expect_refused("{", 0, "", "not valid JSON");
  expect_refused("{}x", 0, "", "not valid JSON");
  expect_refused(std::string("{}\0", 3), 0, "", "not a JSON object");
  expect_refused("\xef\xbb\xbf{}", 0, "", "not a JSON object");
  expect_refused("{\"\xff\":{}}", 0, "", "not valid JSON");
  expect_refused("[]", 0, "", "not a JSON object");
  expect_refused("3", 0, "", "not a JSON object");
  expect_refused(R"({"a":3})", 0, "'a'", "is a number");
  expect_refused(R"({"a":[3]})", 0, "'a'", "is a list");
  expect_refused(R"({"a":null})", 0, "'a'", "is null");
  expect_refused(R"({"a":{}})", 0, "'a'", "lacks");
  expect_refused(R"({"a":{"dtype":{}}})", 0, "'a'", "object");
  expect_refused(R"({"a":{"dtype":"U8","shape":[[3]],"data_offsets":[0,3]}})", 3, "'a'", "a list in its 'shape'");
  expect_refused(R"({"a":{"dtype":"U8","shape":[3]}})", 3, "'a'", "lacks");
  expect_refused(R"({"a":{"dtype":["U8"],"shape":[3],"data_offsets":[0,3]}})", 3, "'a'", "'dtype'");
  expect_refused(R"({"a":{"dtype":"U8","dtype":"U8","shape":[3],"data_offsets":[0,3]}})", 3, "'a'", "'dtype' twice");
  expect_refused(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3],"x":1}})", 3, "'a'", "unknown key 'x'");
  expect_refused(std::string(R"({"a":{"dtype":"U8","shape":)") + std::string(100'000, '['), 0, "'a'", "a list");
}

TEST(SafeTensors, RefusesTypesShapesAndOffsetsThatCannotBe) {
  const auto entry = [](std::string_view dtype, std::string_view shape, std::string_view offsets) {
    return fmt::format(R"({{"t":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", dtype, shape, offsets);
  };
  expect_refused(entry("F64", "[1]", "[0,8]"), 8, "'t'", "dtype 'F64'");
  expect_refused(entry("f32", "[1]", "[0,4]"), 4, "'t'", "dtype 'f32'");
  expect_refused(entry("U8", "[-3]", "[0,3]"), 3, "'t'", "negative number in its 'shape'");
  expect_refused(entry("U8", "[3.0]", "[0,3]"), 3, "'t'", "'shape'");
  expect_refused(entry("U8", "[1e400]", "[0,3]"), 3, "", "bad.safetensors");
  expect_refused(entry("U8", "[99999999999999999999]", "[0,3]"), 3, "'t'", "too large a number");
  expect_refused(entry("U8", "[9223372036854775808]", "[0,3]"), 3, "'t'", "dimension");
  expect_refused(entry("F32", "[4294967296,4294967296]", "[0,0]"), 0, "'t'", "too large");
  expect_refused(entry("F32", "[4611686018427387904]", "[0,0]"), 0, "'t'", "too large");
  expect_refused(entry("F32", "[2]", "[0,4]"), 4, "'t'", "4 bytes where its shape and dtype need 8");
  expect_refused(entry("U8", "[3]", "[0]"), 3, "'t'", "data_offsets");
  expect_refused(entry("U8", "[3]", "[0,3,3]"), 3, "'t'", "more than two");
  expect_refused(entry("U8", "[3]", "[3,0]"), 3, "'t'", "[begin, end]");
  expect_refused(entry("U8", "[3]", "[-1,2]"), 3, "'t'", "negative");
  expect_refused(entry("U8", "[4]", "[0,4]"), 3, "'t'", "beyond the end");
  expect_refused(entry("U8", "[3]", "[1,4]"), 4, "'t'", "hole");
  expect_refused(entry("U8", "[3]", "[0,3]"), 5, "2 bytes", "no tensor");
  expect_refused(entry("U8", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,1]"), 1, "'t'",
                 "more than 32 dimensions");
}

TEST(SafeTensors, RefusesTensorsThatCollide) {
  const auto two = [](std::string_view a, std::string_view b, int begin, int end) {
    return fmt::format(
        R"({{"{}":{{"dtype":"U8","shape":[4],"data_offsets":[0,4]}},"{}":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}}}})",
        a, b, end - begin, begin, end);
  };
  expect_refused(two("a", "b", 2, 6), 6, "'b'", "overlaps");
  expect_refused(two("a", "b", 0, 4), 4, "'b'", "overlaps");
  expect_refused(two("a", "b", 5, 6), 6, "'b'", "hole");
  expect_refused(two("a", "a", 4, 6), 6, "'a'", "twice");
}

TEST(SafeTensors, RefusesBadMetadata) {
  expect_refused(R"({"__metadata__":{"a":1}})", 0, "__metadata__", "a number in its 'a'");
  expect_refused(R"({"__metadata__":{"a":["b"]}})", 0, "__metadata__", "a list");
  expect_refused(R"({"__metadata__":{"a":"b","a":"c"}})", 0, "__metadata__", "'a' twice");
  expect_refused(R"({"__metadata__":{},"__metadata__":{}})", 0, "__metadata__", "twice");
  expect_refused(R"({"__metadata__":"x"})", 0, "__metadata__", "a string");
}

TEST(SafeTensors, ANameOutOfTheFileKeepsTheMessageOnOneLine) {
  expect_refused(R"({"line\nbreak":{}})", 0, "line\\x0abreak", "lacks");
}

}  // namespace
}  // namespace neap
