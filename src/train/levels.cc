#include "train/levels.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/random.h"
#include "graph/op.h"
#include "neap/error.h"
#include "plan/rounding.h"

namespace neap {
namespace {

using precision::Level;
using precision::OpClass;

constexpr double kDefaultTarget = 0.1;
// Steps between two measurements of a sensitivity.
constexpr std::int64_t kMeasureEvery = 8;
// A new sensitivity moves the known one so far.
constexpr double kBlend = 0.5;
constexpr double kLeastSensitivity = 0.05;
constexpr double kMostSensitivity = 100;

constexpr std::pair<std::string_view, OpClass> kClasses[] = {
    {"product", OpClass::kProduct},     {"norm", OpClass::kNorm},           {"activation", OpClass::kActivation},
    {"attention", OpClass::kAttention}, {"recurrent", OpClass::kRecurrent},
};

Level level_named(const std::string& text, std::string_view setting) {
  if (const auto level = precision::parse_level(text); level && *level != Level::kBit) return *level;
  throw UserError(fmt::format("{} '{}': take fp32, fp16, bf16, int8 or int4", setting, text));
}

void read_table(const std::string& text, precision::LevelTable& table) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    const std::size_t equals = part.find('=');
    const auto known = std::find_if(std::begin(kClasses), std::end(kClasses),
                                    [&](const auto& entry) { return entry.first == part.substr(0, equals); });
    if (equals == part.npos || known == std::end(kClasses)) {
      throw UserError(fmt::format(
          "--precision-table '{}': write CLASS=LEVEL with a class of product, norm, activation, attention, recurrent",
          part));
    }
    table[static_cast<std::size_t>(known->second)] = level_named(part.substr(equals + 1), "--precision-table");
    at = end + 1;
  }
}

std::optional<Level> fixed_by(const std::string& policy) {
  if (policy == "bf16") return Level::kBf16;
  if (policy == "int8") return Level::kInt8;
  if (policy == "int4") return Level::kInt4;
  return std::nullopt;
}

}  // namespace

std::optional<double> parse_tolerance(const std::string& text) {
  if (text == "exact") return std::nullopt;
  if (text == "default") return kDefaultTarget;
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || !(value > 0) || std::isinf(value)) {
    throw UserError(fmt::format("--tolerance '{}': take exact, default, or a number above 0", text));
  }
  return value;
}

precision::PrecisionConfig precision_config(const PrecisionOptions& o) {
  precision::PrecisionConfig out;
  out.target_accuracy = parse_tolerance(o.tolerance).value_or(kDefaultTarget);
  out.precision_levels = precision::parse_levels(o.levels);
  if (std::find(out.precision_levels.begin(), out.precision_levels.end(), Level::kBit) != out.precision_levels.end()) {
    throw UserError(fmt::format("--precision-levels '{}': take some of fp32, fp16, bf16, int8, int4", o.levels));
  }
  out.default_precision = level_named(o.default_precision, "--default-precision");
  if (o.choice != "threshold" && o.choice != "table") {
    throw UserError(fmt::format("--precision-choice '{}': take threshold or table", o.choice));
  }
  out.mode = o.choice == "table" ? precision::ChoiceMode::kTable : precision::ChoiceMode::kThreshold;
  read_table(o.table, out.table);
  out.profiling_window = o.profiling_window;
  out.profiling_granularity = {.layers = o.profiling_layers, .batches = o.profiling_batches};
  precision::check(out);
  return out;
}

std::unique_ptr<Levels> Levels::make(const TrainOptions& options, const Graph& longest) {
  precision::PrecisionConfig config = precision_config(options.precision);
  const std::optional<Level> fixed = fixed_by(options.policy);
  if (!fixed && !parse_tolerance(options.precision.tolerance)) return nullptr;
  if (fixed) {  // profiled like the others, so that errors can be compared
    config.mode = precision::ChoiceMode::kTable;
    config.precision_levels = {*fixed};
    config.table.fill(*fixed);
  }
  std::unique_ptr<Levels> out(new Levels);
  out->is_adaptive_ = !fixed;
  out->may_feed_recomputation_ = options.precision.quantize_recompute_inputs;
  out->flow_ = options.precision.flow_quantized;
  std::vector<precision::BoardTensor> board;
  std::map<std::string, std::int64_t> layers;
  for (const Storable& s : find_storable(longest)) {
    const Tensor& tensor = longest.at(s.id);
    const std::string& layer = longest.at(tensor.producer).layer;
    const auto number = layers.emplace(layer, static_cast<std::int64_t>(layers.size())).first->second;
    out->index_[tensor.name] = out->tensors_.size();
    out->tensors_.push_back({.name = tensor.name, .layer = layer});
    board.push_back({.elements = s.elements, .op_class = s.op_class, .reach = s.reach, .layer = number});
  }
  out->board_ = std::make_unique<precision::LevelBoard>(std::move(config), std::move(board));
  out->held_ = out->chosen();
  return out;
}

