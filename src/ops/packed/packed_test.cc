#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

struct Layer {
  Shape x;
  std::int64_t out;
  bool bias = true, transposed = false;
};

// Each kernel against the reference, and to the bit against linear's kernel of the same name.
void check(const Layer& s) {
  const std::int64_t in = s.x.size(-1);
  const Attrs flag = {{"transposed", static_cast<std::int64_t>(s.transposed)}};
  const HostTensor weight = random_tensor(f32(s.transposed ? Shape{in, s.out} : Shape{s.out, in}), 3);
  const HostTensor packed =
      run_op({.op = "pack_linear", .inputs = {weight.type}, .attrs = flag, .given = {{0, weight}}})[0];
  const HostTensor rows = random_tensor(f32(s.x), 5);
  OpCase after = {.op = "linear_packed",
                  .inputs = {rows.type, packed.type},
                  .attrs = {{"in", in}, {"out", s.out}},
                  .given = {{0, rows}, {1, packed}},
                  .tolerance = 5e-5};
  OpCase before = {
      .op = "linear", .inputs = {rows.type, weight.type}, .attrs = flag, .given = {{0, rows}, {1, weight}}};
  if (s.bias) {
    for (OpCase* c : {&after, &before}) {
      c->inputs.push_back(f32({s.out}));
      c->given[2] = random_tensor(f32({s.out}), 7);
    }
  }
  check_kernels(after);
  for (const char* kernel : {"onednn", "simd"}) {
    EXPECT_EQ(run_op(after, kernel)[0].data, run_op(before, kernel)[0].data)
        << kernel << " " << s.x.text() << " to " << s.out;
  }
}

TEST(Packed, LayersKeepTheirBits) {
  for (const std::int64_t rows : {1, 3, 17, 64, 200}) {
    check({{rows, 384}, 384});
    check({{rows, 96}, 320, false});
    check({{rows, 37}, 100});
  }
  check({{2, 5, 130}, 64, true, true});
  check({{8, 1024}, 256, true, true});
  check({{4, 3}, 1});
}

TEST(Packed, RefusesWhatDoesNotFit) {
  EXPECT_THROW(run_op({.op = "pack_linear", .inputs = {f32({4})}}), UserError);
  EXPECT_THROW(run_op({.op = "linear_packed",
                       .inputs = {f32({2, 16}), f32({1, 16, 64})},
                       .attrs = {{"in", std::int64_t{16}}, {"out", std::int64_t{65}}}}),
               UserError);
}

}  // namespace
}  // namespace neap
