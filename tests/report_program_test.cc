// What a run leaves for people, through the program: --report, neap report, --tensorboard, --decisions and --replay,
// neap fit, what neap plan says, and what is sent to a run's socket. Without a browser: tests/report/ has one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "cli/control.h"
#include "tests/json_lines.h"
#include "tests/program.h"

namespace neap {
namespace {

constexpr const char* kRun = "train gpt-mini:layers=3,width=32,heads=2,vocab=64 --length 32 --batch 4 ";

std::vector<Json> trained(const std::string& flags) {
  const Outcome o = run_neap(kRun + ("--json - " + flags));
  EXPECT_EQ(o.status, 0) << flags << "\n" << o.err;
  return lines_of(o.out);
}

// The run inside of a page.
Json run_of(const std::string& page) {
  const std::string open = R"(<script type="application/json" id="run">)";
  const std::size_t begin = page.find(open) + open.size();
  return Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST(Report, ShowsMemoryLayersChangesAndTheOracle) {
  const ScratchFolder folder;
  const auto lines =
      trained("--steps 12 --budget-schedule 1:80%,6:50% --synchronous-planning --report " + (folder / "run.html"));
  const Json run = run_of(read_file(folder / "run.html"));
  EXPECT_EQ(run["problem"], "");
  EXPECT_EQ(run["points"]["step"].size(), 12U);
  EXPECT_EQ(run["summary"]["weights_hash"], lines.back()["weights_hash"]);
  EXPECT_GT(run["summary"]["oracle_step_ms"], 0.0);
  const std::string advice = run["summary"]["advice"].dump();
  EXPECT_NE(advice.find("Below store-all"), std::string::npos) << advice;
  ASSERT_GE(run["plans"].size(), 2U);
  EXPECT_GT(run["points"]["predicted_ms"].back(), 0.0);
  bool has_budget = false;
  for (const Json& change : run["changes"]) has_budget |= change["kind"] == "budget" && change["step"] == 6;
  EXPECT_TRUE(has_budget);
  const Json& plan = run["plans"].back()["plan"];
  std::int64_t freed = 0;
  for (const Json& layer : plan["layers"]) freed += layer["freed_bytes"].get<std::int64_t>();
  EXPECT_GT(freed, 0);
  std::int64_t fullest = 0;
  const Json& kinds = plan["memory"]["kinds"];
  for (std::size_t i = 0; i < plan["memory"]["at"].size(); ++i) {
    std::int64_t sum = 0;
    for (const auto& kind : kinds.items()) sum += kind.value()[i].get<std::int64_t>();
    fullest = std::max(fullest, sum);
  }
  EXPECT_LE(fullest, plan["peak_bytes"]);
  EXPECT_GT(fullest, plan["peak_bytes"].get<std::int64_t>() * 9 / 10) << "kinds together are what is alive";
}

TEST(Report, OfAFileIsThatOfTheRunAndADamagedOneShowsWhatItCan) {
  const ScratchFolder folder;
  const Outcome o = run_neap(kRun + ("--steps 4 --json " + (folder / "run.jsonl")));
  ASSERT_EQ(o.status, 0) << o.err;
  ASSERT_EQ(run_neap("report " + (folder / "run.jsonl")).status, 0);
  EXPECT_EQ(run_of(read_file(folder / "run.html"))["points"]["step"].size(), 4U);
  const std::string text = read_file(folder / "run.jsonl");
  write_text(folder / "half.jsonl", text.substr(0, text.rfind("\n", text.size() - 2) - 20));
  const Outcome half = run_neap("report " + (folder / "half.jsonl") + " -o " + (folder / "page.html"));
  EXPECT_EQ(half.status, 0) << half.err;
  EXPECT_NE(half.err.find("did not end"), std::string::npos) << half.err;
  EXPECT_EQ(run_of(read_file(folder / "page.html"))["points"]["step"].size(), 3U);
  const Outcome none = run_neap("report /etc/passwd -o " + (folder / "none.html"));
  EXPECT_EQ(none.status, 2);
  EXPECT_NE(none.err.find("/etc/passwd"), std::string::npos) << none.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "none.html"));
}

TEST(Report, OfAFileThatIsNotAWholeRunSaysWhatIsWrong) {
  const ScratchFolder folder;
  ASSERT_EQ(run_neap(kRun + ("--steps 4 --json " + (folder / "run.jsonl"))).status, 0);
  const std::string text = read_file(folder / "run.jsonl");
  write_text(folder / "tail.jsonl", text.substr(text.find('\n') + 1));
  const Outcome tail = run_neap("report " + (folder / "tail.jsonl"));
  EXPECT_EQ(tail.status, 0) << tail.err;
  EXPECT_NE(tail.err.find("first steps are missing: the first that is here is step 2"), std::string::npos) << tail.err;
  EXPECT_NE(run_of(read_file(folder / "tail.html"))["problem"].dump().find("first steps are missing"),
            std::string::npos);
  const std::string rows = folder / "rows.jsonl";
  ASSERT_EQ(run_neap("compare mlp --steps 2 --budgets 100% --policies store-all --json " + rows).status, 0);
  const Outcome refused = run_neap("report " + rows);
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("rows of neap compare"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("neap train --json"), std::string::npos) << refused.err;
  EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "rows.html"));
}

