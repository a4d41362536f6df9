#include <algorithm>

#include "neap/layers.h"
#include "registry.h"

namespace neap {
namespace {

void build(Builder& g, const ModelContext& c) {
  const Value image = image_input(g, c);
  const Value label = label_input(g);
  Value x = g("reshape", {image}, {{"shape", Shape{Dim::symbol("batch"), c.image * c.image * c.channels}}}, "flat");
  const auto hidden = static_cast<std::int64_t>(c.parameters.at("hidden"));
  x = g("relu", {linear(g, "fc1", x, hidden)});
  x = g("relu", {linear(g, "fc2", x, std::max<std::int64_t>(hidden / 2, 1))});
  finish(g, linear(g, "fc3", x, c.classes), label);
}

constexpr ModelParameter kParameters[] = {
    {"hidden", 256, "width of the first hidden layer; the second has half of it"}};

}  // namespace

extern const ModelInfo mlp = {.name = "mlp",
                              .what = "three fully connected layers",
                              .task = Task::kImages,
                              .batch = 64,
                              .image = 28,
                              .channels = 1,
                              .classes = 10,
                              .parameters = kParameters,
                              .build = build};

}  // namespace neap
