#include "core/log_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/file_testing.h"

namespace neap {
namespace {

using testing::contents;
using testing::TempDir;

TEST(LogFile, IsThereWhileItGrowsAndGetsItsNameAtTheEnd) {
  const TempDir folder;
  folder.file("run", "older\n");
  {
    LogFile log(folder / "run");
    EXPECT_FALSE(std::filesystem::exists(folder / "run.part")) << "nothing has been written";
    log.line("one\n");
    log.line("two\n");
    EXPECT_EQ(contents(folder / "run.part"), "one\ntwo\n");
    EXPECT_EQ(contents(folder / "run"), "older\n");
    log.finish();
    EXPECT_EQ(contents(folder / "run"), "one\ntwo\n");
    EXPECT_FALSE(std::filesystem::exists(folder / "run.part"));
  }
  EXPECT_EQ(contents(folder / "run"), "one\ntwo\n");
}

TEST(LogFile, WithoutALineChangesNothing) {
  const TempDir folder;
  folder.file("run", "older\n");
  { LogFile(folder / "run").finish(); }
  EXPECT_EQ(contents(folder / "run"), "older\n");
}

TEST(LogFile, WithoutItsEndLeavesItsLinesBesideTheOlderOnes) {
  const TempDir folder;
  folder.file("run", "older\n");
  { LogFile(folder / "run").line("one\n"); }
  EXPECT_EQ(contents(folder / "run"), "older\n");
  EXPECT_EQ(contents(folder / "run.part"), "one\n");
  LogFile next(folder / "run");
  next.line("two\n");
  next.finish();
  EXPECT_EQ(contents(folder / "run"), "two\n");
  EXPECT_FALSE(std::filesystem::exists(folder / "run.part"));
}

TEST(LogFile, ADraftGivesWayToTheNextLine) {
  const TempDir folder;
  LogFile log(folder / "run");
  log.line("one\n");
  log.draft("a long draft\n");
  EXPECT_EQ(contents(folder / "run.part"), "one\na long draft\n");
  log.line("end\n");
  EXPECT_EQ(contents(folder / "run.part"), "one\nend\n");
}

TEST(LogFile, OnAFullDiskKeepsWholeLines) {
  const TempDir folder;
  LogFile log(folder / "run");
  log.line("one\n");
  log.draft("draft\n");
  {
    const testing::FileSizeLimit full(32);
    testing::expect_user_error([&] { log.line(std::string(100, 'x') + "\n"); }, {"run"});
  }
  EXPECT_EQ(contents(folder / "run.part"), "one\ndraft\n");
}

TEST(LogFile, IsOfOneRunAtATime) {
  const TempDir folder;
  LogFile log(folder / "run");
  log.line("one\n");
  testing::expect_user_error([&] { LogFile(folder / "run"); }, {"run", "another run"});
  EXPECT_EQ(contents(folder / "run.part"), "one\n");
}

TEST(LogFile, FollowsLinks) {
  const TempDir folder;
  folder.file("target", "older\n");
  std::filesystem::create_symlink("target", folder / "link");
  LogFile log(folder / "link");
  log.line("one\n");
  log.finish();
  EXPECT_EQ(contents(folder / "target"), "one\n");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
}

TEST(LogFile, TakesNobodyElsesLinesForItsOwn) {
  const TempDir folder;
  LogFile log(folder / "run");
  log.line("one\n");
  std::filesystem::remove(folder / "run.part");
  folder.file("run.part", "of another\n");
  testing::expect_user_error([&] { log.finish(); }, {"run", "taken away"});
  EXPECT_EQ(contents(folder / "run.part"), "of another\n");
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

TEST(LogFile, SaysAtOnceThatItCannotBeWritten) {
  const TempDir folder;
  std::filesystem::create_directory(folder / "run.part");
  testing::expect_user_error([&] { LogFile(folder / "run"); }, {"run.part", "in the way"});
  testing::expect_user_error([&] { LogFile(folder / std::string(252, 'x')); }, {"cannot write"});
  testing::expect_user_error([] { LogFile("/no/such/folder/run"); }, {"/no/such/folder/run"});
}

}  // namespace
}  // namespace neap