TEST(Report, OfAResumedRunMissesNothing) {
  const ScratchFolder folder;
  const std::string flags = "--checkpoint " + (folder / "run") + " --resume --json " + (folder / "run.jsonl");
  ASSERT_EQ(run_neap(kRun + ("--steps 2 " + flags)).status, 0);
  ASSERT_EQ(run_neap(kRun + ("--steps 4 " + flags)).status, 0);
  ASSERT_EQ(lines_of(read_file(folder / "run.jsonl"))[0]["step"], 3);
  EXPECT_EQ(run_neap("report " + (folder / "run.jsonl")).err, "");
}

// Runs until its log has so many lines, then does `then`, where $pid is the run's; its end is the outcome.
Outcome run_until(int lines, const std::string& log, const std::string& flags, const std::string& then) {
  const std::string has = "$(cat " + log + ".part 2>/dev/null | wc -l)";
  const std::string wait =
      "until [ " + has + " -ge " + std::to_string(lines) + " ]; do sleep 0.05; kill -0 $pid || exit 1; done\n";
  return run_neap(kRun + ("--steps 20000 --json " + log + " " + flags + " & pid=$!\n" + wait + then + "\nwait $pid"));
}

TEST(RunLog, OfAKilledRunIsThereInWholeLines) {
  const ScratchFolder folder;
  const std::string log = folder / "run.jsonl";
  write_text(log, "older\n");
  const std::string second = NEAP_PROGRAM " train mlp --steps 1 --json " + log;
  const Outcome killed = run_until(5, log, "--decisions " + (folder / "d.jsonl"), second + "; kill -9 $pid");
  EXPECT_EQ(killed.status, 128 + 9) << killed.err;
  EXPECT_NE(killed.err.find("another run writes it"), std::string::npos) << killed.err;
  EXPECT_EQ(read_file(log), "older\n");
  const std::string text = read_file(log + ".part");
  const auto lines = lines_of(text.substr(0, text.rfind('\n') + 1));
  ASSERT_GE(lines.size(), 5U);
  const Outcome page = run_neap("report " + log);
  EXPECT_EQ(page.status, 0) << page.err;
  EXPECT_NE(page.err.find("run.jsonl.part"), std::string::npos) << page.err;
  EXPECT_EQ(run_of(read_file(folder / "run.html"))["steps"], lines.size());
  EXPECT_EQ(run_neap(kRun + ("--steps 3 --replay " + (folder / "d.jsonl.part"))).status, 0);

  const Outcome over = run_neap(kRun + ("--steps 2 --json " + log));
  ASSERT_EQ(over.status, 0) << "over what the killed run left";
  EXPECT_NE(over.err.find("run.jsonl.part', of a run that has not ended, will be replaced"), std::string::npos)
      << over.err;
  EXPECT_EQ(lines_of(read_file(log)).size(), 3U);
  EXPECT_FALSE(std::filesystem::exists(log + ".part"));
  EXPECT_EQ(run_neap("report " + log).err, "");
}

