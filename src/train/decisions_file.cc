#include "train/decisions_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "neap/error.h"
#include "plan/validate.h"

namespace neap {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;

// ---- Plans. Arrays instead of objects: a plan has thousands of these. An id of none is -1. ----

template <class IdType>
Json id_json(IdType id) {
  return id ? Json(id.index) : Json(-1);
}

template <class IdType>
IdType id_of(const Json& json) {
  const auto index = json.get<std::int64_t>();
  return index < 0 ? IdType{} : IdType{static_cast<std::uint32_t>(index)};
}

Json operand_json(const Operand& o) { return {id_json(o.block), o.offset}; }
Operand operand_of(const Json& j) { return {id_of<BlockId>(j.at(0)), j.at(1).get<std::int64_t>()}; }

template <class Range, class Make>
Json list_json(const Range& range, Make make) {
  Json out = Json::array();
  for (const auto& each : range) out.push_back(make(each));
  return out;
}

template <class Value, class Make>
std::vector<Value> list_of(const Json& json, Make make) {
  std::vector<Value> out;
  for (const Json& each : json) out.push_back(make(each));
  return out;
}

precision::Level level_of(const Json& j) {
  const auto level = j.get<std::int64_t>();
  if (level < 0 || level >= static_cast<std::int64_t>(precision::kLevels)) throw UserError("there is no such level");
  return static_cast<precision::Level>(level);
}

Json block_json(const Block& b) {
  return {static_cast<int>(b.kind), id_json(b.tensor), b.bytes, b.lower, b.upper, b.offset, static_cast<int>(b.level)};
}

Block block_of(const Json& j) {
  const int kind = j.at(0).get<int>();
  if (kind < 0 || kind > static_cast<int>(BlockKind::kWorkspace)) throw UserError("there is no such kind of block");
  return {.kind = static_cast<BlockKind>(kind),
          .tensor = id_of<TensorId>(j.at(1)),
          .bytes = j.at(2).get<std::int64_t>(),
          .lower = j.at(3).get<Tick>(),
          .upper = j.at(4).get<Tick>(),
          .offset = j.at(5).get<std::int64_t>(),
          .level = level_of(j.at(6))};
}

Json instruction_json(const Instruction& in) {
  return {static_cast<int>(in.action),
          id_json(in.node),
          list_json(in.inputs, operand_json),
          list_json(in.outputs, operand_json),
          operand_json(in.workspace),
          id_json(in.slot),
          id_json(in.tensor),
          in.elements,
          static_cast<int>(in.level)};
}

Instruction instruction_of(const Json& j) {
  const int action = j.at(0).get<int>();
  if (action < 0 || action > static_cast<int>(Action::kFetchWait)) throw UserError("there is no such action");
  return {.action = static_cast<Action>(action),
          .node = id_of<NodeId>(j.at(1)),
          .inputs = list_of<Operand>(j.at(2), operand_of),
          .outputs = list_of<Operand>(j.at(3), operand_of),
          .workspace = operand_of(j.at(4)),
          .slot = id_of<SlotId>(j.at(5)),
          .tensor = id_of<TensorId>(j.at(6)),
          .elements = j.at(7).get<std::int64_t>(),
          .level = level_of(j.at(8))};
}

Json plan_json(const Plan& p) {
  return {{"blocks", list_json(p.blocks, block_json)},
          {"instructions", list_json(p.instructions, instruction_json)},
          {"slots", p.slots},
          {"slot_tensors", list_json(p.slot_tensors, [](TensorId id) { return id_json(id); })},
          {"homes", list_json(p.homes,
                              [](const auto& h) {
                                return Json{id_json(h.first), operand_json(h.second)};
                              })},
          {"state_bytes", p.state_bytes},
          {"peak_bytes", p.peak_bytes},
          {"lower_bound_bytes", p.lower_bound_bytes},
          {"flows", p.flows}};
}

Plan plan_of(const Json& j) {
  Plan out;
  out.blocks = list_of<Block>(j.at("blocks"), block_of);
  out.instructions = list_of<Instruction>(j.at("instructions"), instruction_of);
  out.slots = j.at("slots").get<std::vector<std::int64_t>>();
  out.slot_tensors = list_of<TensorId>(j.at("slot_tensors"), id_of<TensorId>);
  out.homes = list_of<std::pair<TensorId, Operand>>(
      j.at("homes"), [](const Json& h) { return std::pair(id_of<TensorId>(h.at(0)), operand_of(h.at(1))); });
  out.state_bytes = j.at("state_bytes").get<std::int64_t>();
  out.peak_bytes = j.at("peak_bytes").get<std::int64_t>();
  out.lower_bound_bytes = j.at("lower_bound_bytes").get<std::int64_t>();
  out.flows = j.at("flows").get<bool>();
  return out;
}

// ---- Lines ----

Json head_json(const DecisionsHead& h) {
  return {{"neap_decisions", kVersion}, {"model", h.model}, {"numerics_id", h.numerics_id}, {"batch", h.batch}};
}

DecisionsHead head_of(const Json& j) {
  return {j.at("model").get<std::string>(), j.at("numerics_id").get<std::string>(), j.at("batch").get<std::int64_t>()};
}

void check_head(const Json& j, const DecisionsHead& head) {
  if (j.at("neap_decisions") != kVersion) throw UserError("it is of another version of neap's");
  const DecisionsHead there = head_of(j);
  if (there == head) return;
  throw UserError(fmt::format(
      "it is of model '{}' at batch {} (numerics {}), this run of '{}' at batch {} (numerics {})",
      printable(there.model), there.batch, printable(there.numerics_id), head.model, head.batch, head.numerics_id));
}

DecisionsEntry entry_of(const Json& j, std::int64_t batch) {
  DecisionsEntry out{.step = j.at("step").get<std::int64_t>(),
                     .batch = j.value("batch", batch),
                     .length = j.at("length").get<std::int64_t>()};
  if (!j.at("budget_bytes").is_null()) out.budget = j.at("budget_bytes").get<std::int64_t>();
  if (j.contains("plan")) out.plan = plan_of(j.at("plan"));
  return out;
}

bool has_known_ids(const Plan& plan, const Graph& graph) {
  const auto is_tensor = [&](TensorId id) { return id.index < graph.tensors.size(); };
  const auto is_operand = [&](const Operand& o) { return !o.block || o.block.index < plan.blocks.size(); };
  const auto is_call = [&](const Instruction& in) {
    return in.node.index < graph.nodes.size() && std::all_of(in.inputs.begin(), in.inputs.end(), is_operand) &&
           std::all_of(in.outputs.begin(), in.outputs.end(), is_operand) && is_operand(in.workspace) &&
           (!is_transfer(in.action) || in.slot.index < plan.slots.size()) &&
           (!is_codec(in.action) || is_tensor(in.tensor));
  };
  return std::all_of(plan.blocks.begin(), plan.blocks.end(),
                     [&](const Block& b) { return !b.tensor || is_tensor(b.tensor); }) &&
         std::all_of(plan.instructions.begin(), plan.instructions.end(), is_call) &&
         std::all_of(plan.slot_tensors.begin(), plan.slot_tensors.end(), is_tensor) &&
         plan.slot_tensors.size() == plan.slots.size() &&
         std::all_of(plan.homes.begin(), plan.homes.end(),
                     [&](const auto& home) { return is_tensor(home.first) && is_operand(home.second); });
}

}  // namespace

