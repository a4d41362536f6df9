#include <fmt/format.h>
#include <unistd.h>

#include <exception>
#include <filesystem>
#include <set>

#include "cli/commands.h"
#include "cli/control.h"
#include "cli/output.h"
#include "cli/ranges.h"
#include "cli/run_log.h"
#include "cli/stop.h"
#include "cli/train_flags.h"
#include "core/bytes.h"
#include "core/log_file.h"
#include "neap/error.h"
#include "pool/spill_file.h"
#include "train/budget.h"

namespace neap {
namespace {

struct TrainCommand {
  TrainFlags flags;
  RunLogPaths log;
  std::string save;
  std::string save_learnt;
  std::string trace;
  std::int64_t eval_every = 0;
};

#ifdef NEAP_WITH_ONNX
constexpr bool kWritesOnnx = true;
#else
constexpr bool kWritesOnnx = false;
#endif

// Says whether it can be written.
void probe(const std::string& path) { const AtomicFile file(path); }

void check_save_path(const std::string& path) {
  if (path.empty()) return;
  const bool is_onnx = path.ends_with(".onnx");
  if (!is_onnx && !path.ends_with(".safetensors")) {
    throw UserError(fmt::format("--save '{}': the name must end in .safetensors or .onnx", path));
  }
  if (is_onnx && !kWritesOnnx) {
    throw UserError(fmt::format("--save '{}': cannot write ONNX in this build; save a .safetensors file", path));
  }
  probe(path);
}

void print_start(const Trainer& trainer, const Summary& s, const TrainOptions& o, Progress& progress) {
  const PlanReport p = trainer.plan();
  const std::string parts = s.parts > 1 ? fmt::format(" in {} parts", s.parts) : "";
  const std::string changes = o.batch_schedule.empty() ? "" : fmt::format(" (changes: {})", o.batch_schedule);
  progress.note(fmt::format("{} on {}, batch {}{}{}: {} of state, {} with everything stored, arena {}", s.model,
                            s.device, s.batch, changes, parts, human_bytes(s.state_bytes),
                            human_bytes(s.store_all_bytes), human_bytes(p.arena_bytes)));
  if (trainer.step() > 0) progress.note(fmt::format("goes on after step {}", trainer.step()));
}

std::string eval_text(const EvalReport& r) {
  std::string out = fmt::format("evaluation: loss {:.4f}", r.loss);
  if (r.accuracy) out += fmt::format("  accuracy {:.2f} %", 100 * *r.accuracy);
  if (r.perplexity) out += fmt::format("  perplexity {:.3f}", *r.perplexity);
  return out + fmt::format("  ({} samples)", r.samples);
}

void evaluate(Trainer& trainer, RunLog& log, Progress& progress) {
  const EvalReport report = trainer.evaluate();
  progress.note(eval_text(report));
  log.evaluation(trainer.step(), report);
}

void print_end(const Summary& s, std::int64_t first_step, Progress& progress) {
  if (s.steps == first_step) {
    progress.note(fmt::format("no step was left to train: {} steps, weights {}", s.steps, s.weights_hash));
    return;
  }
  progress.note(fmt::format("{} steps, {:.1f} ms a step (median), loss {:.4f}, peak {} of the arena, weights {}{}",
                            s.steps, s.median_step_ms, s.loss_last, human_bytes(s.peak_bytes), s.weights_hash,
                            is_asked_to_stop() ? "; stopped early" : ""));
}

// "budget SIZE" from `neap budget`; `base` is what shares in it are of.
std::string obey(Trainer& trainer, const BudgetBase& base, const std::string& line) {
  constexpr std::string_view kBudget = "budget ";
  if (!line.starts_with(kBudget)) {
    throw UserError(fmt::format("'{}' is nothing that a run understands; it takes 'budget SIZE'", printable(line)));
  }
  const std::string text = line.substr(kBudget.size());
  const std::int64_t held = trainer.set_budget(text);
  const std::int64_t asked = parse_budget(text, base).value_or(held);
  const std::string raised = asked < held ? fmt::format(": the minimum, and {} is less", human_bytes(asked)) : "";
  return fmt::format("the budget is {} from the next step on{}", human_bytes(held), raised);
}

// On standard error, where it meets neither JSON nor the moving line's end.
void warn(const StepReport& report, Progress& progress) {
  if (report.note.empty()) return;
  progress.done();
  tell(fmt::format("step {}: {}", report.step, report.note));
}

bool has_evaluation(const TrainOptions& o) { return !o.eval.empty() || o.validation > 0; }

// What training and its end need.
struct Run {
  const TrainCommand& c;
  Trainer& trainer;
  RunLog& log;
  Progress& progress;
  Summary begin = {};            // before the first step
  std::int64_t arena_bytes = 0;  // of the first plan

