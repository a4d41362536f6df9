// Sockets that killed runs have left: the next run, or `neap budget`, removes them, and nothing else.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>

#include "tests/program.h"

namespace neap {
namespace {

constexpr const char* kNobody = "neap-999999999.sock";  // no process has such a number

// Bound, and gone with the object; its file stays, as after kill -9.
class Socket {
 public:
  explicit Socket(const std::string& path, bool listens = false) : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0) << std::strerror(errno);
    EXPECT_TRUE(!listens || listen(fd_, 4) == 0);
  }
  ~Socket() { close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

 private:
  int fd_;
};

std::string own_name() { return "neap-" + std::to_string(getpid()) + ".sock"; }

class DeadSockets : public ::testing::Test {
 protected:
  Outcome run(const std::string& arguments) {
    return run_neap(arguments, "export XDG_RUNTIME_DIR=" + (folder_ / "") + ";");
  }
  std::set<std::string> left() const {
    const auto files = folder_.files();
    return {files.begin(), files.end()};
  }

  ScratchFolder folder_;
};

TEST_F(DeadSockets, OfAKilledRunGoWithTheNext) {
  const std::string wait = "until ls " + (folder_ / "*.sock") + "; do sleep 0.05; kill -0 $pid || exit 1; done\n";
  run("train mlp --steps 1000000 --json /dev/null & pid=$!\n{ " + wait + "} >&2\nkill -9 $pid; wait $pid");
  ASSERT_EQ(left().size(), 1U);
  const Outcome next = run("train mlp --steps 1");
  EXPECT_EQ(next.status, 0) << next.err;
  EXPECT_TRUE(left().empty());
}

TEST_F(DeadSockets, GoWhenABudgetIsSent) {
  { const Socket dead(folder_ / kNobody); }
  EXPECT_EQ(run("budget 999999998 1GiB").status, 2);
  EXPECT_TRUE(left().empty());
}

// A number may have come to another process since.
TEST_F(DeadSockets, GoThoughAnotherProcessHasTheirNumberUnlessTheyAreYoung) {
  const std::string path = folder_ / own_name();
  { const Socket dead(path); }
  run("train mlp --steps 1");
  EXPECT_EQ(left(), std::set{own_name()}) << "it may be about to listen";
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - std::chrono::minutes(5));
  run("train mlp --steps 1");
  EXPECT_TRUE(left().empty());
}

TEST_F(DeadSockets, AreAllThatGoes) {
  const Socket alive(folder_ / kNobody, true);  // of a run in another container
  { const Socket other(folder_ / "neap-12x.sock"); }
  { const Socket other(folder_ / "other-999999999.sock"); }
  write_text(folder_ / "neap-999999998.sock", "no socket");
  std::filesystem::create_symlink(folder_ / "other-999999999.sock", folder_ / "neap-999999997.sock");
  const auto before = left();
  EXPECT_EQ(run("train mlp --steps 1").status, 0);
  EXPECT_EQ(left(), before);
}

}  // namespace
}  // namespace neap