std::optional<std::string> check_recorded(const Plan& plan, const Graph& graph, const Costs& costs) {
  if (!has_known_ids(plan, graph)) return "it names what the model does not have";
  return validate(plan, graph, costs);
}

std::optional<RecordedStart> recorded_start(const std::string& path) {
  const MappedFile file(path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.size());
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  try {
    const DecisionsHead head = head_of(Json::parse(text.substr(0, end)));
    Json first = Json::parse(text.substr(end + 1, text.find('\n', end + 1) - end - 1));
    first.erase("plan");
    return RecordedStart{head, entry_of(first, head.batch)};
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

DecisionsWriter::DecisionsWriter(const std::string& path, const DecisionsHead& head)
    : file_(path), head_(head_json(head).dump() + "\n") {}

void DecisionsWriter::line(const std::string& text) {
  file_.line(head_ + text);
  head_.clear();
}

void DecisionsWriter::finish() {
  if (!head_.empty()) line("");  // a run without a step
  file_.finish();
}

void DecisionsWriter::add(const DecisionsEntry& e) {
  Json out = {{"step", e.step},
              {"batch", e.batch},
              {"length", e.length},
              {"budget_bytes", e.budget ? Json(*e.budget) : Json(nullptr)}};
  if (e.plan) out["plan"] = plan_json(*e.plan);
  line(out.dump() + "\n");
}

DecisionsReader::DecisionsReader(const std::string& path, const DecisionsHead& head) : path_(path) {
  const MappedFile file(path);
  std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.size());
  if (path.ends_with(".part")) text = text.substr(0, text.rfind('\n') + 1);  // a killed run may not have ended its line
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    try {
      const Json json = Json::parse(line);
      if (number == 1) {
        check_head(json, head);
        continue;
      }
      DecisionsEntry entry = entry_of(json, head.batch);
      const std::int64_t step = entry.step;
      if (!entries_.empty() && step <= entries_.rbegin()->first)
        throw UserError("its step does not come after the last");
      if (entries_.empty() && !entry.plan) throw UserError("the first step has no plan");
      entries_.emplace_hint(entries_.end(), step, std::move(entry));
    } catch (const Json::exception&) {
      throw UserError(fmt::format("--replay '{}', line {}: it is nothing that --decisions has written", path, number));
    } catch (const UserError& e) {
      throw UserError(fmt::format("--replay '{}', line {}: {}", path, number, e.what()));
    }
  }
  if (entries_.empty()) throw UserError(fmt::format("--replay '{}': there are no decisions in it", path));
}

const DecisionsEntry* DecisionsReader::at(std::int64_t step) const {
  const auto found = entries_.find(step);
  return found == entries_.end() ? nullptr : &found->second;
}

}  // namespace neap
