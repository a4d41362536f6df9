#include "neap/layers.h"
#include "registry.h"

namespace neap {
namespace {

Value stage(Builder& g, std::string_view conv, std::string_view norm, Value x, std::int64_t out) {
  x = conv2d(g, conv, x, out, 3, {.pad = 1});
  x = batch_norm(g, norm, x, {.relu = true});
  return max_pool(g, x, 2, 2);
}

void build(Builder& g, const ModelContext& c) {
  const Value image = image_input(g, c);
  const Value label = label_input(g);
  Value x = stage(g, "conv1", "bn1", image, 32);
  x = stage(g, "conv2", "bn2", x, 64);
  const std::int64_t side = c.image / 4;
  x = g("reshape", {x}, {{"shape", Shape{Dim::symbol("batch"), side * side * 64}}}, "flat");
  x = g("relu", {linear(g, "fc1", x, 128)});
  x = dropout(g, x, c.parameters.at("dropout"));
  finish(g, linear(g, "fc2", x, c.classes), label);
}

constexpr ModelParameter kParameters[] = {{"dropout", 0.25, "before the last layer"}};

}  // namespace

extern const ModelInfo cnn = {.name = "cnn",
                              .what = "two convolutions and two fully connected layers, for 28x28 images",
                              .task = Task::kImages,
                              .batch = 64,
                              .image = 28,
                              .channels = 1,
                              .classes = 10,
                              .parameters = kParameters,
                              .build = build};

}  // namespace neap
