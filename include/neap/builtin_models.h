// Built-in models: a name, its parameters with defaults, and a function that builds the graph.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "neap/builder.h"
#include "neap/model.h"

namespace neap {

enum class Task : std::uint8_t { kImages, kTokens };

// What a model is built for. Numbers that the model has not as parameters come from the command line or the data.
struct ModelContext {
  std::int64_t length = 0;                   // time steps, language models
  std::int64_t image = 0;                    // side of the image
  std::int64_t channels = 0;                 // of the image
  std::int64_t classes = 0;                  // or vocabulary
  bool padded = false;                       // sequences may end in padding
  std::map<std::string, double> parameters;  // "hidden" -> 1024; those not given have the defaults of the model
};

struct ModelParameter {
  std::string_view name;
  double value;
  std::string_view what;
};

struct ModelInfo {
  std::string_view name;
  std::string_view what;
  Task task = Task::kImages;
  std::int64_t batch = 32;  // a sensible default
  std::int64_t length = 0;  // default, tokens only
  std::int64_t image = 0;   // default, images only
  std::int64_t channels = 0;
  std::int64_t classes = 0;  // or vocabulary
  std::span<const ModelParameter> parameters;
  bool takes_padding = false;  // see Model
  // Adds inputs, layers and the result "loss".
  void (*build)(Builder& g, const ModelContext& context) = nullptr;
};

std::span<const ModelInfo* const> models();
// Null when there is none.
const ModelInfo* find_model(std::string_view name);

// "lstm-lm:hidden=1024,vocab=10000". UserError names what is not known.
std::shared_ptr<const Model> open_builtin_model(std::string_view text);

}  // namespace neap