TEST(RunLog, HasItsSummaryWhenTheWeightsCannotBeSaved) {
  const ScratchFolder folder;
  const std::string log = folder / "run.jsonl";
  const std::string weights = folder / "w.safetensors";
  const std::string flags = "--budget 60% --report " + (folder / "run.html") + " --save " + weights;
  const Outcome o = run_until(2, log, flags, "mkdir " + weights + "; kill -TERM $pid");
  EXPECT_EQ(o.status, 2) << o.err;
  EXPECT_NE(o.err.find("w.safetensors"), std::string::npos) << o.err;
  const auto lines = lines_of(read_file(log));
  ASSERT_GE(lines.size(), 3U);
  const auto is_summary = [](const Json& line) { return line.contains("summary"); };
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(), is_summary), 1);
  EXPECT_TRUE(lines.back().contains("advice")) << "what comes late replaces the summary that was there early";
  const Json run = run_of(read_file(folder / "run.html"));
  EXPECT_EQ(run["problem"], "");
  EXPECT_EQ(run["summary"]["weights_hash"], lines.back()["weights_hash"]);
  EXPECT_FALSE(std::filesystem::exists(log + ".part"));
}

TEST(RunLog, OfARunThatFailsHasTheStepsBefore) {
  const ScratchFolder folder;
  const std::string log = folder / "run.jsonl";
  ASSERT_EQ(run_neap(kRun + ("--steps 4 --batch-schedule 3:8 --decisions " + (folder / "d.jsonl"))).status, 0);
  const Outcome o =
      run_neap(kRun + ("--steps 4 --batch-schedule 4:8 --json " + log + " --replay " + (folder / "d.jsonl")));
  EXPECT_EQ(o.status, 2) << o.err;
  EXPECT_NE(o.err.find("step 3"), std::string::npos) << o.err;
  EXPECT_FALSE(std::filesystem::exists(log)) << "half of a run";
  EXPECT_EQ(lines_of(read_file(log + ".part")).size(), 2U);
  const Outcome page = run_neap("report " + log);
  EXPECT_EQ(page.status, 0) << page.err;
  EXPECT_NE(page.err.find("run.jsonl.part"), std::string::npos) << page.err;
  EXPECT_NE(page.err.find("did not end"), std::string::npos) << page.err;
}

TEST(RunLog, OfARefusedRunIsNotThereAndTheOlderOneStays) {
  const ScratchFolder folder;
  const std::string log = folder / "run.jsonl";
  write_text(log, "older\n");
  const std::string files = " --json " + log + " --decisions " + (folder / "d.jsonl");
  EXPECT_EQ(run_neap(kRun + ("--replay /no/such/decisions" + files)).status, 2);
  EXPECT_EQ(run_neap(kRun + ("--budget 1KiB" + files)).status, 3);
  EXPECT_EQ(read_file(log), "older\n");
  EXPECT_EQ(folder.files().size(), 1U);
}

TEST(TensorBoardProgram, WritesOneEventAStep) {
  const ScratchFolder folder;
  trained("--steps 3 --tensorboard " + (folder / "events"));
  std::string bytes;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "events")) bytes = read_file(entry.path());
  std::size_t records = 0;
  for (std::size_t at = 0; at < bytes.size(); ++records) {
    std::uint64_t size = 0;
    std::memcpy(&size, &bytes.at(at), sizeof size);
    at += 8 + 4 + size + 4;
    ASSERT_LE(at, bytes.size());
  }
  EXPECT_EQ(records, 4U) << "the version, and three steps";
  EXPECT_NE(bytes.find("memory/peak_MiB"), std::string::npos);
}