  const TrainOptions& options() const { return c.flags.options; }
};

void after_step(Run& run, const StepReport& report) {
  const TrainOptions& o = run.options();
  run.log.step(run.trainer, report);
  warn(report, run.progress);
  run.progress.show(report, run.arena_bytes);
  if (!o.checkpoint.empty() && report.step % o.checkpoint_every == 0) run.trainer.checkpoint();
  const bool evaluates = has_evaluation(o) && run.c.eval_every > 0;
  if (evaluates && report.step % run.c.eval_every == 0) evaluate(run.trainer, run.log, run.progress);
}

// What went wrong between two steps, when everything that was trained is whole; null: nothing. Throws what goes wrong
// within one.
std::exception_ptr train(Run& run) {
  try {
    while (run.trainer.step() < run.options().steps && !is_asked_to_stop()) after_step(run, run.trainer.advance());
  } catch (const std::exception&) {
    if (!run.trainer.is_whole()) throw;
    return std::current_exception();
  }
  return nullptr;
}

// Until the last step the budget can be changed from outside.
std::exception_ptr train_while_told(Run& run) {
  const BudgetBase base{run.begin.state_bytes, run.begin.store_all_bytes, run.begin.min_budget_bytes};
  const ControlSocket control([&](const std::string& line) { return obey(run.trainer, base, line); });
  if (!control.why().empty()) run.progress.note("the budget cannot be changed while it runs: " + control.why());
  return train(run);
}

std::string text_of(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

// Each, whatever becomes of the others; then throws the first error, `first` if there is one. Weights come first, what
// takes the log a while last.
void finish(Run& run, std::exception_ptr first) {
  const TrainCommand& c = run.c;
  Trainer& trainer = run.trainer;
  const bool is_whole = first == nullptr;
  std::set<std::string> known = {text_of(first)};
  const auto attempt = [&](bool is_wanted, const auto& write) {
    try {
      if (is_wanted) write();
    } catch (const std::exception& e) {
      run.progress.done();
      if (known.insert(e.what()).second && first) tell(e.what());
      if (!first) first = std::current_exception();
    }
  };
  attempt(!run.options().checkpoint.empty(), [&] { trainer.checkpoint(); });
  attempt(!c.save.empty(), [&] { trainer.save(c.save); });
  attempt(has_evaluation(run.options()) && is_whole, [&] { evaluate(trainer, run.log, run.progress); });
  attempt(is_whole, [&] { run.log.end(trainer); });
  attempt(!c.save_learnt.empty(), [&] { write_file(c.save_learnt, trainer.learnt()); });
  attempt(!c.trace.empty(), [&] { trainer.write_trace(c.trace); });
  attempt(is_whole, [&] { trainer.finish_decisions(); });
  attempt(is_whole, [&] { run.log.finish(trainer); });
  if (first) std::rethrow_exception(first);
  print_end(trainer.summary(), run.begin.steps, run.progress);
}

// What of the folder is there already takes files; the rest is made with the first checkpoint.
void check_checkpoint_folder(const std::string& folder) {
  if (folder.empty()) return;
  std::error_code absent;
  std::filesystem::path there = std::filesystem::absolute(folder);
  while (!std::filesystem::exists(there, absent) && there.has_relative_path()) there = there.parent_path();
  const bool is_folder = std::filesystem::is_directory(there, absent);
  if (is_folder && access(there.c_str(), W_OK | X_OK) == 0) return;
  throw UserError(fmt::format("--checkpoint '{}': '{}' {}", folder, there.string(),
                              is_folder ? "may not be written by you" : "is no folder"));
}

// A saved model that is about to go. Its bytes are nobody's business here: a damaged one goes, too.
void note_replaced_checkpoint(const TrainOptions& o) {
  const std::filesystem::path path = std::filesystem::path(o.checkpoint) / "checkpoint.safetensors";
  std::error_code absent;
  if (o.checkpoint.empty() || o.resume || !std::filesystem::exists(path, absent)) return;
  tell(fmt::format("'{}' will be replaced; --resume would go on from it", path.string()));
}

bool is_file(const std::string& path) { return !path.empty() && path != "-"; }

std::vector<NamedFile> growing_files(const TrainCommand& c) {
  std::vector<NamedFile> out = {{"--json", c.log.json}, {"--decisions", c.flags.options.decisions}};
  std::erase_if(out, [](const NamedFile& file) { return !is_file(file.path); });
  return out;
}

// What a run that was killed has told.
void note_replaced_logs(const TrainCommand& c) {
  for (const NamedFile& file : growing_files(c)) {
    const std::filesystem::path part = LogFile::part_of(file.path);
    std::error_code absent;
    if (!std::filesystem::is_regular_file(part, absent)) continue;
    tell(fmt::format("'{}', of a run that has not ended, will be replaced", part.string()));
  }
}

// Before the start, not after hours.
void check_outputs(const TrainCommand& c) {
  std::vector<NamedFile> files = {
      {"--report", c.log.report}, {"--trace", c.trace}, {"--save", c.save}, {"--save-learnt", c.save_learnt}};
  for (const NamedFile& file : growing_files(c)) {
    files.push_back(file);
    files.push_back({file.flag, LogFile::part_of(file.path).string()});
  }
  refuse_one_file_for_two(files);
  check_save_path(c.save);
  if (const std::string& folder = c.flags.options.spill_dir; !folder.empty()) const SpillFile probe(folder, 0);
  if (!c.trace.empty()) probe(c.trace);
  if (!c.save_learnt.empty()) probe(c.save_learnt);
  check_checkpoint_folder(c.flags.options.checkpoint);
}

int run(TrainCommand& c) {
  c.flags.finish();
  check_outputs(c);
  c.flags.options.trace = !c.trace.empty();
  RunLog log(c.log);
  const TrainOptions& o = c.flags.options;
  Trainer trainer(open_noted_model(o.model), o);
  note_replaced_checkpoint(o);
  note_replaced_logs(c);
  Progress progress(trainer.step(), o.steps, log.is_stdout());
  Run run{.c = c,
          .trainer = trainer,
          .log = log,
          .progress = progress,
          .begin = trainer.summary(),
          .arena_bytes = trainer.plan().arena_bytes};
  print_start(trainer, run.begin, o, progress);
  stop_when_asked();
  try {
    const std::exception_ptr error = train_while_told(run);
    finish(run, error);
  } catch (...) {
    log.abandon();
    throw;
  }
  return 0;
}

}  // namespace

Command add_train(CLI::App& app) {
  auto command = std::make_shared<TrainCommand>();
  add_train_flags(app, command->flags);
  TrainOptions& o = command->flags.options;
  app.add_option("--steps", o.steps, "steps to train")->check(not_negative());
  app.add_option("--eval", o.eval, "data or split to evaluate on: test, or a data set");
  app.add_option("--eval-every", command->eval_every, "steps between evaluations")->check(not_negative());
  app.add_option("--validation", o.validation, "share of the data held out")->check(CLI::Range(0.0, 0.9));
  app.add_option("--checkpoint", o.checkpoint, "folder for checkpoints");
  app.add_option("--checkpoint-every", o.checkpoint_every, "steps between checkpoints")->check(positive());
  app.add_flag("--resume", o.resume, "go on from the last checkpoint");
  app.add_option("--json", command->log.json, "one object a step and a summary; - is standard output");
  app.add_option("--report", command->log.report, "a page for people, FILE.html, that needs nothing else");
  app.add_option("--tensorboard", command->log.tensorboard, "folder for TensorBoard's event files");
  app.add_option("--decisions", o.decisions, "writes which plan and budget each step had, for --replay");
  app.add_option("--replay", o.replay, "budgets and plans of another run (--decisions), at the same steps");
  app.add_option("--trace", command->trace, "the last steps as FILE.json, for ui.perfetto.dev");
  app.add_option("--save-learnt", command->save_learnt, "what the agent has learnt, for --learnt of another run");
  app.add_option("--save", command->save, "what was trained: its weights as .safetensors, or the model as .onnx");
  return [command] { return run(*command); };
}

}  // namespace neap
