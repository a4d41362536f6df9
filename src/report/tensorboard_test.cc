// The bytes of TensorBoard's event files.
#include "report/tensorboard.h"

#include <gtest/gtest.h>

#include "neap/error.h"
#include "report/crc32c.h"

namespace neap {
namespace {

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    static constexpr char kDigits[] = "0123456789abcdef";
    out += kDigits[static_cast<unsigned char>(c) >> 4];
    out += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

TEST(Crc32c, AgreesWithTheStandardsExamples) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43U);
}

TEST(TensorBoard, EventsAreProtocolBuffers) {
  // wall_time 1.0 (field 1, fixed64), step 300 (field 2, varint), summary (5) { value (1) { tag (1) "l", simple_value
  // (2) 0.5 } }
  EXPECT_EQ(hex(event_bytes(1.0, 300, {{"l", 0.5}})), "09000000000000f03f10ac022a0a0a080a016c150000003f");
  EXPECT_EQ(hex(version_event_bytes(1.0)), "09000000000000f03f1a0d627261696e2e4576656e743a32");
}

// The whole record, as TensorFlow's own writer makes it of the same event.
TEST(TensorBoard, RecordsCarryMaskedChecksums) {
  const std::string record = record_bytes(version_event_bytes(1.0));
  EXPECT_EQ(hex(record.substr(0, 8)), "1800000000000000");
  EXPECT_EQ(record.size(), 8 + 4 + 24 + 4U);
  const auto masked = [](std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U; };
  const auto stored = [&](std::size_t at) {
    std::uint32_t out = 0;
    for (int i = 3; i >= 0; --i) out = out << 8 | static_cast<unsigned char>(record[at + static_cast<std::size_t>(i)]);
    return out;
  };
  EXPECT_EQ(stored(8), masked(crc32c(record.substr(0, 8))));
  EXPECT_EQ(stored(36), masked(crc32c(record.substr(12, 24))));
}

TEST(TensorBoard, AFolderThatCannotBeMadeIsAUserError) { EXPECT_THROW(EventWriter("/dev/null/events"), UserError); }

}  // namespace
}  // namespace neap