// Plans come when the controller has them, which is at another step each time: a replay does not care.
TEST(Replay, DoesTheSameAtTheSameSteps) {
  const ScratchFolder folder;
  const auto first = trained("--steps 16 --budget-schedule 1:80%,9:50% --decisions " + (folder / "d.jsonl"));
  const auto again = trained("--steps 16 --replay " + (folder / "d.jsonl"));
  ASSERT_EQ(first.size(), again.size());
  for (std::size_t i = 0; i + 1 < first.size(); ++i) {
    for (const char* key : {"plan_id", "peak_bytes", "budget_bytes", "loss_hex"}) {
      EXPECT_EQ(first[i][key], again[i][key]) << key << " at step " << i + 1;
    }
  }
  EXPECT_GT(first.back()["plan_swaps"], 0);
  EXPECT_EQ(first.back()["weights_hash"], again.back()["weights_hash"]);
}

TEST(Replay, RefusesWhatIsNotItsOwn) {
  const ScratchFolder folder;
  trained("--steps 2 --decisions " + (folder / "d.jsonl"));
  const std::string text = read_file(folder / "d.jsonl");
  const auto expect_refused = [&](const std::string& command, const std::string& names) {
    const Outcome o = run_neap(command + " --replay " + (folder / "d.jsonl"));
    EXPECT_EQ(o.status, 2) << o.err;
    EXPECT_NE(o.err.find(names), std::string::npos) << o.err;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  };
  expect_refused("train mlp --steps 2", "model");
  write_text(folder / "d.jsonl", text.substr(0, text.size() / 2));
  expect_refused(kRun, "line 2");
  std::string other = text;
  const std::size_t node = other.find("\"instructions\":[[0,") + 19;
  other.replace(node, other.find(',', node) - node, "999999");
  write_text(folder / "d.jsonl", other);
  expect_refused(kRun, "does not have");
  write_text(folder / "d.jsonl", "garbage\n");
  expect_refused(kRun, "line 1");
}

TEST(Fit, FindsTheLargestThatFits) {
  const std::string model = "gpt-mini:layers=2,width=32,heads=2,vocab=64 --length 32 ";
  const Outcome o = run_neap("fit " + model + "--budget 3MiB --json -");
  ASSERT_EQ(o.status, 0) << o.err;
  const Json fit = Json::parse(o.out);
  const auto batch = fit["largest"].get<std::int64_t>();
  EXPECT_GT(batch, fit["store_all_largest"].get<std::int64_t>());
  EXPECT_LE(fit["min_budget_bytes"], 3 << 20);
  EXPECT_GT(fit["next_bytes"], 3 << 20);
  EXPECT_FALSE(fit["limit"].get<std::string>().empty());
  const auto plan = [&](std::int64_t size) {
    return run_neap("plan " + model + "--budget 3MiB --json - --batch " + std::to_string(size)).status;
  };
  EXPECT_EQ(plan(batch), 0);
  EXPECT_EQ(plan(batch + 1), 3);
  EXPECT_EQ(fit["outside_bytes"], 0) << "it was given no place there";
  const Outcome length =
      run_neap("fit gpt-mini:layers=2,width=32,heads=2,context=128 --length 64 --budget 1GiB --find length --json -");
  ASSERT_EQ(length.status, 0) << length.err;
  EXPECT_EQ(Json::parse(length.out)["largest"], 128) << "the model's own limit";
}

TEST(Fit, AModelOfOneLengthHasNoOther) {
  const ScratchFolder folder;
  const std::string file = folder / "model.onnx";
  ASSERT_EQ(
      run_neap("train gpt-mini:layers=1,width=32,heads=2,vocab=64,context=64 --length 32 --steps 1 --save " + file)
          .status,
      0);
  const Outcome fit = run_neap("fit " + file + " --loss cross-entropy --budget 1GiB --find length");
  EXPECT_EQ(fit.status, 2);
  EXPECT_NE(fit.err.find("sequences of 32 only"), std::string::npos) << fit.err;
  const Outcome plan = run_neap("plan " + file + " --loss cross-entropy --batch 4 --budget min+20%");
  EXPECT_EQ(plan.status, 0) << plan.err;
  EXPECT_NE(plan.out.find("Batches of up to"), std::string::npos) << plan.out;
  EXPECT_EQ(plan.out.find("sequences"), std::string::npos) << plan.out;
}

