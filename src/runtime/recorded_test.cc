// Steps by a device's log of activities: a CPU that says it ran a kernel of 8 ns for each tag, one every 10 ns.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "device/activity.h"
#include "runtime/executor.h"
#include "runtime/tracer.h"

namespace neap {
namespace {

class FakeLog final : public ActivityLog {
 public:
  void start() override { noted_.clear(); }
  void tag(std::uint32_t tag) override {
    if (tag == Activity::kNoTag) return;
    const auto at = static_cast<std::int64_t>(noted_.size() + 1) * 10;
    noted_.push_back({.tag = tag, .stream = 7, .begun_ns = at, .ended_ns = at + 8, .name = "_ZN4neap4workEv"});
  }
  std::vector<Activity> stop() override {
    // Beside all of them, a copy that nobody has asked for.
    noted_.push_back({.kind = ActivityKind::kCopyOut, .stream = 9, .begun_ns = 12, .ended_ns = 40, .bytes = 5});
    return noted_;
  }

 private:
  std::vector<Activity> noted_;
};

class LoggedDevice final : public Device {
 public:
  DeviceKind kind() const override { return inner_->kind(); }
  std::string numerics() const override { return inner_->numerics(); }
  std::unique_ptr<Arena> make_arena(std::int64_t capacity, bool guard) override {
    return inner_->make_arena(capacity, guard);
  }
  std::unique_ptr<Arena> arena_in(std::span<std::byte> memory) override { return inner_->arena_in(memory); }
  Stream& stream() override { return inner_->stream(); }
  void write(std::byte* dst, const void* src, std::int64_t bytes) override { inner_->write(dst, src, bytes); }
  void read(void* dst, const std::byte* src, std::int64_t bytes) override { inner_->read(dst, src, bytes); }
  void synchronise() override { inner_->synchronise(); }
  ActivityLog* activities(std::string& why) override {
    if (!has_log) why = "there is no log";
    return has_log ? &log_ : nullptr;
  }
  bool has_log = true;

 private:
  std::unique_ptr<Device> inner_ = make_cpu_device(1);
  FakeLog log_;
};

Graph two_calls() {
  Builder g(Mode::kTraining);
  const Value x = g.input("x", DType::kF32, {4});
  g.output("y", g("gelu", {g("gelu", {x}, {}, "first")}, {}, "second"));
  return g.take();
}

class RecordedTest : public testing::Test {
 protected:
  LoggedDevice device_;
  Program program_ = prepare(two_calls(), device_);
  Plan plan_ = std::get<Plan>(make_plan(program_.graph, program_.costs, store_all(program_.graph)));
  std::unique_ptr<Arena> arena_ = device_.make_arena(plan_.peak_bytes, false);
  Executor executor_{program_, plan_, device_, *arena_};
};

#ifndef NEAP_CHECKED  // checks look at every access: such steps run one instruction at a time

TEST_F(RecordedTest, TimesAreThoseOfTheLog) {
  EXPECT_EQ(executor_.record(), "");
  executor_.run();
  ASSERT_EQ(executor_.times().size(), 2U);
  EXPECT_EQ(executor_.times()[0].begun_ns, 10);
  EXPECT_EQ(executor_.times()[0].ended_ns, 18);
  EXPECT_EQ(executor_.times()[1].begun_ns, 20);
  EXPECT_EQ(executor_.activities().size(), 3U);
}

TEST_F(RecordedTest, SamplesGiveWhatKernelsTook) {
  std::vector<double> ms;
  EXPECT_EQ(executor_.run_sampled(ms), "");
  ASSERT_EQ(ms.size(), 2U);
  EXPECT_DOUBLE_EQ(ms[0], 8e-6);
  EXPECT_TRUE(executor_.times().empty()) << "steps behind it are not recorded";
}

TEST_F(RecordedTest, ATraceShowsKernelsAndCopiesSideBySide) {
  Tracer tracer;
  EXPECT_EQ(tracer.before(executor_), "");
  executor_.run();
  tracer.after(executor_, 1);
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "neap-recorded-trace.json";
  tracer.write(path);
  std::ifstream in(path);
  const auto events = nlohmann::json::parse(in)["traceEvents"];
  std::filesystem::remove(path);
  std::vector<nlohmann::json> kernels;
  int copies = 0;
  int calls = 0;
  for (const auto& e : events) {
    if (e["ph"] != "X") continue;
    if (e["cat"] == "kernel") kernels.push_back(e);
    copies += e["cat"] == "copy" ? 1 : 0;
    calls += e["cat"] == "forward" ? 1 : 0;
    if (e["cat"] == "step") {
      EXPECT_NEAR(e["args"]["overlap_ms"].get<double>(), 14e-6, 1e-3);
    }
  }
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_EQ(kernels[0]["name"], "neap::work");
  EXPECT_EQ(kernels[0]["args"]["call"], "first");
  EXPECT_EQ(copies, 1);
  EXPECT_EQ(calls, 2);
}

#endif

TEST_F(RecordedTest, WithoutALogItSaysWhyAndRunsOneByOne) {
  device_.has_log = false;
#ifndef NEAP_CHECKED
  EXPECT_EQ(executor_.record(), "there is no log");
#else
  executor_.record();
#endif
  executor_.run();
  EXPECT_TRUE(executor_.activities().empty());
  EXPECT_GT(executor_.times()[1].ended_ns, executor_.times()[0].begun_ns);
}

}  // namespace
}  // namespace neap
