// What the report gathers, from good runs and from broken ones.
#include "report/record.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/file_testing.h"
#include "neap/error.h"
#include "report/page.h"

namespace neap {
namespace {

std::string step_line(int step, double loss = 1, const std::string& more = "") {
  return fmt::format(R"({{"step":{},"loss":{},"step_ms":2,"peak_bytes":100,"budget_bytes":200,"plan_id":1{}}})", step,
                     loss, more) +
         "\n";
}

// The JSON that a page carries.
Json data_of(const std::string& page) {
  const std::string open = R"(<script type="application/json" id="run">)";
  const std::size_t begin = page.find(open) + open.size();
  return Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST(RunRecord, GathersStepsBudgetsPlansAndTheSummary) {
  RunRecord run;
  run.add_lines(step_line(1, 3, R"(,"plan":{"peak_bytes":100})") + step_line(2, 2) +
                    R"({"step":3,"loss":1,"peak_bytes":50,"budget_bytes":60,"plan_id":2,"plan":{"peak_bytes":50}})" +
                    "\n{\"eval\":true,\"step\":3,\"loss\":0.5}\n{\"summary\":true,\"model\":\"mlp\"}\n",
                "run.jsonl");
  const Json j = run.to_json();
  EXPECT_EQ(j["problem"], "");
  EXPECT_EQ(j["points"]["loss"], Json::array({3.0, 2.0, 1.0}));
  EXPECT_EQ(j["points"]["budget_bytes"], Json::array({200, 200, 60}));
  EXPECT_EQ(j["plans"].size(), 2U);
  EXPECT_EQ(j["summary"]["model"], "mlp");
  EXPECT_EQ(j["evals"][0]["loss"], 0.5);
  ASSERT_EQ(j["changes"].size(), 2U);
  EXPECT_EQ(j["changes"][0]["kind"], "budget");
  EXPECT_EQ(j["changes"][1]["what"], "plan 2: peak 50 B");
}

TEST(RunRecord, ShowsWhatCanBeReadOfADamagedRun) {
  RunRecord run;
  run.add_lines(
      step_line(1) + "\x01garbage\n[1,2]\n{\"loss\":\"x\",\"step\":null}\n" + step_line(2) + "{\"step\":3,\"lo",
      "run.jsonl");
  const Json j = run.to_json();
  EXPECT_EQ(j["points"]["step"], Json::array({1, 2}));
  const std::string problem = j["problem"];
  EXPECT_NE(problem.find("4 of the run's lines could not be read (the first is line 2)"), std::string::npos) << problem;
  EXPECT_NE(problem.find("did not end"), std::string::npos) << problem;
}

TEST(RunRecord, LeavesOutLinesThatAreNestedTooDeeply) {
  const std::string deep = R"(,"x":)" + std::string(100'000, '[') + std::string(100'000, ']');
  RunRecord run;
  run.add_lines(step_line(1) + "{\"summary\":true" + deep + "}\n" + step_line(2, 1, R"(,"plan":{"a":0)" + deep + "}") +
                    "{\"eval\":true" + deep + "}\n" + step_line(3),
                "run.jsonl");
  const Json j = run.to_json();
  EXPECT_EQ(j["points"]["step"], Json::array({1, 3}));
  EXPECT_TRUE(j["summary"].is_null());
  const std::string problem = j["problem"];
  EXPECT_NE(problem.find("3 of the run's lines could not be read (the first is line 2)"), std::string::npos) << problem;
}

TEST(RunRecord, FieldsOfAnotherTypeCountAsUnknown) {
  RunRecord run;
  run.add_lines(R"({"step":1,"loss":null,"step_ms":"fast","peak_bytes":1e300,"budget_bytes":[],"plan":7,"note":1})",
                "x");
  const Json points = run.to_json()["points"];
  EXPECT_TRUE(points["loss"][0].is_null());
  EXPECT_TRUE(points["step_ms"][0].is_null());
  EXPECT_EQ(points["peak_bytes"][0], 0);
  EXPECT_TRUE(points["budget_bytes"][0].is_null());
}

TEST(RunRecord, SaysWhenTheFirstStepsAreMissing) {
  const std::string summary = "{\"summary\":true,\"accumulate\":";
  const auto problem = [&](const std::string& lines, int parts = 1) {
    RunRecord run;
    run.add_lines(lines + summary + std::to_string(parts) + "}\n", "run.jsonl");
    return run.problem();
  };
  const std::string missing = "The run's first steps are missing: the first that is here is step 7.";
  const auto first = [](int plan) {
    return fmt::format(R"({{"step":7,"loss":1,"plan_id":{},"plan":{{"peak_bytes":100}}}})", plan) + "\n";
  };
  EXPECT_EQ(problem(step_line(7) + step_line(8)), missing);
  EXPECT_EQ(problem(first(2)), missing) << "with the line of a later plan";
  EXPECT_EQ(problem(first(1)), "") << "a run that was resumed";
  EXPECT_EQ(problem(first(2), 4), "") << "one of which each step has several";
  EXPECT_EQ(problem(step_line(1)), "");
}

TEST(RunRecord, RefusesRowsOfCompare) {
  const std::string row = R"({"summary":true,"model":"mlp","asked_budget":"50%","policy":"adaptive"})";
  RunRecord rows;
  testing::expect_user_error([&] { rows.add_lines(row + "\n" + row + "\n", "rows.jsonl"); },
                             {"rows.jsonl", "rows of neap compare", "neap train --json"});
  RunRecord run;
  run.add_lines(step_line(1) + row + "\n", "run.jsonl");
  EXPECT_TRUE(run.to_json()["summary"].is_null());
  EXPECT_NE(run.problem().find("the first is line 2"), std::string::npos) << run.problem();
}

TEST(RunRecord, RefusesWhatIsNoRun) {
  for (const char* text : {"", "\n\n", "PK\x03\x04", "{\"layers\":[]}"}) {
    RunRecord run;
    EXPECT_THROW(run.add_lines(text, "x"), UserError) << text;
  }
}

TEST(RunRecord, IsBoundedAndKeepsExtremes) {
  constexpr int kSteps = 100'000;
  RunRecord run;
  for (int i = 1; i <= kSteps; ++i) {
    run.add({{"step", i}, {"loss", 2}, {"peak_bytes", i == 777 ? 999 : 1}, {"budget_bytes", nullptr}});
  }
  const Json j = run.to_json();
  EXPECT_LE(j["points"]["step"].size(), 2048U);
  EXPECT_GE(j["points"]["step"].size(), 1024U);
  EXPECT_EQ(j["points"]["step"].back(), kSteps);
  std::int64_t steps = 0;
  std::int64_t peak = 0;
  for (const Json& count : j["points"]["count"]) steps += count.get<std::int64_t>();
  for (const Json& bytes : j["points"]["peak_bytes"]) peak = std::max(peak, bytes.get<std::int64_t>());
  EXPECT_EQ(steps, kSteps);
  EXPECT_EQ(peak, 999);
}

// The page says how many it does not show.
TEST(RunRecord, CountsPlansAndChangesThatHaveNoRoom) {
  constexpr int kPlans = 700;
  RunRecord run;
  for (int i = 1; i <= kPlans; ++i) {
    run.add({{"step", i}, {"loss", 2}, {"plan_id", i}, {"plan", {{"peak_bytes", i}}}});
    run.add({{"eval", true}, {"step", i}, {"loss", 1}});
  }
  const Json j = run.to_json();
  EXPECT_EQ(j["plans_seen"], kPlans);
  EXPECT_LT(j["plans"].size(), 100U);
  EXPECT_EQ(j["plans"].front()["id"], 1);
  EXPECT_EQ(j["plans"].back()["id"], kPlans);
  EXPECT_EQ(j["changes_seen"], kPlans - 1);
  EXPECT_LT(j["changes"].size(), 600U);
  EXPECT_EQ(j["evals_seen"], kPlans);
}

TEST(ReportPage, IsOneFileAndHoldsTheRunWhateverItsNamesAre) {
  RunRecord run;
  run.add(Json::parse(step_line(1)));
  run.add({{"summary", true}, {"model", "</script><script>alert(1)</script><!--\xff"}});
  const std::string page = report_page(run);
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  EXPECT_EQ(data_of(page)["points"]["step"], Json::array({1}));
  EXPECT_NE(page.find("Chart.js v3"), std::string::npos);
  for (const char* outside : {"src=\"", "<link", "@import", "url(http"}) {
    EXPECT_EQ(page.find(outside), std::string::npos) << outside << ": it needs nothing else";
  }
  EXPECT_EQ(page.find("/*data*/"), std::string::npos);
  EXPECT_TRUE(page.ends_with("</html>\n"));
}

}  // namespace
}  // namespace neap