Levels::Choice Levels::chosen() const {
  Choice out;
  for (std::size_t i = 0; i < tensors_.size(); ++i) out.push_back(board_->level(i));
  return out;
}

void Levels::hold(Choice choice) {
  held_ = std::move(choice);
  coming_.clear();
  coming_version_ = 0;
}

void Levels::begin(std::int64_t step) {
  if (coming_version_ == 0 || step < due_) return;
  version_ = coming_version_;
  hold(std::move(coming_));
}

StoredLevels Levels::in(const Graph& graph, const Choice& choice) const {
  StoredLevels out{.of = std::vector<Level>(graph.tensors.size(), Level::kFp32),
                   .may_feed_recomputation = may_feed_recomputation_,
                   .flow = flow_};
  for (const Storable& s : find_storable(graph)) {
    const auto known = index_.find(graph.at(s.id).name);
    if (known != index_.end()) out.of[s.id.index] = choice[known->second];
  }
  return out;
}

std::vector<TensorId> Levels::profiled(const Graph& graph, std::int64_t step) const {
  std::vector<TensorId> out;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (!board_->is_profiled(i, step)) continue;
    if (const auto id = graph.find(tensors_[i].name)) out.push_back(*id);
  }
  return out;
}

void Levels::before(Executor& executor, const Rounded& rounded, std::int64_t step) {
  const Graph& graph = executor.program().graph;
  if (board_->is_profile_step(step)) executor.watch(profiled(graph, step));
  if (!measurement_ && step % kMeasureEvery == 0 && !tensors_.empty()) {
    measurement_ = Measurement{.tensor = next_measured_++ % tensors_.size(), .sketch = std::nullopt};
  }
  if (!measurement_) return;
  const auto id = graph.find(tensors_[measurement_->tensor].name);
  // Other plans may have room for more, but what is measured may not depend on which of them runs.
  const bool is_there = id && std::ranges::binary_search(rounded.trials, *id) &&
                        executor.arrange_trial(*id, measurement_->sketch.has_value());
  if (!is_there) measurement_.reset();
}

void Levels::after(Executor& executor, std::int64_t step, std::int64_t notice) {
  if (executor.trial() && measurement_) measure(*executor.trial());
  if (board_->is_profile_step(step)) {
    for (const Executor::Watched& w : executor.watched()) {
      const auto known = index_.find(executor.program().graph.at(w.tensor).name);
      if (known != index_.end()) board_->observe(known->second, w.statistics);
    }
    executor.watch({});
    board_->settle();
  }
  if (coming_version_ != 0) return;  // one at a time: what is chosen meanwhile comes next
  Choice next = chosen();
  if (next == held_) return;
  if (notice == 0) {
    version_ = ++last_version_;
    return hold(std::move(next));
  }
  coming_ = std::move(next);
  coming_version_ = ++last_version_;
  due_ = step + 1 + notice;
}

// By what share of the result's own noise, from batch to batch, a unit of relative variance changes it.
void Levels::measure(const TrialResult& result) {
  Measurement& m = *measurement_;
  if (!m.sketch) {
    m.sketch = result.sketch;
    return;
  }
  double own = 0;
  for (std::size_t i = 0; i < result.sketch.size(); ++i) {
    const double d = result.sketch[i] - (*m.sketch)[i];
    own += d * d / 2;
  }
  if (own > 0 && std::isfinite(own) && std::isfinite(result.change)) {
    const double measured = std::clamp(result.change / own / kTrialNoise, kLeastSensitivity, kMostSensitivity);
    const double before = board_->sensitivity(m.tensor);
    board_->set_sensitivity(m.tensor, (1 - kBlend) * before + kBlend * measured);
  }
  measurement_.reset();
}

std::string Levels::report(const CannotEncode& trouble, const Graph& graph) {
  std::string names;
  constexpr std::size_t kShown = 3;
  std::size_t shown = 0;
  unsigned flags = 0;
  for (const CannotEncode::Tensor& t : trouble.tensors) {
    const std::string& name = graph.at(t.id).name;
    const auto known = index_.find(name);
    require(known != index_.end(), "what was encoded is known");
    board_->report(known->second, t.flags);
    flags |= t.flags;
    if (++shown <= kShown)
      names += fmt::format("{}'{}' ({})", names.empty() ? "" : ", ", name, precision::name(t.level));
  }
  board_->settle();
  version_ = ++last_version_;
  hold(chosen());
  troubles_ += static_cast<std::int64_t>(trouble.tensors.size());
  if (shown > kShown) names += fmt::format(" and {} more", shown - kShown);
  const char* const why = (flags & precision::kNan) != 0        ? "NaN"
                          : (flags & precision::kInfinite) != 0 ? "infinite values"
                          : (flags & precision::kOverflow) != 0 ? "values too far apart"
                                                                : "values too small";
  return fmt::format("{}: {}; stored exactly from now on, and the step is run again", names, why);
}

