#include "policy/lifetime/recording.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "neap/error.h"
#include "policy/lifetime/lifetime_testing.h"

namespace neap {
namespace {

class RecordingFile : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  std::string error_of(const std::string& text) {
    write_file(path_, text);
    try {
      read_recording(path_);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() /
      (std::string("neap_") + testing::UnitTest::GetInstance()->current_test_info()->name() + ".jsonl");
};

constexpr const char* kHead = "{\"neap_lifetimes\":1,\"model\":\"m\"}\n";

TEST_F(RecordingFile, ComesBackAsItWas) {
  const Recording recording{.model = "lstm-lm:hidden=\"8\"", .steps = {recurrent_step(3), recurrent_step(9)}};
  write_recording(path_, recording);
  EXPECT_EQ(read_recording(path_), recording);
}

TEST_F(RecordingFile, LeavesNothingWithoutCommit) {
  {
    RecordingWriter writer(path_, "m");
    const RecordedStep step = recurrent_step(3);
    writer.add(step.events, step.lifespans);
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(RecordingFile, NamesLineAndFault) {
  const struct {
    std::string text;
    const char* says;
  } bad[] = {
      {"", "empty"},
      {"{}\n", ":1: this is no recording"},
      {"site,bytes\n", ":1: 'site,bytes' is no JSON object"},
      {"{\"neap_lifetimes\":2,\"model\":\"m\"}\n", ":1: version 2"},
      {kHead, "no steps"},
      {std::string(kHead) + "{\"length\":1,\"ticks\":3}\n", ":2: there is no list \"events\""},
      {std::string(kHead) + "{\"length\":1,\"ticks\":3,\"events\":[[1,2,3,0,64,0]]}\n", ":2: event 1 does not have 7"},
      {std::string(kHead) + "{\"length\":1,\"ticks\":3,\"events\":[[1,2,3,9,64,0,1]]}\n", "phase"},
      {std::string(kHead) + "{\"length\":1,\"ticks\":3,\"events\":[[1,2,3,0,-64,0,1]]}\n", "bytes"},
      {std::string(kHead) + "{\"length\":1,\"ticks\":3,\"events\":[[1,2,3,0,64,0,4]]}\n", "in a step of 3"},
      {std::string(kHead) + "{\"length\":1,\"ticks\":3,\"events\":[[1,2,3,0,64,1,1],[1,2,3,0,64,0,1]]}\n", "earlier"},
      {std::string(kHead) + "{\"length\":1,\"ticks\":3,\"events\":[[1,2,3,0,64,0,1", ":2: "},
  };
  for (const auto& [text, says] : bad) {
    const std::string error = error_of(text);
    EXPECT_NE(error.find(says), std::string::npos) << text << " -> " << error;
    EXPECT_NE(error.find(path_.string()), std::string::npos) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

TEST_F(RecordingFile, ThatIsMissingIsNamed) {
  EXPECT_THROW(read_recording("/nowhere/at/all.jsonl"), UserError);
  EXPECT_THROW(RecordingWriter("/nowhere/at/all.jsonl", "m"), UserError);
}

}  // namespace
}  // namespace neap