TEST(Fit, SaysHowMuchLeavesTheBudget) {
  const std::string model =
      "gpt-mini:layers=2,width=64,heads=2,vocab=64 --length 64 --spill-dir /dev/shm --budget 6MiB ";
  const Outcome o = run_neap("fit " + model + "--json -");
  ASSERT_EQ(o.status, 0) << o.err;
  const Json fit = Json::parse(o.out);
  ASSERT_GT(fit["outside_bytes"], 0);
  const std::string batch = "--batch " + fit["largest"].dump();
  EXPECT_NE(run_neap("fit " + model).out.find("outside of it    up to "), std::string::npos);
  const Outcome plan = run_neap("plan " + model + batch + " --json -");
  EXPECT_EQ(Json::parse(plan.out)["outside_bytes"], fit["outside_bytes"]);
}

TEST(Explain, PlanSaysWhatDecisionsCostAndWhatWouldHelp) {
  const Outcome o = run_neap("plan gpt-mini:layers=3,width=32,heads=2,vocab=64 --length 32 --batch 4 --budget 60%");
  ASSERT_EQ(o.status, 0) << o.err;
  for (const char* words : {"frees", "Below store-all by", "more (", "Batches of up to"}) {
    EXPECT_NE(o.out.find(words), std::string::npos) << words << "\n" << o.out;
  }
}

// The length, too, where there are sequences: what `neap fit` finds, in a plan and in the report of a run.
TEST(Explain, SaysWhichLengthWouldFit) {
  const ScratchFolder folder;
  const std::string model = "lstm-lm:hidden=32,vocab=64 --batch 4 --budget ";
  const Outcome longer = run_neap("plan " + model + "min --length 48 --json -");
  ASSERT_EQ(longer.status, 0) << longer.err;
  const std::string budget = Json::parse(longer.out)["min_budget_bytes"].dump();
  const Outcome fit = run_neap("fit " + model + budget + " --length 32 --find length --json -");
  ASSERT_EQ(fit.status, 0) << fit.err;
  const Json found = Json::parse(fit.out);
  ASSERT_GE(found["largest"], 48);
  ASSERT_LT(found["largest"], 64) << "as far as advice looks";
  const std::string words = "At this batch, sequences of up to " + found["largest"].dump() + " fit into ";
  const Outcome plan = run_neap("plan " + model + budget + " --length 32");
  EXPECT_NE(plan.out.find(words), std::string::npos) << words << "\n" << plan.out;
  const Outcome run = run_neap("train " + model + budget + " --length 32 --steps 2 --report " + (folder / "run.html"));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_NE(read_file(folder / "run.html").find(words), std::string::npos) << words;
  EXPECT_EQ(run_neap("plan mlp --budget 80%").out.find("sequences"), std::string::npos);
}