// What must agree for the words behind it to mean the same.
std::string Levels::settings() const {
  const precision::PrecisionConfig& c = board_->config();
  std::uint64_t names = 0;
  for (const Known& t : tensors_) names = hash_text(t.name, names);
  std::string levels;
  for (const Level level : c.precision_levels) levels += fmt::format(",{}", precision::name(level));
  return fmt::format("{} {} {:016x} {} {} {} {} held", c.mode == precision::ChoiceMode::kTable ? "table" : "threshold",
                     tensors_.size(), names, levels, c.profiling_window, c.target_accuracy, kMeasureEvery);
}

std::string Levels::text() const {
  precision::WordWriter out;
  board_->write(out);
  for (const Level level : held_) out.put(static_cast<int>(level));
  out.put(coming_version_ != 0 ? 1 : 0);
  for (const Level level : coming_) out.put(static_cast<int>(level));
  out.put(due_);
  out.put(troubles_);
  out.put(next_measured_);
  out.put(measurement_ ? 1 : 0);
  if (measurement_) {
    out.put(measurement_->tensor);
    out.put(measurement_->sketch ? 1 : 0);
    if (measurement_->sketch) {
      for (const double v : *measurement_->sketch) out.put(v);
    }
  }
  return fmt::format("{}\n{}", settings(), out.text());
}

bool Levels::restore(const std::string& text) {
  const std::size_t line = text.find('\n');
  if (line == text.npos) return false;
  if (text.substr(0, line) != settings()) return true;
  precision::WordReader in(std::string_view(text).substr(line + 1));
  board_->read(in);
  const auto read = [&](Choice& out) {
    out.clear();
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      out.push_back(static_cast<Level>(in.integer(0, precision::kLevels - 1)));
    }
  };
  read(held_);
  coming_.clear();
  const bool is_coming = in.integer(0, 1) == 1;
  if (is_coming) read(coming_);
  due_ = in.integer();
  troubles_ = in.integer();
  next_measured_ = static_cast<std::size_t>(in.integer());
  measurement_.reset();
  if (in.integer(0, 1) == 1) {
    const auto most = static_cast<std::int64_t>(tensors_.size()) - 1;
    measurement_ = Measurement{.tensor = static_cast<std::size_t>(in.integer(0, most)), .sketch = std::nullopt};
    if (in.integer(0, 1) == 1) {
      measurement_->sketch.emplace();
      for (double& v : *measurement_->sketch) v = in.real();
    }
  }
  version_ = ++last_version_;
  coming_version_ = is_coming ? ++last_version_ : 0;
  return in.is_good() && in.is_at_end();
}

// The windows of profiles are nearly all of it.
std::int64_t Levels::bytes() const {
  const auto window = static_cast<std::size_t>(board_->config().profiling_window);
  return static_cast<std::int64_t>(tensors_.size() * (sizeof(Known) + (window + 2) * sizeof(precision::Statistics)));
}

// Tensors that another shape's graph has not are exact in it.
Levels::Choice Levels::encoded_by(const Plan& plan, const Graph& graph) const {
  const StoredLevels settled = settled_levels(plan, graph, {});
  Choice out;
  for (const Known& t : tensors_) {
    const auto id = graph.find(t.name);
    out.push_back(id ? settled.of[id->index] : Level::kFp32);
  }
  return out;
}

double Levels::total_error(const Plan& plan, const Graph& graph) const {
  const Choice encoded = encoded_by(plan, graph);
  double out = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) out += board_->error(i, encoded[i]);
  return out;
}

std::vector<StoredTensorReport> Levels::rows(const Plan& plan, const Graph& graph) const {
  const Choice encoded = encoded_by(plan, graph);
  std::vector<StoredTensorReport> out;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    StoredTensorReport row{.name = tensors_[i].name, .layer = tensors_[i].layer};
    row.level = precision::name(encoded[i]);
    row.error = board_->error(i, encoded[i]);
    row.sensitivity = board_->sensitivity(i);
    if (const auto& s = board_->statistics(i)) {
      row.mean = s->mean;
      row.deviation = s->deviation;
      row.entropy = s->entropy;
      row.outliers = s->outliers;
    }
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace neap
