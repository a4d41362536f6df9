// Residual networks (He et al. 2016): basic blocks with a 3x3 stem for small images, bottlenecks with a 7x7 stem.
#include "neap/layers.h"
#include "registry.h"

namespace neap {
namespace {

// The input itself, or a 1x1 projection where the shape changes.
Value shortcut(Builder& g, Value x, std::int64_t out, std::int64_t stride) {
  if (stride == 1 && g.shape(x)[-1] == Dim(out)) return x;
  return batch_norm(g, "down.1", conv2d(g, "down.0", x, out, 1, {.stride = stride}));
}

Value basic_block(Builder& g, Value x, std::int64_t width, std::int64_t stride) {
  Value y = conv2d(g, "conv1", x, width, 3, {.stride = stride, .pad = 1});
  y = batch_norm(g, "bn1", y, {.relu = true});
  y = conv2d(g, "conv2", y, width, 3, {.pad = 1});
  return batch_norm(g, "bn2", y, {.relu = true, .residual = shortcut(g, x, width, stride)});
}

Value bottleneck(Builder& g, Value x, std::int64_t width, std::int64_t stride) {
  Value y = batch_norm(g, "bn1", conv2d(g, "conv1", x, width, 1), {.relu = true});
  y = conv2d(g, "conv2", y, width, 3, {.stride = stride, .pad = 1});
  y = batch_norm(g, "bn2", y, {.relu = true});
  y = conv2d(g, "conv3", y, 4 * width, 1);
  return batch_norm(g, "bn3", y, {.relu = true, .residual = shortcut(g, x, 4 * width, stride)});
}

using BlockFunction = Value (*)(Builder&, Value, std::int64_t, std::int64_t);

struct Stages {
  BlockFunction block;
  std::int64_t width;
  std::vector<int> counts;
  bool large_stem;
};

Value stem(Builder& g, Value x, const Stages& s) {
  const ConvOptions options = s.large_stem ? ConvOptions{.stride = 2, .pad = 3} : ConvOptions{.pad = 1};
  x = conv2d(g, "conv1", x, s.width, s.large_stem ? 7 : 3, options);
  x = batch_norm(g, "bn1", x, {.relu = true});
  return s.large_stem ? max_pool(g, x, 3, 2, 1) : x;
}

void build(Builder& g, const ModelContext& c, const Stages& s) {
  const Value image = image_input(g, c);
  const Value label = label_input(g);
  Value x = stem(g, image, s);
  for (std::size_t stage = 0; stage < s.counts.size(); ++stage) {
    for (int i = 0; i < s.counts[stage]; ++i) {
      const Builder::Scope scope(g, "layer" + std::to_string(stage + 1) + "." + std::to_string(i));
      x = s.block(g, x, s.width << stage, i == 0 && stage > 0 ? 2 : 1);
    }
  }
  x = g("global_average_pool", {x}, {}, "pool");
  x = g("reshape", {x}, {{"shape", Shape{Dim::symbol("batch"), g.shape(x)[-1]}}}, "flat");
  finish(g, linear(g, "fc", x, c.classes), label);
}

void build20(Builder& g, const ModelContext& c) { build(g, c, {basic_block, 16, {3, 3, 3}, false}); }
void build18(Builder& g, const ModelContext& c) { build(g, c, {basic_block, 64, {2, 2, 2, 2}, false}); }
void build50(Builder& g, const ModelContext& c) { build(g, c, {bottleneck, 64, {3, 4, 6, 3}, true}); }

}  // namespace

extern const ModelInfo resnet20 = {.name = "resnet20",
                                   .what = "residual network with 20 layers for small images (0.27 M)",
                                   .task = Task::kImages,
                                   .batch = 64,
                                   .image = 32,
                                   .channels = 3,
                                   .classes = 10,
                                   .build = build20};

extern const ModelInfo resnet18 = {.name = "resnet18",
                                   .what = "residual network with 18 layers and a 3x3 stem (11.2 M)",
                                   .task = Task::kImages,
                                   .batch = 32,
                                   .image = 64,
                                   .channels = 3,
                                   .classes = 10,
                                   .build = build18};

extern const ModelInfo resnet50 = {.name = "resnet50",
                                   .what = "residual network with 50 layers and bottlenecks (25.6 M)",
                                   .task = Task::kImages,
                                   .batch = 8,
                                   .image = 224,
                                   .channels = 3,
                                   .classes = 1000,
                                   .build = build50};

}  // namespace neap
