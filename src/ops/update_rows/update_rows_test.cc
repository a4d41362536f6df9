#include <cmath>

#include "ops/elementwise/in_place_check.h"

namespace neap {
namespace {

constexpr std::int64_t kRows = 23;

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

HostTensor ids_of(const std::vector<std::int64_t>& ids, DType type) {
  HostTensor out({type, {static_cast<std::int64_t>(ids.size())}});
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (type == DType::kI32) out.as<std::int32_t>()[i] = static_cast<std::int32_t>(ids[i]);
    if (type == DType::kI64) out.as<std::int64_t>()[i] = ids[i];
  }
  return out;
}

// Two lookups: rows picked twice, by one or by both, the first and the last, and neighbours.
HostTensor first_ids() { return ids_of({7, 22, 7, 0, 8, 7}, DType::kI32); }
HostTensor second_ids() { return ids_of({3, 7, 3, 22}, DType::kI64); }
constexpr std::int64_t kPicks = 10;

struct Rule {
  const char* name;
  bool has_m, has_v;
  std::int64_t nesterov;
};
constexpr Rule kRules[] = {{"sgd_update", false, false, 0},
                           {"sgd_update", true, false, 0},
                           {"sgd_update", true, false, 1},
                           {"adam_update", true, true, 0},
                           {"adamw_update", true, true, 0}};

// State as it is before a step: zeros of both signs are among it.
struct State {
  HostTensor param, m, v;
};
State state_of(std::int64_t width) {
  State out{random_tensor(f32({kRows, width}), 1), random_tensor(f32({kRows, width}), 2),
            random_tensor(f32({kRows, width}), 3, 0, 1)};
  for (std::int64_t i = 0; i < kRows * width; i += 3) out.m.floats()[i] = i % 2 == 0 ? -0.0F : 0.0F;
  return out;
}

HostTensor hyper(float scale = 1) {
  return tensor_of({8}, {0.01F, 0.9F, 0.999F, 1e-8F, 0.1F, 0.271F, 0.002997F, scale});
}

OpCase rest_case(const Rule& rule, std::int64_t width, std::int64_t first, std::int64_t count) {
  const TensorType table = f32({kRows, width});
  OpCase c{.op = "rest_update",
           .inputs = {table, f32({count, width}), table, table, f32({8}), f32({kPicks, width}), first_ids().type,
                      second_ids().type},
           .attrs = {{"rule", std::string(rule.name)}, {"nesterov", rule.nesterov}, {"first", first}},
           .given = {{3, random_tensor(table, 77, 0, 1)}, {4, hyper()}, {6, first_ids()}, {7, second_ids()}}};
  if (!rule.has_m) c.absent.push_back(2);
  if (!rule.has_v) c.absent.push_back(3);
  return c;
}

OpCase rows_case(const Rule& rule, std::int64_t width) {
  const TensorType table = f32({kRows, width});
  OpCase c{.op = "rows_update",
           .inputs = {table, f32({kPicks, width}), table, table, f32({8}), first_ids().type, f32({6, width}),
                      second_ids().type, f32({4, width})},
           .attrs = {{"rule", std::string(rule.name)}, {"nesterov", rule.nesterov}},
           .given = {{3, random_tensor(table, 77, 0, 1)}, {4, hyper()}, {5, first_ids()}, {7, second_ids()}}};
  if (!rule.has_m) c.absent.push_back(2);
  if (!rule.has_v) c.absent.push_back(3);
  return c;
}

TEST(UpdateRows, KernelsAgree) {
  for (const Rule& rule : kRules) {
    for (const std::int64_t width : {1, 17, 1100}) {
      check_kernels(rest_case(rule, width, 0, kRows));
      check_kernels(rest_case(rule, width, 5, 9));
      OpCase first = rest_case(rule, width, 0, 8);
      first.absent.push_back(5);
      check_kernels(first);
      check_kernels(rows_case(rule, width));
    }
  }
}

void give_state(OpCase& c, const Rule& rule, const State& state) {
  c.given[0] = state.param;
  if (rule.has_m) c.given[2] = state.m;
  if (rule.has_v) c.given[3] = state.v;
}

State changed(const State& before, const std::vector<HostTensor>& out, std::size_t at) {
  State now = before;
  if (at < out.size()) now.param = out[at];
  if (at + 1 < out.size()) now.m = out[at + 1];
  if (at + 2 < out.size()) now.v = out[at + 2];
  return now;
}

// What the graph does without them: embedding_grad of each lookup, sums, one update.
State whole_update(const Rule& rule, const State& state, const HostTensor& dense, const HostTensor& dy1,
                   const HostTensor& dy2) {
  const Shape shape = state.param.type.shape;
  HostTensor sum = dense;
  const auto add = [&](const HostTensor& ids, const HostTensor& dy) {
    const auto of_lookup = run_op({.op = "embedding_grad",
                                   .inputs = {ids.type, dy.type},
                                   .attrs = {{"shape", shape}},
                                   .given = {{0, ids}, {1, dy}}});
    for (std::int64_t i = 0; i < shape.count(); ++i) sum.floats()[i] += of_lookup[0].floats()[i];
  };
  add(first_ids(), dy1);
  add(second_ids(), dy2);
  const bool is_sgd = std::string_view(rule.name) == "sgd_update";
  OpCase c{.op = rule.name, .inputs = {f32(shape), f32(shape), f32(shape), f32(shape), f32({8})}};
  if (is_sgd) c.inputs = {f32(shape), f32(shape), f32(shape), f32({8})};
  if (is_sgd) c.attrs = {{"nesterov", rule.nesterov}};
  if (!rule.has_m) c.absent.push_back(2);
  give_state(c, rule, state);
  c.given[1] = sum;
  c.given[is_sgd ? 3 : 4] = hyper();
  return changed(state, run_op(c), 0);
}

State update_in_parts(const Rule& rule, State state, const HostTensor& dense, const HostTensor& dy1,
                      const HostTensor& dy2, std::int64_t step) {
  const std::int64_t width = dense.type.shape.size(1);
  HostTensor kept;
  for (std::int64_t first = 0; first < kRows; first += step) {
    const std::int64_t count = std::min(step, kRows - first);
    OpCase c = rest_case(rule, width, first, count);
    give_state(c, rule, state);
    HostTensor part(f32({count, width}));
    std::copy_n(dense.floats() + first * width, count * width, part.floats());
    c.given[1] = part;
    if (first == 0) c.absent.push_back(5);
    if (first > 0) c.given[5] = kept;
    const auto out = run_op(c, "simd");
    kept = out[0];
    state = changed(state, out, 1);
  }
  OpCase c = rows_case(rule, width);
  give_state(c, rule, state);
  c.given[1] = kept;
  c.given[6] = dy1;
  c.given[8] = dy2;
  return changed(state, run_op(c, "simd"), 0);
}

TEST(UpdateRows, AreTheWholeUpdateToTheBit) {
  for (const Rule& rule : kRules) {
    for (const std::int64_t width : {3, 40, 1030}) {
      HostTensor dense = random_tensor(f32({kRows, width}), 5);
      HostTensor dy1 = random_tensor(f32({6, width}), 6);
      const HostTensor dy2 = random_tensor(f32({4, width}), 7);
      for (std::int64_t i = 0; i < kRows * width; i += 2) dense.floats()[i] = -0.0F;
      for (std::int64_t i = 0; i < 6 * width; i += 5) dy1.floats()[i] = -0.0F;
      const State before = state_of(width);
      const State whole = whole_update(rule, before, dense, dy1, dy2);
      EXPECT_NE(whole.param.data, before.param.data);
      for (const std::int64_t step : {kRows, std::int64_t{8}, std::int64_t{1}}) {
        const State parts = update_in_parts(rule, before, dense, dy1, dy2, step);
        EXPECT_EQ(parts.param.data, whole.param.data) << rule.name << width << step;
        EXPECT_EQ(parts.m.data, whole.m.data) << rule.name << width << step;
        EXPECT_EQ(parts.v.data, whole.v.data) << rule.name << width << step;
      }
    }
  }
}

// A scale of 0: parts of the batch are still to come. What is kept is kept all the same.
TEST(UpdateRows, PutOffChangesNothing) {
  for (const char* kernel : {"simd", "ref"}) {
    OpCase rest = rest_case(kRules[4], 5, 0, kRows);
    rest.given[0] = random_tensor(f32({kRows, 5}), 9);
    rest.given[1] = random_tensor(f32({kRows, 5}), 8);
    rest.given[4] = hyper(0);
    const auto out = run_op(rest, kernel);
    EXPECT_EQ(values_of(out[1]), values_of(rest.given[0])) << kernel;
    EXPECT_EQ(out[0].floats()[0], rest.given[1].floats()[7 * 5]) << kernel;
    OpCase rows = rows_case(kRules[4], 5);
    rows.given[0] = rest.given[0];
    rows.given[4] = hyper(0);
    EXPECT_EQ(values_of(run_op(rows, kernel)[0]), values_of(rows.given[0])) << kernel;
  }
}

TEST(UpdateRows, OnAnyNumberOfThreads) {
  check_in_place(rest_case(kRules[4], 40, 3, 9));
  check_threads(rest_case(kRules[4], 1500, 2, 20));
  check_threads(rows_case(kRules[4], 3000));
}

TEST(UpdateRows, RefuseWhatDoesNotFit) {
  const auto refuses = [](const OpCase& c) { EXPECT_THROW(run_op(c), UserError); };
  OpCase c = rest_case(kRules[4], 4, 5, kRows);  // rows that the table does not have
  refuses(c);
  c = rest_case(kRules[4], 4, 0, kRows);
  c.attrs.set("rule", std::string("lion_update"));
  refuses(c);
  c = rest_case(kRules[0], 4, 0, kRows);
  c.attrs.set("nesterov", std::int64_t{1});
  refuses(c);
  c = rest_case(kRules[4], 4, 0, kRows);
  c.absent.push_back(3);
  refuses(c);
  c = rest_case(kRules[4], 4, 0, kRows);
  c.given[6].as<std::int32_t>()[2] = kRows;
  refuses(c);
  c = rows_case(kRules[4], 4);
  c.inputs[1] = f32({kPicks - 1, 4});
  refuses(c);
  c = rows_case(kRules[4], 4);
  c.inputs[6] = f32({5, 4});
  refuses(c);
  c = rows_case(kRules[4], 4);
  c.inputs.resize(5);
  refuses(c);
}

}  // namespace
}  // namespace neap
