#include "core/file.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

#include "core/file_testing.h"

namespace neap {
namespace {

using testing::contents;
using testing::expect_user_error;
using testing::FileSizeLimit;
using testing::TempDir;

std::string text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::size_t entries(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

// Without root's right to write anywhere.
class Unprivileged {
 public:
  Unprivileged() {
    if (::geteuid() == 0) root_ = ::seteuid(65534) == 0;
  }
  ~Unprivileged() {
    if (root_) {
      EXPECT_EQ(::seteuid(0), 0);
    }
  }

 private:
  bool root_ = false;
};

TEST(MappedFile, HoldsTheBytes) {
  const TempDir dir;
  const MappedFile file(dir.file("a", "hello"));
  EXPECT_EQ(file.size(), 5U);
  EXPECT_EQ(text(file.bytes()), "hello");
  EXPECT_EQ(file.path(), dir / "a");
}

TEST(MappedFile, AnEmptyFileHasNoBytes) {
  const TempDir dir;
  EXPECT_TRUE(MappedFile(dir.file("a", "")).bytes().empty());
}

TEST(MappedFile, Moves) {
  const TempDir dir;
  MappedFile a(dir.file("a", "first"));
  MappedFile b(dir.file("b", "second"));
  a = std::move(b);
  const MappedFile c(std::move(a));
  EXPECT_EQ(text(c.bytes()), "second");
  EXPECT_TRUE(a.bytes().empty());  // NOLINT(bugprone-use-after-move): a moved-from mapping is empty
}

TEST(MappedFile, RefusesWhatIsNoFile) {
  const TempDir dir;
  expect_user_error([&] { MappedFile(dir / "absent"); }, {"absent", "No such file"});
  expect_user_error([&] { MappedFile{dir.path()}; }, {dir.path().string(), "folder"});
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  expect_user_error([&] { MappedFile(dir / "pipe"); }, {"pipe", "regular"});
}

class AtomicFileTest : public ::testing::TestWithParam<AtomicFile::Temporary> {};

TEST_P(AtomicFileTest, WritesAllWithMode0644) {
  const TempDir dir;
  const mode_t before = ::umask(0077);
  AtomicFile file(dir / "out", GetParam());
  ::umask(before);
  const std::string large(1 << 20, 'x');
  file.write("head");
  file.write(large);
  file.write("tail");
  EXPECT_FALSE(std::filesystem::exists(dir / "out"));
  file.commit();
  EXPECT_EQ(contents(dir / "out"), "head" + large + "tail");
  struct stat info {};
  ASSERT_EQ(::stat((dir / "out").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0644U);
  EXPECT_EQ(entries(dir.path()), 1U);
}

TEST_P(AtomicFileTest, AnExceptionLeavesTheOldFileAlone) {
  const TempDir dir;
  dir.file("out", "old");
  try {
    AtomicFile file(dir / "out", GetParam());
    file.write("new");
    throw std::runtime_error("midway");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(contents(dir / "out"), "old");
  EXPECT_EQ(entries(dir.path()), 1U);
}

TEST_P(AtomicFileTest, ReplacesTheOldFile) {
  const TempDir dir;
  dir.file("out", "old and longer");
  AtomicFile file(dir / "out", GetParam());
  file.write("new");
  file.commit();
  EXPECT_EQ(contents(dir / "out"), "new");
  EXPECT_EQ(entries(dir.path()), 1U);
}

TEST_P(AtomicFileTest, AFullDiskLeavesTheOldFileAlone) {
  const TempDir dir;
  dir.file("out", "old");
  {
    const FileSizeLimit limit(64 << 10);
    AtomicFile file(dir / "out", GetParam());
    expect_user_error([&] { file.write(std::string(1 << 20, 'x')); }, {(dir / "out").string(), "largest size"});
    EXPECT_THROW(file.commit(), InternalError);
  }
  EXPECT_EQ(contents(dir / "out"), "old");
  EXPECT_EQ(entries(dir.path()), 1U);
}

TEST_P(AtomicFileTest, AFullDiskIsNoticedInTheLastBufferToo) {
  const TempDir dir;
  {
    const FileSizeLimit limit(1000);
    AtomicFile file(dir / "out", GetParam());
    file.write(std::string(2000, 'x'));
    expect_user_error([&] { file.commit(); }, {(dir / "out").string(), "largest size"});
  }
  EXPECT_EQ(entries(dir.path()), 0U);
}

TEST_P(AtomicFileTest, AnUnwritableFolderIsNamed) {
  const TempDir dir;
  std::filesystem::permissions(dir.path(), std::filesystem::perms(0555));
  {
    const Unprivileged user;
    expect_user_error([&] { AtomicFile(dir / "out", GetParam()); }, {(dir / "out").string(), "Permission denied"});
  }
  std::filesystem::permissions(dir.path(), std::filesystem::perms(0755));
  EXPECT_EQ(entries(dir.path()), 0U);
}

INSTANTIATE_TEST_SUITE_P(Both, AtomicFileTest,
                         ::testing::Values(AtomicFile::Temporary::kUnnamed, AtomicFile::Temporary::kNamed));

TEST(AtomicFile, RefusesWhatItMustNotReplace) {
  const TempDir dir;
  expect_user_error([&] { AtomicFile(dir.path()); }, {dir.path().string(), "folder"});
  expect_user_error([&] { AtomicFile(dir / ""); }, {"folder"});
  expect_user_error([&] { AtomicFile(""); }, {"cannot write ''"});
  expect_user_error([&] { AtomicFile(dir / "absent" / "out"); }, {"absent/out", "No such file"});
  dir.file("plain", "x");
  expect_user_error([&] { AtomicFile(dir / "plain" / "out"); }, {"plain/out", "Not a directory"});
  expect_user_error([&] { AtomicFile("/dev/null"); }, {"/dev/null", "not a regular file"});
  std::filesystem::create_symlink("loop", dir / "loop");
  expect_user_error([&] { AtomicFile(dir / "loop"); }, {"loop"});
}

TEST(AtomicFile, AReadOnlyFileIsNotReplaced) {
  const TempDir dir;
  dir.file("out", "old");
  std::filesystem::permissions(dir.path(), std::filesystem::perms(0777));
  std::filesystem::permissions(dir / "out", std::filesystem::perms(0444));
  const Unprivileged user;
  expect_user_error([&] { write_file(dir / "out", "new"); }, {"out", "Permission denied"});
  EXPECT_EQ(contents(dir / "out"), "old");
}

TEST(AtomicFile, FollowsSymbolicLinks) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "far");
  dir.file("far/real", "old");
  std::filesystem::create_symlink("far/real", dir / "link");
  write_file(dir / "link", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "link"));
  EXPECT_EQ(contents(dir / "far/real"), "new");
}

TEST(AtomicFile, AKilledWriterLeavesNothing) {
  const TempDir dir;
  dir.file("out", "old");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    AtomicFile file(dir / "out");
    file.write(std::string(1 << 20, 'x'));
    ::kill(::getpid(), SIGKILL);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(contents(dir / "out"), "old");
  EXPECT_EQ(entries(dir.path()), 1U);
}

TEST(Printable, IsOneShortLine) {
  EXPECT_EQ(printable("layer.0/weight"), "layer.0/weight");
  EXPECT_EQ(printable("a\nb\x7f\0"), "a\\x0ab\\x7f");
  EXPECT_EQ(printable(std::string(100, 'x')), std::string(80, 'x') + "...");
  EXPECT_EQ(printable(std::string(79, 'x') + "\xc3\xa4"), std::string(79, 'x') + "...");
  EXPECT_EQ(printable(std::string(78, 'x') + "\xc3\xa4"), std::string(78, 'x') + "\xc3\xa4");
}

}  // namespace
}  // namespace neap
