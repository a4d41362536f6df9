#include "registry.h"

#include <array>

namespace neap {
namespace {

constexpr std::array kModels = {&mlp,      &cnn,  &resnet20,  &resnet18, &resnet50,
                                &gpt_mini, &gpt2, &bert_mini, &lstm_lm,  &gru_lm};

}  // namespace

std::span<const ModelInfo* const> models() { return kModels; }

const ModelInfo* find_model(std::string_view name) {
  for (const ModelInfo* m : kModels) {
    if (m->name == name) return m;
  }
  return nullptr;
}

}  // namespace neap