// Whatever is written to a run's socket is answered with one line, and the run goes on.
TEST(Control, GarbageIsAnsweredAndTheRunGoesOn) {
  const ScratchFolder folder;
  const std::string script =
      "exec 2>/dev/null\n" NEAP_PROGRAM
      " train mlp --steps 1000000 --json /dev/null & pid=$!\n"
      "sock=${XDG_RUNTIME_DIR:-/tmp}/neap-$pid.sock\n[ -d \"$XDG_RUNTIME_DIR\" ] || sock=/tmp/neap-$pid.sock\n"
      "for i in $(seq 200); do [ -S $sock ] && break; sleep 0.1; done\n"
      "python3 - $sock <<'E' > " +
      (folder / "answers") +
      "\n"
      "import socket, sys\n"
      "for text in (b'\\xff\\x00\\x1bgarbage\\n', b'\\n', b'budget lots\\n', b'x' * 1000 + b'\\n', b'budget "
      "1GiB\\n'):\n"
      "    s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(text)\n"
      "    print(ascii(s.makefile('rb').readline()))\n"
      "E\nkill -0 $pid && echo alive >> " +
      (folder / "answers") + "\nkill -9 $pid\nwait $pid\n";
  write_text(folder / "script", script);
  ASSERT_GE(std::system(("bash " + (folder / "script")).c_str()), 0);
  std::istringstream in(read_file(folder / "answers"));
  std::vector<std::string> answers;
  for (std::string line; std::getline(in, line);) answers.push_back(line);
  ASSERT_EQ(answers.size(), 6U) << read_file(folder / "answers");
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(answers[static_cast<std::size_t>(i)].rfind("b\"error ", 0), 0U) << answers[static_cast<std::size_t>(i)];
  EXPECT_NE(answers[0].find("budget SIZE"), std::string::npos) << answers[0];
  EXPECT_EQ(answers[4].rfind("b'ok ", 0), 0U) << answers[4];
  EXPECT_EQ(answers[5], "alive");
}

TEST(Control, LooksWhereverTheSocketCanBe) {
  using Paths = std::vector<std::string>;
  EXPECT_EQ(control_paths(7, {.of_process = "/theirs", .of_caller = "/ours", .owner = 1000}),
            (Paths{"/theirs/neap-7.sock", "/ours/neap-7.sock", "/run/user/1000/neap-7.sock", "/tmp/neap-7.sock"}));
  EXPECT_EQ(control_paths(7, {.of_process = "/run/user/0", .of_caller = "/run/user/0", .owner = 0}),
            (Paths{"/run/user/0/neap-7.sock", "/tmp/neap-7.sock"}))
      << "each once";
  EXPECT_EQ(control_paths(7, {.of_process = "", .of_caller = "", .owner = {}}), Paths{"/tmp/neap-7.sock"});
}

// What `neap budget PID size` says to a run; both with settings of the environment as `env` takes them.
std::string told(const std::string& run_with, const std::string& ask_with, const std::string& size) {
  const ScratchFolder folder;
  const std::string script = "exec 2>/dev/null\nenv " + run_with + " " NEAP_PROGRAM +
                             " train mlp --steps 1000000 --json /dev/null >/dev/null & pid=$!\n"
                             "for i in $(seq 200); do env " +
                             ask_with + " " NEAP_PROGRAM " budget $pid " + size + " > " + (folder / "answer") +
                             " && break; sleep 0.1; done\nkill $pid\nwait $pid\n";
  write_text(folder / "script", script);
  EXPECT_GE(std::system(("bash " + (folder / "script")).c_str()), 0);
  return read_file(folder / "answer");
}

// As from ssh, systemd or sudo.
TEST(Control, IsFoundFromAnotherSession) {
  const ScratchFolder folder;
  std::filesystem::create_directories(folder / "a");
  std::filesystem::create_directories(folder / "b");
  const std::string a = "XDG_RUNTIME_DIR=" + (folder / "a");
  const std::string b = "XDG_RUNTIME_DIR=" + (folder / "b");
  const std::string none = "-u XDG_RUNTIME_DIR";
  EXPECT_NE(told(none, a, "1GiB").find("the budget is 1.00 GiB"), std::string::npos) << "in /tmp";
  EXPECT_NE(told(a, none, "1GiB").find("the budget is 1.00 GiB"), std::string::npos);
  EXPECT_NE(told(a, b, "1GiB").find("the budget is 1.00 GiB"), std::string::npos);
}

TEST(Control, SaysThatLessThanTheMinimumWasAskedFor) {
  const std::string less = told("-u NEAP_NONE", "-u NEAP_NONE", "1KiB");
  EXPECT_NE(less.find("from the next step on: the minimum, and 1.0 KiB is less"), std::string::npos) << less;
  const std::string more = told("-u NEAP_NONE", "-u NEAP_NONE", "min+10%");
  EXPECT_NE(more.find("from the next step on\n"), std::string::npos) << more;
}

}  // namespace
}  // namespace neap
