#include <fmt/format.h>

#include <csignal>
#include <exception>

#include "cli/commands.h"
#include "cli/control.h"
#include "cli/output.h"
#include "cli/run_log.h"
#include "cli/train_flags.h"
#include "core/bytes.h"
#include "neap/error.h"
#include "train/budget.h"

namespace neap {
namespace {

volatile std::sig_atomic_t g_stop = 0;  // set by SIGINT and SIGTERM: finish the step, save, leave

void ask_to_stop(int /*signal*/) { g_stop = 1; }

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

// Says now, not after hours, that it cannot be written.
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

void print_end(const Summary& s, Progress& progress) {
  progress.note(fmt::format("{} steps, {:.1f} ms a step (median), loss {:.4f}, peak {} of the arena, weights {}",
                            s.steps, s.median_step_ms, s.loss_last, human_bytes(s.peak_bytes), s.weights_hash));
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
  fmt::print(stderr, "neap: step {}: {}\n", report.step, report.note);
}

bool has_evaluation(const TrainOptions& o) { return !o.eval.empty() || o.validation > 0; }

void train(Trainer& trainer, const TrainCommand& c, RunLog& log, Progress& progress) {
  const TrainOptions& o = c.flags.options;
  const std::int64_t arena_bytes = trainer.plan().arena_bytes;
  const bool evaluates = has_evaluation(o) && c.eval_every > 0;
  while (trainer.step() < o.steps && g_stop == 0) {
    const StepReport report = trainer.advance();
    log.step(trainer, report);
    warn(report, progress);
    progress.show(report, arena_bytes);
    if (!o.checkpoint.empty() && trainer.step() % o.checkpoint_every == 0) trainer.checkpoint();
    if (evaluates && trainer.step() % c.eval_every == 0) evaluate(trainer, log, progress);
  }
}

// Until the last step the budget can be changed from outside.
void train_while_told(Trainer& trainer, const Summary& first, const TrainCommand& c, RunLog& log, Progress& progress) {
  const BudgetBase base{first.state_bytes, first.store_all_bytes, first.min_budget_bytes};
  const ControlSocket control([&](const std::string& line) { return obey(trainer, base, line); });
  if (!control.why().empty()) progress.note("the budget cannot be changed while it runs: " + control.why());
  train(trainer, c, log, progress);
}

// Each, whatever becomes of the others; then throws the first error. Weights come first, what takes the log a while
// last, and all are tried.
void finish(Trainer& trainer, const TrainCommand& c, RunLog& log, Progress& progress) {
  const TrainOptions& o = c.flags.options;
  std::exception_ptr first;
  std::string told;
  const auto attempt = [&](bool is_wanted, const auto& write) {
    try {
      if (is_wanted) write();
    } catch (const std::exception& e) {
      progress.done();
      if (first && e.what() != told) fmt::print(stderr, "neap: {}\n", e.what());
      if (!first) first = std::current_exception();
      told = e.what();
    }
  };
  attempt(!o.checkpoint.empty(), [&] { trainer.checkpoint(); });
  attempt(!c.save.empty(), [&] { trainer.save(c.save); });
  attempt(has_evaluation(o), [&] { evaluate(trainer, log, progress); });
  attempt(true, [&] { log.end(trainer); });
  attempt(!c.save_learnt.empty(), [&] { write_file(c.save_learnt, trainer.learnt()); });
  attempt(!c.trace.empty(), [&] { trainer.write_trace(c.trace); });
  attempt(true, [&] { trainer.finish_decisions(); });
  attempt(true, [&] { log.finish(trainer); });
  if (first) std::rethrow_exception(first);
  print_end(trainer.summary(), progress);
}

int run(TrainCommand& c) {
  c.flags.finish();
  check_save_path(c.save);
  if (!c.trace.empty()) probe(c.trace);
  c.flags.options.trace = !c.trace.empty();
  RunLog log(c.log);
  const TrainOptions& o = c.flags.options;
  Trainer trainer(open_noted_model(o.model), o);
  Progress progress(trainer.step(), o.steps, log.is_stdout());
  const Summary first = trainer.summary();  // the socket's thread may not ask for one
  print_start(trainer, first, o, progress);
  std::signal(SIGINT, ask_to_stop);
  std::signal(SIGTERM, ask_to_stop);
  try {
    train_while_told(trainer, first, c, log, progress);
    finish(trainer, c, log, progress);
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
  app.add_option("--steps", o.steps, "steps to train")->check(CLI::NonNegativeNumber);
  app.add_option("--eval", o.eval, "data or split to evaluate on: test, or a data set");
  app.add_option("--eval-every", command->eval_every, "steps between evaluations")->check(CLI::NonNegativeNumber);
  app.add_option("--validation", o.validation, "share of the data held out")->check(CLI::Range(0.0, 0.9));
  app.add_option("--checkpoint", o.checkpoint, "folder for checkpoints");
  app.add_option("--checkpoint-every", o.checkpoint_every, "steps between checkpoints")->check(CLI::PositiveNumber);
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
