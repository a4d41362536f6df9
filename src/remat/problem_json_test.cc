#include "remat/problem_json.h"

#include <gtest/gtest.h>

#include "neap/error.h"
#include "tests/remat/traces.h"

namespace neap::remat {
namespace {

constexpr const char* kGood = R"({"budget": 100, "inputs": [{"name": "x", "bytes": 10}],
  "ops": [{"name": "a", "ms": 1.5, "inputs": ["x", "x"], "outputs": [{"name": "y", "bytes": 2e1}], "workspace": 3},
          {"name": "b", "ms": 0, "inputs": ["y"], "recompute": false}], "keep": ["y", "y"], "note": "ignored"})";

std::string replaced(const std::string& from, const std::string& to) {
  std::string text = kGood;
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

void expect_refused(const std::string& text, const std::string& names) {
  try {
    parse_problem(text, "p.json");
    ADD_FAILURE() << "accepted: " << text.substr(0, 200);
  } catch (const UserError& e) {
    const std::string what = e.what();
    EXPECT_TRUE(what.starts_with("p.json: ")) << what;
    EXPECT_NE(what.find(names), std::string::npos) << what;
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    EXPECT_LT(what.size(), 300U);
  }
}

TEST(ProblemJson, Reads) {
  const Problem p = parse_problem(kGood, "p.json");
  EXPECT_EQ(p.budget, 100);
  EXPECT_EQ(p.tensors, (std::vector<Tensor>{{"x", 10, kNoOp}, {"y", 20, 0}}));
  EXPECT_EQ(p.ops, (std::vector<Op>{{"a", 1.5, {0}, {1}, 3, true}, {"b", 0, {1}, {}, 0, false}}));
  EXPECT_EQ(p.keep, (std::vector<TensorIndex>{1}));
}

TEST(ProblemJson, ThereAndBack) {
  for (const std::string& name : trace_names()) {
    Problem p = make_trace(name, 0.1);
    p.budget = (std::int64_t{1} << 60) + 1;  // beyond what a double holds
    const Problem again = parse_problem(to_json_text(p), "p.json");
    EXPECT_EQ(again.budget, p.budget);
    EXPECT_TRUE(to_json_text(again) == to_json_text(p)) << name;  // too long to print
  }
}

TEST(ProblemJson, RefusesWhatIsNoProblem) {
  expect_refused("", "no JSON");
  expect_refused("[1, 2", "no JSON");
  expect_refused("[]", "no JSON object");
  expect_refused("null", "no JSON object");
  expect_refused(std::string(1'000'000, '['), "nested");
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  expect_refused("{\"budget\": " + deep + "}", "nested over 100 levels");
  expect_refused(replaced("\"ignored\"", deep), "nested");
  expect_refused(replaced("\"keep\"", "\"k\": " + deep + ", \"keep\""), "nested");
  expect_refused("\xff\xfe", "no JSON");
  expect_refused(replaced("\"budget\": 100, ", ""), "no 'budget'");
  expect_refused(replaced("100", "NaN"), "no JSON");
  expect_refused(replaced("100", "-1"), "negative");
  expect_refused(replaced("100", "1e300"), "2^62");
  expect_refused(replaced("100", "1e400"), "out of range");
  expect_refused(replaced("100", "18446744073709551615"), "2^62");
  expect_refused(replaced("100", "1.5"), "no whole number");
  expect_refused(replaced("100", "\"100\""), "no number");
}

TEST(ProblemJson, RefusesBadOps) {
  expect_refused(replaced("\"ops\"", "\"opps\""), "no 'ops'");
  expect_refused(replaced("\"name\": \"a\"", "\"nam\": \"a\""), "op 0 has no 'name'");
  expect_refused(replaced("\"name\": \"b\"", "\"name\": \"a\""), "op 'a' is there twice");
  expect_refused(replaced("\"name\": \"a\"", "\"name\": \"\""), "no name");
  expect_refused(replaced("\"ms\": 1.5, ", ""), "op 'a' has no 'ms'");
  expect_refused(replaced("1.5", "-1.5"), "no time");
  expect_refused(replaced("1.5", "1e308"), "no time");
  expect_refused(replaced("1.5", "\"1\""), "no number");
  expect_refused(replaced("3}", "-3}"), "'workspace' of op 'a' is negative");
  expect_refused(replaced("false", "0"), "neither true nor false");
  expect_refused(replaced("[\"y\"], \"rec", "[\"q\"], \"rec"), "names 'q', which nothing makes");
  expect_refused(replaced("[\"x\", \"x\"]", "[\"y\"]"), "before it is made");
  expect_refused(replaced("[\"x\", \"x\"]", "{\"x\": 1}"), "no list");
  expect_refused(replaced("[\"x\", \"x\"]", "[1]"), "no name");
  expect_refused(replaced("{\"name\": \"b\", ", "7, {\"name\": \"b\", "), "no object");
}

TEST(ProblemJson, RefusesBadTensors) {
  expect_refused(replaced("\"name\": \"y\"", "\"name\": \"x\""), "tensor 'x' is there twice");
  expect_refused(replaced("2e1", "-20"), "negative");
  expect_refused(replaced("2e1", "4611686018427387904"), "2^62");
  expect_refused(replaced("2e1", "null"), "no number");
  expect_refused(replaced("\"bytes\": 10", "\"byte\": 10"), "tensor 'x' has no 'bytes'");
  expect_refused(replaced("[\"y\", \"y\"]", "[\"z\"]"), "'keep' names 'z'");
  expect_refused(replaced("[\"y\", \"y\"]", "\"y\""), "no list");
  expect_refused(replaced("\"name\": \"y\"", "\"name\": \"" + std::string(5000, 'n') + "\""), "which nothing makes");
  expect_refused(replaced("[\"y\", \"y\"]", "[\"a\\nb\"]"), "'keep' names");
}

}  // namespace
}  // namespace neap::remat
